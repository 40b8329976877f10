"""Clients that are measured: processes that ask one thing at a time, at a steady pace, and note when and
how long it took. They follow MOVED and ASK, as the clients of a real cluster must."""
import array
import binascii
import os
import random
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from harness import resp  # noqa: E402

KEY = "key:%07d"


def slot_of(key):
    return binascii.crc_hqx(key.encode(), 0) % 16384


class Wires:
    """Connections by address; slots learnt from MOVED."""

    def __init__(self, first):
        self.first, self.places, self.wires = first, {}, {}

    def wire(self, address):
        if address not in self.wires:
            self.wires[address] = socket.create_connection(address, 10)
            self.wires[address].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.wires[address]

    def ask(self, key, request):
        """Whether it was answered without an error."""
        slot = slot_of(key)
        address, prefix = self.places.get(slot, self.first), b""
        for _ in range(20):
            wire = self.wire(address)
            wire.sendall(prefix + request)
            reply = last_of(wire, 2 if prefix else 1)
            prefix = b""
            if reply.startswith((b"-MOVED", b"-ASK")):
                word, _, place = reply.split()[:3]
                host, _, port = place.decode().rpartition(":")
                address = (host, int(port))
                if word == b"-MOVED":
                    self.places[slot] = address
                else:
                    prefix = b"*1\r\n$6\r\nASKING\r\n"
                continue
            if reply.startswith(b"-TRYAGAIN"):
                time.sleep(0.001)
                continue
            return not reply.startswith(b"-")
        return False


def last_of(wire, count):
    """The last one of so many replies."""
    data, start, end = bytearray(), 0, 0
    while count:
        end = resp.frame_end(data, start) if start < len(data) else -1
        if end < 0:
            more = wire.recv(1 << 16)
            if not more:
                raise OSError("closed")
            data += more
            continue
        count -= 1
        start, last = end, bytes(data[start:end])
    return last


class Probers:
    """`count` processes over so many keys, or with a `name` such that send PING to its node. stop() gives all measurements: sorted (time, seconds), and the errors."""

    def __init__(self, address, keys, value, count=3, pause=0.001, name=None):
        self.pipes = []
        for number in range(count):
            reading, writing = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reading)
                probe(address, keys, value, pause, name, number, writing)
            os.close(writing)
            self.pipes.append((pid, reading))

    def stop(self):
        found, errors = [], 0
        for pid, _ in self.pipes:
            os.kill(pid, signal.SIGTERM)
        for pid, reading in self.pipes:
            with os.fdopen(reading, "rb") as pipe:
                data = array.array("d", pipe.read())
            os.waitpid(pid, 0)
            errors += int(data.pop())
            found += zip(data[::2], data[1::2])
        return sorted(found), errors


def probe(address, keys, value, pause, name, number, writing):
    stopped, rng = [], random.Random(number)
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wires, found, errors = Wires(address), array.array("d"), 0
    try:
        while not stopped and os.getppid() != 1:
            key = name or KEY % rng.randrange(keys)
            request = resp.request("PING") if name else resp.request("GET", key)
            if not name and rng.random() < 0.2:
                request = resp.request("SET", key, value)
            began = time.monotonic()
            errors += not wires.ask(key, request)
            found.extend((began, time.monotonic() - began))
            time.sleep(pause)
    except OSError:
        errors += 1
    found.append(errors)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(found.tobytes())
    os._exit(0)


def percentile(waits, share):
    """Milliseconds."""
    waits = sorted(waits)
    return waits[min(int(len(waits) * share), len(waits) - 1)] * 1e3 if waits else 0.0
