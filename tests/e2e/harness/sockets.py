"""How much the other side of a local connection has not read yet: asked of the kernel (inet_diag),
so that a test can
cut a stream at an exact byte without sleeping and hoping."""
import socket
import struct
import time

NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLM_F_REQUEST = 1
ESTABLISHED_AND_CLOSING = 0xFFF
NO_COOKIE = b"\xff" * 8


def _unread(local, remote):
    """Bytes not read yet at the socket `local` that is connected to `remote`; None when there is no
    such socket."""
    ident = struct.pack(
        "!HH4s12x4s12x",
        local[1],
        remote[1],
        socket.inet_aton(local[0]),
        socket.inet_aton(remote[0]),
    )
    query = struct.pack("=BBBBI", socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ESTABLISHED_AND_CLOSING)
    query += ident + struct.pack("=I", 0) + NO_COOKIE
    header = struct.pack("=IHHII", 16 + len(query), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as netlink:
        netlink.send(header + query)
        answer = netlink.recv(65536)
    if struct.unpack_from("=H", answer, 4)[0] != SOCK_DIAG_BY_FAMILY:
        return None
    # inet_diag_msg: four bytes, a 48-byte socket id, expires, rqueue.
    return struct.unpack_from("=I", answer, 16 + 4 + 48 + 4)[0]


def unread(ours):
    """Bytes that the peer of `ours` (a local IPv4 TCP socket) has received and not read."""
    return _unread(ours.getpeername(), ours.getsockname()) or 0


def wait_read(ours, seconds=2.0):
    """Until the peer has read everything that was sent; False when it does not (it stopped reading
    on purpose)."""
    deadline = time.monotonic() + seconds
    while True:
        if unread(ours) == 0:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.00002)
