"""RESP2 and RESP3 as bytes: encode a request, find the end of a reply, read a reply as a value.

Written apart from the proxy's own parsers on purpose: it is the judge of what comes over the wire.
"""


class ErrorReply(str):
    """An error reply, without its leading '-'."""


class Push(list):
    """A RESP3 push."""


class Garbage(Exception):
    """Bytes that are no RESP."""


def to_bytes(arg):
    return bytes(arg) if isinstance(arg, (bytes, bytearray)) else str(arg).encode()


def request(*args):
    parts = [b"*%d\r\n" % len(args)]
    for arg in map(to_bytes, args):
        parts.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(parts)


def bulk(data):
    data = to_bytes(data)
    return b"$%d\r\n%s\r\n" % (len(data), data)


def array(*items):
    """An array reply of items that are replies already."""
    return b"*%d\r\n" % len(items) + b"".join(items)


AGGREGATES = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2, ord("|"): 2}
BULKS = b"$=!"
LINES = b"+-:_,#("


def frame_end(data, start=0):
    """Where the reply that begins at `start` ends, or -1 when it is not whole. Depth costs no
    stack."""
    position, wanted = start, 1
    while wanted:
        line_end = data.find(b"\r\n", position)
        if line_end < 0:
            return -1
        kind = data[position]
        if kind in LINES:
            position = line_end + 2
            wanted -= 1
            continue
        try:
            count = int(data[position + 1 : line_end])
        except ValueError:
            raise Garbage(
                "not RESP at byte %d: %r" % (position, bytes(data[position : position + 60]))
            )
        position = line_end + 2
        if kind in BULKS:
            if count >= 0:
                position += count + 2
                if position > len(data):
                    return -1
            wanted -= 1
        elif kind in AGGREGATES:
            # An attribute (|) comes before the reply that it speaks of and is none itself.
            wanted += max(count, 0) * AGGREGATES[kind] - (0 if kind == ord("|") else 1)
        else:
            raise Garbage(
                "not RESP at byte %d: %r" % (position, bytes(data[position : position + 60]))
            )
    return position


def value(raw):
    """A reply as Python: bytes, int, float, bool, None, list, dict, ErrorReply; a status is a
    str."""
    item, end = _value(raw, 0)
    if end != len(raw):
        raise Garbage("%d bytes after the reply: %r" % (len(raw) - end, raw[end : end + 60]))
    return item


def _value(raw, position):
    line_end = raw.index(b"\r\n", position)
    kind, rest, after = raw[position : position + 1], raw[position + 1 : line_end], line_end + 2
    if kind == b"+":
        return rest.decode("latin-1"), after
    if kind == b"-":
        return ErrorReply(rest.decode("latin-1")), after
    if kind in (b":", b"("):
        return int(rest), after
    if kind == b",":
        return float(rest), after
    if kind == b"#":
        return rest == b"t", after
    if kind == b"_":
        return None, after
    count = int(rest)
    if kind in (b"$", b"=", b"!"):
        if count < 0:
            return None, after
        data = bytes(raw[after : after + count])
        if kind == b"!":
            data = ErrorReply(data.decode("latin-1"))
        elif kind == b"=":
            data = data[4:]
        return data, after + count + 2
    if kind in (b"*", b"~", b">"):
        if count < 0:
            return None, after
        items = Push() if kind == b">" else []
        for _ in range(count):
            item, after = _value(raw, after)
            items.append(item)
        return items, after
    if kind == b"%":
        pairs = {}
        for _ in range(count):
            key, after = _value(raw, after)
            pairs[hashable(key)], after = _value(raw, after)
        return pairs, after
    raise Garbage("not RESP: %r" % bytes(raw[position : position + 60]))


def hashable(item):
    return tuple(map(hashable, item)) if isinstance(item, list) else item


def as_map(item):
    """A RESP3 map, or RESP2's flat array in its place, with text keys."""
    pairs = item.items() if isinstance(item, dict) else zip(item[::2], item[1::2])
    return {key.decode() if isinstance(key, bytes) else key: val for key, val in pairs}


def request_end(data, start=0):
    """Where the request that begins at `start` ends, with its arguments; (-1, None) when it is not
    whole."""
    line_end = data.find(b"\r\n", start)
    if line_end < 0:
        return -1, None
    if data[start] != ord("*"):
        return line_end + 2, bytes(data[start:line_end]).split()
    position, args = line_end + 2, []
    for _ in range(int(data[start + 1 : line_end])):
        line_end = data.find(b"\r\n", position)
        if line_end < 0:
            return -1, None
        length = int(data[position + 1 : line_end])
        position = line_end + 2 + length + 2
        if position > len(data):
            return -1, None
        args.append(bytes(data[line_end + 2 : line_end + 2 + length]))
    return position, args


def _crc_table():
    table = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021) & 0xFFFF if crc & 0x8000 else crc << 1 & 0xFFFF
        table.append(crc)
    return table


CRC_TABLE = _crc_table()
SLOTS = 16384


def slot_of(key):
    key = to_bytes(key)
    opened = key.find(b"{")
    if opened >= 0:
        closed = key.find(b"}", opened + 1)
        if closed > opened + 1:
            key = key[opened + 1 : closed]
    crc = 0
    for byte in key:
        crc = (crc << 8 & 0xFFFF) ^ CRC_TABLE[crc >> 8 ^ byte]
    return crc % SLOTS
