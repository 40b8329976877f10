"""Relay: stands between the proxy and one redis-server, and can delay, chop, replace, cut or
swallow replies.

What it is not told about passes through untouched, so whatever the proxy asks of a node by itself
works.
"""
import socket
import threading
import time

from . import processes, resp, sockets


class Cut(Exception):
    """Raised by an action: send these bytes, then close the connection."""

    def __init__(self, last_bytes=b""):
        super().__init__()
        self.last_bytes = last_bytes


class Relay:
    def __init__(self, upstream):
        self.upstream = upstream
        self.port = processes.free_port()
        self.rules = (
            []
        )  # (matches(args), action(args, ask_upstream)) in order; the first that matches acts.
        self.delay = 0.0  # Seconds before each chunk of requests goes on.
        self.chop = (
            None  # chop(reply) -> pieces; each is read by the proxy before the next one is sent.
        )
        self.swallow = False  # Take all, answer nothing: a host that lost its power.
        self.seen = []  # Requests that matched a rule, in the order of their arrival.
        self.opened = 0  # Connections accepted so far.
        self._connections = set()
        self._lock = threading.Lock()
        self._listener = None
        self.listen()

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def listen(self):
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(self.address)
        self._listener.listen(128)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def refuse(self):
        """From now on connections are refused; open ones are cut."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self):
        with self._lock:
            connections, self._connections = self._connections, set()
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def end(self):
        try:
            self.refuse()
        except OSError:
            pass

    def on(self, command, key, action):
        """`action` is a reply (bytes) or a function of (args, ask_upstream) that returns one or
        raises Cut."""
        command, key = command.upper().encode(), resp.to_bytes(key)

        def matches(args):
            return len(args) > 1 and args[0].upper() == command and args[1] == key

        self.rules.append((matches, action if callable(action) else lambda args, ask: action))

    def on_any(self, action, but=()):
        """Every request, except the commands named in `but`."""
        but = {name.encode() for name in but}
        self.rules.append(
            (
                lambda args: bool(args) and args[0].upper() not in but,
                action if callable(action) else lambda args, ask: action,
            )
        )

    def _accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._connections.add(connection)
                self.opened += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        upstream = None
        try:
            upstream = socket.create_connection(self.upstream)
            upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._exchange(connection, upstream)
        except Cut as cut:
            try:
                connection.sendall(cut.last_bytes)
            except OSError:
                pass
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()
            if upstream:
                upstream.close()

    def _exchange(self, connection, upstream):
        requests, replies = bytearray(), bytearray()

        def ask_upstream(raw, count=1):
            upstream.sendall(raw)
            got, start = [], 0
            while len(got) < count:
                end = resp.frame_end(replies, start)
                if end < 0:
                    data = upstream.recv(1 << 20)
                    if not data:
                        raise Cut(b"".join(got))
                    replies.extend(data)
                    continue
                got.append(bytes(replies[start:end]))
                start = end
            del replies[:start]
            return b"".join(got)

        while True:
            data = connection.recv(1 << 20)
            if not data:
                return
            if self.swallow:
                continue
            if self.delay:
                time.sleep(self.delay)
            requests.extend(data)
            plain, count = bytearray(), 0
            start = 0
            while True:
                end, args = (
                    resp.request_end(requests, start) if start < len(requests) else (-1, None)
                )
                if end < 0:
                    break
                raw = bytes(requests[start:end])
                start = end
                action = next((act for matches, act in list(self.rules) if matches(args)), None)
                if action is None:
                    plain += raw
                    count += 1
                    continue
                if count:
                    self._send(connection, ask_upstream(bytes(plain), count))
                    plain, count = bytearray(), 0
                self.seen.append(args)
                self._send(connection, action(args, lambda raw=raw: ask_upstream(raw)))
            del requests[:start]
            if count:
                self._send(connection, ask_upstream(bytes(plain), count))

    def _send(self, connection, reply):
        if self.swallow or not reply:
            return
        for piece in self.chop(reply) if self.chop else (reply,):
            connection.sendall(piece)
            if self.chop:
                sockets.wait_read(connection)
