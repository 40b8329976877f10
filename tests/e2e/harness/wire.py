"""Wire: a client that sends bytes and gets bytes, and remembers both for the report of a
failure."""
import collections
import select
import socket
import time

from . import resp, sockets
from .check import Failure, shown

OPENED = []  # Every Wire of the running test, so that a failure can show what went over it.


def is_ready(file, event, seconds):
    """Whether poll() reports the event, or an end, within so many seconds. select() knows no
    descriptor beyond 1023, and tests open thousands."""
    poll = select.poll()
    poll.register(file, event)
    return bool(poll.poll(seconds * 1000))


class Wire:
    def __init__(self, address, name="client", timeout=5.0, receive_buffer=None):
        """`address` is (host, port) or the path of a Unix socket. `timeout`: seconds of silence
        that fail."""
        self.name, self.timeout = name, timeout
        self.log = collections.deque(maxlen=24)
        self.buffer = bytearray()
        if isinstance(address, str):
            self.socket = socket.socket(socket.AF_UNIX)
        else:
            self.socket = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if receive_buffer:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        OPENED.append(self)
        try:
            self.socket.connect(address)
        except OSError as why:
            self.socket.close()
            raise Failure("no connection to %s: %s" % (address, why))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # Bytes

    def send(self, data):
        self.log.append((">", shown(data, 300)))
        try:
            self.socket.sendall(data)
        except socket.timeout:
            raise Failure("%s: the other side took no bytes for %g s" % (self.name, self.timeout))
        except OSError as why:
            raise Failure("%s: sending failed: %s" % (self.name, why))

    def send_pieces(self, data, *cuts):
        """Sends `data` cut at these offsets; each piece has been read by the other side before the
        next one goes."""
        start = 0
        for cut in (*cuts, len(data)):
            if start < cut:
                self.send(data[start:cut])
                if cut < len(data) and not sockets.wait_read(self.socket):
                    raise Failure("%s: the other side did not read what was sent" % self.name)
            start = cut

    def _more(self, wanted):
        self.socket.settimeout(self.timeout)
        try:
            data = self.socket.recv(1 << 20)
        except socket.timeout:
            raise Failure(
                "%s: no %s within %g s; unread so far: %s"
                % (self.name, wanted, self.timeout, shown(bytes(self.buffer)))
            )
        except ConnectionResetError:
            data = b""
        if not data:
            self.log.append(("<", "(closed)"))
            raise Failure(
                "%s: the connection was closed before the %s; unread so far: %s"
                % (self.name, wanted, shown(bytes(self.buffer)))
            )
        self.buffer += data

    def read(self):
        """The next reply, as bytes."""
        while True:
            try:
                end = resp.frame_end(self.buffer)
            except resp.Garbage as why:
                raise Failure("%s: %s" % (self.name, why))
            if end >= 0:
                break
            self._more("whole reply")
        raw = bytes(memoryview(self.buffer)[:end])
        del self.buffer[:end]
        self.log.append(("<", shown(raw, 300)))
        return raw

    def read_many(self, count):
        """The next `count` replies, as a list of bytes; fast for many."""
        replies, start = [], 0
        while len(replies) < count:
            try:
                end = resp.frame_end(self.buffer, start)
            except resp.Garbage as why:
                raise Failure("%s: %s" % (self.name, why))
            if end < 0:
                del self.buffer[:start]
                start = 0
                self._more("reply %d of %d" % (len(replies) + 1, count))
                continue
            replies.append(bytes(memoryview(self.buffer)[start:end]))
            start = end
        del self.buffer[:start]
        self.log.append(
            (
                "<",
                "%d replies, the last one %s"
                % (count, shown(replies[-1], 200) if replies else "-"),
            )
        )
        return replies

    def read_exactly(self, size):
        while len(self.buffer) < size:
            self._more("next %d bytes" % size)
        data = bytes(memoryview(self.buffer)[:size])
        del self.buffer[:size]
        self.log.append(("<", shown(data, 300)))
        return data

    def read_until_closed(self):
        """Everything up to the close by the other side, which must come."""
        self.socket.settimeout(self.timeout)
        while True:
            try:
                data = self.socket.recv(1 << 20)
            except socket.timeout:
                raise Failure(
                    "%s: not closed within %g s; unread so far: %s"
                    % (self.name, self.timeout, shown(bytes(self.buffer)))
                )
            except ConnectionResetError:
                data = b""
            if not data:
                break
            self.buffer += data
        data = bytes(self.buffer)
        self.buffer.clear()
        self.log.append(("<", shown(data, 300) + " (closed)"))
        return data

    def silent(self, seconds):
        """True when nothing arrives and nothing closes for `seconds`."""
        return not self.buffer and not is_ready(self.socket, select.POLLIN, seconds)

    # Commands

    def raw(self, *args):
        """One command, its reply as bytes."""
        self.send(resp.request(*args))
        return self.read()

    def ask(self, *args):
        """One command, its reply as a value."""
        return resp.value(self.raw(*args))

    def pipeline(self, *commands):
        """Commands (tuples) in one write; their replies as bytes."""
        self.send(b"".join(resp.request(*command) for command in commands))
        return self.read_many(len(commands))

    def hello3(self):
        reply = self.ask("HELLO", "3")
        if not isinstance(reply, dict):
            raise Failure("HELLO 3 should answer a map, got %s" % shown(reply))
        return self


def timed(action):
    """(what it returned, seconds it took)"""
    start = time.monotonic()
    result = action()
    return result, time.monotonic() - start
