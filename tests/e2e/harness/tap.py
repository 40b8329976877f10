"""Tap: stands between the proxy and one redis-server, lets all pass both ways, pushes too, sees
every request on its way, and can act at a chosen one: the failpoints of the chaos tests.

    tap.at(is_restore, act)               before the request goes on; who is dead then, has not sent it
    tap.at(is_restore, act, sent=True)    when it has gone on, and its reply has not come back
    tap.rewrite = newer_payload           makes other requests of a mover's
"""
import socket
import threading
import time

from . import processes, resp


class Link:
    """One connection through the tap. `is_movers`: a mover speaks over it."""

    def __init__(self, client, server):
        self.client, self.server = client, server
        self.is_movers = False
        self.may_pass = threading.Event()
        self.may_pass.set()
        self.replies_may_pass = threading.Event()
        self.replies_may_pass.set()

    def has_hung_up(self):
        try:
            return not self.client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False

    def close(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.may_pass.set()
        self.replies_may_pass.set()


class Tap:
    def __init__(self, upstream):
        self.upstream = upstream
        self.port = processes.free_port()
        self.passed = {"up": [], "down": []}  # (time, bytes) of movers' connections.
        self.links, self.lock = [], threading.Lock()
        self.points = []  # (matches, act, sent)
        self.rewrite = None  # args -> other args, or None.
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(self.address)
        self.listener.listen(512)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def at(self, matches, act, sent=False):
        """Once: `act()` at the first request of a mover for which `matches(args)`. Returns an Event
        that is set when it has acted."""
        done = threading.Event()
        self.points.append((matches, act, sent, done))
        return done

    def hold(self):
        """Keeps back what passes over the connections that are open now; new ones work."""
        with self.lock:
            held = list(self.links)
        for link in held:
            link.may_pass.clear()
            link.replies_may_pass.clear()
        return held

    def release(self, held):
        """What was kept back goes on its way."""
        for link in held:
            link.may_pass.set()
            link.replies_may_pass.set()

    def end(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        with self.lock:
            links, self.links = self.links, []
        for link in links:
            link.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.upstream)
            except OSError:
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server)
            with self.lock:
                self.links.append(link)
            threading.Thread(target=self._requests, args=(link,), daemon=True).start()
            threading.Thread(target=self._replies, args=(link,), daemon=True).start()

    def _requests(self, link):
        unread = bytearray()
        try:
            while True:
                data = link.client.recv(1 << 18)
                if not data:
                    break
                unread += data
                self._pass_requests(link, unread)
        except OSError:
            pass
        self._close(link)

    def _pass_requests(self, link, unread):
        """Whole requests go on, all that came together at once, but for those at which it acts."""
        passed = start = 0
        while start < len(unread):
            end, args = resp.request_end(unread, start)
            if end < 0:
                break
            if args[:2] == [b"CLIENT", b"TRACKING"]:
                link.is_movers = True
            rewritten = self.rewrite(args) if link.is_movers and self.rewrite else None
            if rewritten:
                self._send(link, unread[passed:start] + resp.request(*rewritten))
                passed = start = end
                continue
            point = self._point(args) if link.is_movers and self.points else None
            if point:
                self._send(link, unread[passed:start])
                passed = start
                _, act, sent, done = point
                if sent:
                    link.replies_may_pass.clear()
                    self._send(link, unread[start:end])
                    passed = end
                    time.sleep(0.002)
                act()
                link.replies_may_pass.set()
                done.set()
                if not sent and link.has_hung_up():
                    raise OSError("lost with its sender")
            start = end
        self._send(link, unread[passed:start])
        del unread[:start]

    def _point(self, args):
        with self.lock:
            for point in self.points:
                if point[0](args):
                    self.points.remove(point)
                    return point
        return None

    def _send(self, link, data):
        if not data:
            return
        link.may_pass.wait()
        if link.is_movers:
            self.passed["up"].append((time.monotonic(), len(data)))
        link.server.sendall(data)

    def _replies(self, link):
        try:
            while True:
                data = link.server.recv(1 << 18)
                if not data:
                    break
                link.replies_may_pass.wait()
                if link.is_movers:
                    self.passed["down"].append((time.monotonic(), len(data)))
                link.client.sendall(data)
        except OSError:
            pass
        self._close(link)

    def _close(self, link):
        link.close()
        with self.lock:
            if link in self.links:
                self.links.remove(link)


def command(name, nth=1, key=None):
    """A request for Tap.at(): the nth with this first word (and second, or a beginning of it)."""
    left = [nth]
    word, begin = name.encode(), key.encode() if key else b""

    def matches(args):
        if args[0].upper() != word or (begin and not (len(args) > 1 and args[1].startswith(begin))):
            return False
        left[0] -= 1
        return left[0] == 0

    return matches


def catch_up(nth=1):
    """The nth time that a mover waits for all that its node has to report."""
    return behind(command("CLIENT", 1, "TRACKING"), command("INFO", nth, "keyspace"))


def behind(first, second):
    """The first request that matches `second` behind one that matches `first`."""
    seen = []

    def matches(args):
        if not seen:
            if first(args):
                seen.append(True)
            return False
        return second(args)

    return matches
