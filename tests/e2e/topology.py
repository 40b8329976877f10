"""What CLUSTER SLOTS, SHARDS, NODES and INFO say, read strictly into one shape that can be
compared."""
import re

from harness import resp
from harness.check import check, same
from harness.resp import as_map

HEX40 = re.compile(r"^[0-9a-f]{40}$")


def good_host(host):
    check(host not in ("", "?", "0.0.0.0", "::"), "a host is %r" % host)


def good_id(text):
    check(HEX40.match(text), "a node's id is %r, not 40 hex digits" % text)


def covered(ranges):
    """Ranges (first, last, owner) that cover every slot once, merged where one owner's ranges
    touch."""
    following, merged = 0, []
    for first, last, owner in sorted(ranges):
        same(first, following, "the first slot of a range (no gap, no overlap)")
        check(first <= last < resp.SLOTS, "a range is %d-%d" % (first, last))
        following = last + 1
        if merged and merged[-1][2] == owner:
            merged[-1] = (merged[-1][0], last, owner)
        else:
            merged.append((first, last, owner))
    same(following, resp.SLOTS, "the number of slots covered")
    return merged


def from_slots(reply):
    """[(first, last, (id, host, port))]"""
    ranges = []
    for entry in reply:
        check(len(entry) >= 3, "a range without an owner: %r" % (entry,))
        for node in entry[2:]:
            check(
                len(node) in (3, 4),
                "a node of CLUSTER SLOTS has host, port, id and metadata: %r" % (node,),
            )
            check(
                isinstance(node[0], bytes) and isinstance(node[1], int),
                "host and port: %r" % (node,),
            )
            good_host(node[0].decode())
            good_id(node[2].decode())
            check(0 < node[1] < 65536, "a port is %r" % node[1])
            check(len(node) < 4 or isinstance(node[3], (list, dict)), "metadata: %r" % (node[3:],))
        owner = entry[2]
        ranges.append((entry[0], entry[1], (owner[2].decode(), owner[0].decode(), owner[1])))
    return covered(ranges)


def from_shards(reply):
    ranges = []
    for shard in map(as_map, reply):
        same(sorted(shard), ["nodes", "slots"], "the fields of a shard")
        slots = shard["slots"]
        same(len(slots) % 2, 0, "an odd number of range ends")
        nodes = [as_map(node) for node in shard["nodes"]]
        check(nodes, "a shard without nodes")
        for node in nodes:
            for field in ("id", "ip", "endpoint", "role", "replication-offset", "health"):
                check(field in node, "a node of CLUSTER SHARDS lacks %s: %r" % (field, node))
            check("port" in node or "tls-port" in node, "a node of CLUSTER SHARDS lacks its port")
            check(node["role"] in (b"master", b"replica"), "role is %r" % node["role"])
            check(
                node["health"] in (b"online", b"fail", b"loading"), "health is %r" % node["health"]
            )
            check(
                isinstance(node["replication-offset"], int),
                "replication-offset is %r" % node["replication-offset"],
            )
            good_id(node["id"].decode())
            good_host(node["endpoint"].decode())
            good_host(node["ip"].decode())
            same(node["ip"], node["endpoint"], "ip and endpoint of one node")
        master = next(node for node in nodes if node["role"] == b"master")
        owner = (master["id"].decode(), master["endpoint"].decode(), master["port"])
        ranges += [(first, last, owner) for first, last in zip(slots[::2], slots[1::2])]
    return covered(ranges)


class NodesLine:
    def __init__(self, line):
        fields = line.split(" ")
        check(len(fields) >= 8, "a line of CLUSTER NODES has eight fields or more: %r" % line)
        self.id, address, flags, self.master = fields[:4]
        good_id(self.id)
        host_port, at, bus = address.partition("@")
        host, _, port = host_port.rpartition(":")
        check(
            at and host and port.isdigit() and bus.split(",")[0].isdigit(),
            "an address is %r" % address,
        )
        check(int(bus.split(",")[0]) < 65536, "the bus port is %r" % bus)
        good_host(host)
        self.host, self.port = host, int(port)
        self.flags = flags.split(",")
        check("master" in self.flags or "slave" in self.flags, "flags are %r" % flags)
        check("noaddr" not in self.flags and "handshake" not in self.flags, "flags are %r" % flags)
        check(
            self.master == "-" or HEX40.match(self.master), "the master field is %r" % self.master
        )
        for number in fields[4:7]:
            check(number.isdigit(), "ping, pong and epoch are numbers: %r" % line)
        self.epoch = int(fields[6])
        check(fields[7] in ("connected", "disconnected"), "the link is %r" % fields[7])
        self.connected = fields[7] == "connected"
        self.ranges = []
        for text in fields[8:]:
            first, _, last = text.partition("-")
            self.ranges.append((int(first), int(last or first)))

    @property
    def who(self):
        return (self.id, self.host, self.port)


def nodes_lines(text):
    text = text.decode()
    check(text.endswith("\n"), "CLUSTER NODES ends with a line end")
    check("\r" not in text, "lines of CLUSTER NODES end with a bare \\n")
    lines = [NodesLine(line) for line in text[:-1].split("\n")]
    same(sum("myself" in line.flags for line in lines), 1, "the number of lines with `myself`")
    return lines


def from_nodes(text):
    return covered(
        [(first, last, line.who) for line in nodes_lines(text) for first, last in line.ranges]
    )


def info_fields(text):
    text = text.decode()
    lines = text.split("\r\n")
    same(lines[-1], "", "CLUSTER INFO ends with a line end")
    check(all(":" in line for line in lines[:-1]), "CLUSTER INFO is lines of key:value")
    return dict(line.split(":", 1) for line in lines[:-1])
