"""Plans: what a test asks of the admin port about them, and keys of every type to be moved."""
import json

from . import processes, resp
from .check import Failure, eventually, same
from .servers import RedisServer
from .shop import HOST
from .wire import Wire

ENDED = ("done", "aborted", "failed", "rejected", "stale")


def ask(shop, *words):
    """What the admin port answers, parsed; an error is a Failure."""
    with Wire(shop.admin, "operator", timeout=60) as wire:
        raw = wire.raw(*words)
    if raw.startswith(b"-"):
        raise Failure("%s was refused: %s" % (" ".join(map(str, words)), raw.decode()))
    return json.loads(resp.value(raw))


def refusal(shop, *words):
    """The words of the error with which the admin port answers."""
    with Wire(shop.admin, "operator", timeout=60) as wire:
        raw = wire.raw(*words)
    same(raw[:1], b"-", "the first byte of the answer to %s: %r" % (" ".join(map(str, words)), raw))
    return raw.decode()


def propose(shop, *words):
    return ask(shop, "PLAN", "PROPOSE", *words)


def show(shop, plan):
    return ask(shop, "PLAN", "SHOW", plan)


def approve(shop, plan, *words):
    return ask(shop, "PLAN", "APPROVE", plan["id"], "--digest", plan["digest"], *words)


def wait(shop, plan, *states, seconds=25, every=0.01):
    """Until the plan (a report or its number) is in one of these states; its report then."""
    number = plan["id"] if isinstance(plan, dict) else plan
    eventually(
        lambda: show(shop, number)["state"] in states,
        seconds,
        lambda: "plan %d becomes %s: %s" % (number, " or ".join(states), show(shop, number)),
        every,
    )
    return show(shop, number)


def run(shop, *words, seconds=25):
    """Proposes, approves, and waits until it is done."""
    plan = propose(shop, *words)
    approve(shop, plan)
    return wait(shop, plan, *ENDED, seconds=seconds)


def wait_committed(shop, plan, slots, seconds=20):
    """Until at least so many slots of the plan have changed hands."""
    eventually(
        lambda: show(shop, plan["id"]).get("progress", {}).get("slots_committed", 0) >= slots,
        seconds,
        lambda: "%d slots are committed: %s" % (slots, show(shop, plan["id"])),
    )


def owners(shop):
    """Node -> set of slots."""
    found = {}
    for owner in ask(shop, "SLOTS")["owners"]:
        found[owner["node"]] = set()
        for text in owner["ranges"]:
            first, _, last = text.partition("-")
            found[owner["node"]] |= set(range(int(first), int(last or first) + 1))
    return found


def keys_of(server, but="__slotproxy:"):
    """All names on a redis-server, the proxy's own excepted."""
    names, cursor = set(), b"0"
    with server.client() as wire:
        while True:
            cursor, page = wire.ask("SCAN", cursor, "COUNT", 1000)
            names |= {name for name in page if not name.startswith(but.encode())}
            if cursor == b"0":
                return names


def add_node(shop, name, *args, **entry):
    """One more redis-server, in the configuration's file; not reloaded."""
    server = RedisServer(*args)
    shop.nodes.append(server)
    entry = {"name": name, "address": "%s:%d" % server.address, **entry}
    if shop.endpoint_ports:
        shop.endpoint_ports.append(processes.free_port())
        entry["endpoint"] = "%s:%d" % (HOST, shop.endpoint_ports[-1])
    shop.config["nodes"].append(entry)
    shop.write_config()
    return server


def fill(shop, count, prefix="all"):
    """Keys of every type, with and without expiry: name -> (payload, expiry)."""
    with shop.client("filler") as wire:
        for n in range(count):
            name = "%s:%d" % (prefix, n)
            kind = n % 7
            if kind == 0:
                wire.raw("SET", name, "value %d" % n)
            elif kind == 1:
                wire.raw("RPUSH", name, *range(n % 20 + 1))
            elif kind == 2:
                wire.raw("HSET", name, "field", n, "other", "x" * (n % 50))
            elif kind == 3:
                wire.raw("SADD", name, *range(n % 10 + 1))
            elif kind == 4:
                wire.raw("ZADD", name, 1.5, "a", n, "b")
            elif kind == 5:
                wire.raw("XADD", name, "1-1", "field", n)
                wire.raw("XGROUP", "CREATE", name, "group", "0")
                wire.raw("XREADGROUP", "GROUP", "group", "c", "STREAMS", name, ">")
            else:
                wire.raw("SET", name, "short-lived %d" % n)
                wire.raw("PEXPIREAT", name, 4102444800000 + n)
        return contents(shop, count, prefix)


def contents(shop, count, prefix="all"):
    with shop.client("reader") as wire:
        names = ["%s:%d" % (prefix, n) for n in range(count)]
        return {
            name: (wire.raw("TYPE", name), value_of(wire, name), wire.raw("PEXPIRETIME", name))
            for name in names
        }


READS = {
    b"+string\r\n": lambda name: ("GET", name),
    b"+list\r\n": lambda name: ("LRANGE", name, 0, -1),
    b"+hash\r\n": lambda name: ("HGETALL", name),
    b"+set\r\n": lambda name: ("SMEMBERS", name),
    b"+zset\r\n": lambda name: ("ZRANGE", name, 0, -1, "WITHSCORES"),
}


def value_of(wire, name):
    kind = wire.raw("TYPE", name)
    if kind == b"+stream\r\n":
        pending = wire.ask("XPENDING", name, "group", "-", "+", 10)
        return (wire.raw("XRANGE", name, "-", "+"), [entry[:2] for entry in pending])
    if kind not in READS:
        return kind
    reply = wire.raw(*READS[kind](name))
    return sorted(resp.value(reply)) if kind == b"+set\r\n" else reply
