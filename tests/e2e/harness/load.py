"""Background traffic that judges every reply: a Crowd of writers and readers, a Pinger that
measures others' waiting."""
import json
import os
import selectors
import signal
import socket
import statistics
import sys
import threading
import time

from . import resp
from .check import Failure, check


class Member:
    """One client of a crowd with one key of its own; every value says whose it is."""

    def __init__(self, number, address, key):
        self.number, self.key = number, key
        self.socket = socket.create_connection(address, 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.buffer = bytearray()
        self.counter = 0
        # What a GET may return: the value of the last OK, and of every SET since whose end is unknown.
        self.possible = {None}
        self.expected = []  # ("SET", value) or ("GET", None) in the order of their sending.
        self.open = True

    def batch(self, pairs):
        parts = []
        for _ in range(pairs):
            self.counter += 1
            text = b"%d|%d" % (self.number, self.counter)
            parts.append(resp.request("SET", self.key, text) + resp.request("GET", self.key))
            self.expected += [("SET", text), ("GET", None)]
        return b"".join(parts)


class Crowd:
    """`count` clients that loop SET and GET of unique values on their own keys until stop().

    It complains about a foreign or impossible value, a reply of the wrong kind, and an error for
    which `allowed` (a
    function of the raw error) is false."""

    def __init__(self, address, keys, allowed=None, pairs=4, closing_allowed=False):
        self.allowed = allowed or (lambda reply: False)
        self.closing_allowed, self.pairs, self.address = closing_allowed, pairs, address
        self.complaints, self.errors, self.replies = [], {}, 0
        self.waits = []  # Seconds per batch.
        self.members = [Member(number, address, key) for number, key in enumerate(keys)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self._stop.set()
        self._thread.join(30)
        for member in self.members:
            member.socket.close()

    def verdict(self, least=1):
        """Stops; fails when anything was wrong or hardly anything happened."""
        self.stop()
        if self.complaints:
            raise Failure(
                "%d complaints of the crowd:\n       %s"
                % (len(self.complaints), "\n       ".join(self.complaints[:8]))
            )
        check(self.replies >= least, "the crowd got %d replies only" % self.replies)
        return self

    def wait_for(self, replies, seconds=10):
        """Until so many more replies have come."""
        goal, deadline = self.replies + replies, time.monotonic() + seconds
        while self.replies < goal and not self.complaints:
            check(
                time.monotonic() < deadline,
                "the crowd got %d of %d replies within %g s"
                % (self.replies - goal + replies, replies, seconds),
            )
            time.sleep(0.005)

    def _run(self):
        chooser = selectors.DefaultSelector()
        for member in self.members:
            chooser.register(member.socket, selectors.EVENT_READ, member)
            self._send(member)
        while (
            not self._stop.is_set()
            and not self.complaints
            and any(member.open for member in self.members)
        ):
            for key, _ in chooser.select(0.05):
                member = key.data
                try:
                    data = member.socket.recv(1 << 16)
                except BlockingIOError:
                    continue
                except OSError:
                    data = b""
                if not data:
                    chooser.unregister(member.socket)
                    member.open = False
                    if not self.closing_allowed:
                        self.complaints.append("client %d was closed" % member.number)
                    continue
                member.buffer += data
                self._take(member)

    def _send(self, member):
        member.began = time.monotonic()
        try:
            member.socket.sendall(member.batch(self.pairs))
        except OSError:
            pass  # The close shows when reading.

    def _take(self, member):
        start = 0
        while member.expected:
            end = resp.frame_end(member.buffer, start)
            if end < 0:
                break
            self._judge(member, *member.expected.pop(0), bytes(member.buffer[start:end]))
            start = end
        del member.buffer[:start]
        if not member.expected:
            if member.buffer:
                self.complaints.append(
                    "client %d got more than it asked for: %r"
                    % (member.number, bytes(member.buffer[:80]))
                )
            self.waits.append(time.monotonic() - member.began)
            self._send(member)

    def _judge(self, member, command, text, reply):
        self.replies += 1
        if reply[:1] == b"-":
            word = reply.split()[0].decode()
            self.errors[word] = self.errors.get(word, 0) + 1
            if not self.allowed(reply):
                self.complaints.append("client %d, %s: %r" % (member.number, command, reply))
            if command == "SET":
                member.possible.add(text)
        elif command == "SET":
            if reply != b"+OK\r\n":
                self.complaints.append("client %d, SET: %r" % (member.number, reply))
            member.possible = {text}
        else:
            got = resp.value(reply) if reply[:1] in (b"$", b"_") else reply
            if got not in member.possible:
                self.complaints.append(
                    "client %d, GET %s: got %r, possible are %r"
                    % (member.number, member.key, got, sorted(member.possible, key=str)[:4])
                )


class Pinger:
    """A process of its own that sends one command at a time, so that this process's work is not
    measured with it."""

    def __init__(self, address, *command):
        self.reading, writing = os.pipe()
        command = resp.request(*(command or ("PING",)))
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reading)
            self._measure(address, command, writing)
        os.close(writing)

    @staticmethod
    def _measure(address, command, writing):
        parent, stop = os.getppid(), []
        signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
        signal.alarm(0)
        client = socket.create_connection(address, 5)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(20)
        waits, wrong = [], ""
        try:
            while not stop and os.getppid() == parent:
                began = time.monotonic()
                client.sendall(command)
                reply = client.recv(65536)
                waits.append(time.monotonic() - began)
                if not reply or reply[:1] == b"-":
                    wrong = repr(reply)
                    break
                time.sleep(0.001)
        except OSError as why:
            wrong = str(why)
        os.write(
            writing,
            json.dumps(
                {"waits": sorted(waits, reverse=True)[:2000], "count": len(waits), "wrong": wrong}
            ).encode()[:60000],
        )
        sys.stdout.flush()
        os._exit(0)

    def stop(self):
        """{"count", "worst", "wrong"}: seconds."""
        os.kill(self.pid, signal.SIGTERM)
        data = b""
        while True:
            part = os.read(self.reading, 65536)
            if not part:
                break
            data += part
        os.waitpid(self.pid, 0)
        os.close(self.reading)
        facts = json.loads(data)
        waits = facts["waits"]
        return {
            "count": facts["count"],
            "worst": waits[0] if waits else 0.0,
            "wrong": facts["wrong"],
            "median": statistics.median(waits) if waits else 0.0,
        }


class Latency:
    """Others' waiting during a heavy act, beside the same of an idle server: what the machine
    itself delays is no fault."""

    def __init__(self, address, quiet_address, *command):
        self.measured, self.control = Pinger(address, *command), Pinger(quiet_address, "PING")

    def delay(self, limit, what, median=None):
        """What was wrong with the others' waiting, in words; empty when nothing was. Seconds."""
        got, quiet = self.measured.stop(), self.control.stop()
        check(not got["wrong"], "%s: a reply to the others was %s" % (what, got["wrong"]))
        check(got["count"] > 20, "%s: only %d measurements" % (what, got["count"]))
        allowed = max(limit, quiet["worst"] + limit)
        if median is not None and got["median"] >= max(median, quiet["median"] * 2):
            return "%s: the median of the others is %.1f ms" % (what, got["median"] * 1e3)
        if got["worst"] < allowed:
            return ""
        return "%s: others waited up to %.1f ms, allowed %.0f ms (an idle server's worst was %.1f ms)" % (
            what,
            got["worst"] * 1e3,
            allowed * 1e3,
            quiet["worst"] * 1e3,
        )


def best_of(tries, act):
    """Acts until nothing was delayed. A busy machine delays anything now and then; what the proxy
    does wrong, it does each time."""
    delays = []
    while len(delays) < tries:
        delay = act()
        if not delay:
            return
        delays.append(delay)
    raise Failure("in each of %d tries: %s" % (tries, "; ".join(delays)))
