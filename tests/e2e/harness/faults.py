"""What happens to nodes in chaos tests: histories cut short, connections ended, keys in bulk."""
import base64
import glob
import os
import random

from . import resp
from .check import same


def aof_files(server):
    """The incremental files of its AOF, the oldest first."""
    return sorted(
        glob.glob(os.path.join(server.folder, "appendonlydir", "*.incr.aof")),
        key=lambda name: int(name.split(".")[-3]),
    )


def commands_of(path):
    """(offset of its beginning, args) of each command of an AOF."""
    with open(path, "rb") as file:
        data = file.read()
    start, found = 0, []
    while start < len(data):
        if data[start : start + 1] == b"#":
            start = data.index(b"\n", start) + 1
            continue
        end, args = resp.request_end(data, start)
        if end < 0:
            break
        found.append((start, args))
        start = end
    return found


def cut_aof(server, is_end, after=False):
    """Of a server that has been killed: its history ends before (or after) the first command for
    which `is_end(args)`. Returns how many commands were cut off."""
    path = aof_files(server)[-1]
    commands = commands_of(path)
    for place, (start, args) in enumerate(commands):
        if is_end(args):
            place += 1 if after else 0
            if place < len(commands):
                os.truncate(path, commands[place][0])
            return len(commands) - place
    raise AssertionError("the AOF of port %d lacks the command" % server.port)


def is_marker(args):
    return args[0] == b"SET" and args[1].startswith(b"__slotproxy:marker:")


def cut_at_marker(server, after=False):
    return cut_aof(server, is_marker, after)


def movers_of(server):
    """The ids of the connections by which movers read the server's change feed."""
    found = []
    for line in server.ask("CLIENT", "LIST").decode().splitlines():
        facts = dict(pair.split("=", 1) for pair in line.split(" ") if "=" in pair)
        if "B" in facts["flags"] or "t" in facts["flags"]:
            found.append(int(facts["id"]))
    return found


def bulk_fill(shop, count, size=100, prefix="bulk", slots=range(2048)):
    """Strings in these slots that can't be compressed, through the proxy. Name -> value."""
    names, n = [], 0
    while len(names) < count:
        name = "%s:%d" % (prefix, n)
        if resp.slot_of(name) in slots:
            names.append(name)
        n += 1
    # Servers compress what they dump.
    noise = base64.b64encode(random.Random(1).randbytes(size + 1000)).decode()
    values = {name: (name + "|" + noise[n % 1000 :])[:size] for n, name in enumerate(names)}
    with shop.client("filler") as wire:
        for start in range(0, count, 500):
            page = names[start : start + 500]
            replies = wire.pipeline(*(("SET", name, values[name]) for name in page))
            same(set(replies), {b"+OK\r\n"}, "the replies to SET, before any fault")
    return values


def check_bulk(shop, values):
    names = list(values)
    wrong = []
    with shop.client("reader") as wire:
        for start in range(0, len(names), 500):
            page = names[start : start + 500]
            replies = wire.pipeline(*(("GET", name) for name in page))
            wrong += [n for n, raw in zip(page, replies) if raw != resp.bulk(values[n])]
    same(wrong[:5], [], "cold keys that are not what they were (%d of %d)" % (len(wrong), len(names)))
