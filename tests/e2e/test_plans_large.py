"""Large values: they move in pieces, hold nobody up, and come out as they were."""
import threading
import time

from harness import plans
from harness.check import Failure, check, eventually, has, same
from harness.load import Pinger
from harness.resp import slot_of
from harness.tests import test

# Digests and filling hold a node up for long, which must not count.
QUICK = {"rebalance": {"grace": "300ms"}, "timeouts": {"node_silent": "60s"}}
MOVED = "0-2047"
HIDDEN = "__slotproxy:pieces:"
# DEBUG DIGEST-VALUE compares values of any type and size, expiry included.
DEBUG = ("--enable-debug-command", "yes")


def keys(count, prefix):
    """Names in slots that move."""
    found, n = [], 0
    while len(found) < count:
        if slot_of("%s:%d" % (prefix, n)) < 2048:
            found.append("%s:%d" % (prefix, n))
        n += 1
    return found


def lua(server, script, *args):
    with server.client() as wire:
        wire.socket.settimeout(200)
        wire.timeout = 200
        return wire.ask("EVAL", script, 1, *args)


FILLS = {
    "hash": "redis.call('HSET', KEYS[1], 'field:' .. i, 'value of ' .. i)",
    "set": "redis.call('SADD', KEYS[1], 'member:' .. i)",
    "zset": "redis.call('ZADD', KEYS[1], i / 7, 'member:' .. i)",
    "list": "redis.call('RPUSH', KEYS[1], 'an element of the list:' .. i)",
    "stream": "redis.call('XADD', KEYS[1], i .. '-1', 'field', 'value of ' .. i)",
    "string": "redis.call('APPEND', KEYS[1], string.rep(string.char(33 + i % 90), 1000000))",
}


def fill(server, kind, key, count, step=20000):
    step = 8 if kind == "string" else step
    for first in range(1, count + 1, step):
        last = min(first + step - 1, count)
        lua(server, "for i = %d, %d do %s end" % (first, last, FILLS[kind]), key)


def fill_groups(server, key, count):
    """Two consumers, entries pending and acknowledged, deleted ones among them."""
    with server.client() as wire:
        wire.timeout = 100
        wire.socket.settimeout(100)
        wire.raw("XGROUP", "CREATE", key, "group", "0")
        wire.raw("XGROUP", "CREATE", key, "quiet", "100-1")
        wire.raw("XGROUP", "CREATECONSUMER", key, "group", "who came for nothing")
        for consumer in ("ana", "eva"):
            wire.raw(
                "XREADGROUP", "GROUP", "group", consumer, "COUNT", count, "STREAMS", key, ">"
            )
        wire.raw("XACK", key, "group", *["%d-1" % i for i in range(3, 2 * count, 5)])
        wire.raw("XDEL", key, "1-1", "2-1", "%d-1" % (count + 1))


def facts(server, key):
    """What can be told of a value without reading it all."""
    with server.client() as wire:
        wire.timeout = 200
        wire.socket.settimeout(200)
        kind = wire.ask("TYPE", key)
        found = [kind, wire.ask("PEXPIRETIME", key), wire.ask("DEBUG", "DIGEST-VALUE", key)]
        if kind != "stream":
            return found
        info = wire.ask("XINFO", "STREAM", key)
        info = dict(zip(info[::2], info[1::2]))
        found += [info[name] for name in (b"length", b"last-generated-id", b"entries-added")]
        found += [info[b"max-deleted-entry-id"], wire.ask("XINFO", "GROUPS", key)]
        for group in ("group", "quiet"):
            pending = wire.ask("XPENDING", key, group, "-", "+", 1000000)
            found.append([(entry[0], entry[1], entry[3]) for entry in pending])
            found.append(sorted(c[1] for c in wire.ask("XINFO", "CONSUMERS", key, group)))
        return found


def hidden_length(shop, command="HLEN"):
    return shop.node(1).ask(command, HIDDEN + "1:inv-bcn")


def hidden_names(server):
    with server.client() as wire:
        return wire.ask("KEYS", HIDDEN + "*")


def move_under_pings(shop):
    """Moves; the worst time that a PING took, at source, target and a third node, in ms."""
    pingers = [Pinger(shop.node(place).address) for place in (0, 1, 2)]
    try:
        plan = plans.run(shop, "--move", MOVED + ":inv-vlc", "--limit", "unlimited", seconds=300)
    finally:
        worst = [pinger.stop()["worst"] * 1000 for pinger in pingers]
    same(plan["state"], "done", "the plan's state: %s" % plan)
    return worst, plan


def moves(shop, kind, count):
    key = keys(1, kind)[0]
    fill(shop.node(0), kind, key, count)
    if kind == "stream":
        fill_groups(shop.node(0), key, count // 10)
    shop.node(0).ask("PEXPIREAT", key, 4102444800123)
    before = facts(shop.node(0), key)
    worst, plan = move_under_pings(shop)
    same(facts(shop.node(1), key), before, "the %s after the move" % kind)
    same(shop.node(0).ask("EXISTS", key), 0)
    same(hidden_names(shop.node(1)), [])
    print(
        "a %s of %d: worst PING %.0f ms at the source, %.0f at the target, %.0f at a node that "
        "has no part in it; longest pause %.1f ms"
        % (kind, count, *worst, plan["progress"]["pause_max_ms"])
    )
    return worst, plan


@test(seconds=60)
def values_of_every_type_go_in_pieces(fresh):
    shop = fresh(config=QUICK, node_args=DEBUG)
    found = {}
    sizes = {"hash": 15000, "set": 25000, "zset": 15000, "list": 40000, "stream": 30000}
    for kind, count in (*sizes.items(), ("string", 3)):
        key = keys(1, kind)[0]
        fill(shop.node(0), kind, key, count)
        if kind == "stream":
            fill_groups(shop.node(0), key, 500)
        if kind in ("hash", "stream"):
            shop.node(0).ask("PEXPIREAT", key, 4102444800123)
        found[key] = facts(shop.node(0), key)
    plan = plans.run(shop, "--move", MOVED + ":inv-vlc", "--limit", "unlimited", seconds=45)
    same(plan["state"], "done", "the plan's state: %s" % plan)
    for key, before in found.items():
        same(facts(shop.node(1), key), before, "the key %s after the move" % key)
        same(shop.node(0).ask("EXISTS", key), 0)
    same(hidden_names(shop.node(1)), [])


def holds_nobody_up(fresh, kind, count):
    (source, target, other), _ = moves(fresh(config=QUICK, node_args=DEBUG), kind, count)
    # A busy machine delays anything; a whole payload stalls one or the other for half a second.
    check(min(source, target) < max(400, 3 * other), "one node at least answered quickly")


@test(long=True, slow=True, seconds=600)
def a_hash_of_a_million_fields_holds_nobody_up(fresh):
    holds_nobody_up(fresh, "hash", 1000000)


@test(long=True, slow=True, seconds=600)
def a_string_of_64_mb_holds_nobody_up(fresh):
    holds_nobody_up(fresh, "string", 64)


@test(long=True, slow=True, seconds=600)
def a_sorted_set_of_a_million_members_holds_nobody_up(fresh):
    holds_nobody_up(fresh, "zset", 1000000)


@test(long=True, slow=True, seconds=600)
def a_set_of_a_million_members_holds_nobody_up(fresh):
    holds_nobody_up(fresh, "set", 1000000)


@test(long=True, slow=True, seconds=600)
def a_list_of_a_million_elements_holds_nobody_up(fresh):
    holds_nobody_up(fresh, "list", 1000000)


@test(long=True, slow=True, seconds=600)
def a_stream_of_300000_entries_holds_nobody_up(fresh):
    holds_nobody_up(fresh, "stream", 300000)


@test(seconds=60)
def half_a_large_value_is_seen_by_nobody_and_goes_when_the_proxy_is_killed(fresh):
    shop = fresh(config=QUICK, node_args=DEBUG)
    key = keys(1, "hash")[0]
    fill(shop.node(0), "hash", key, 60000)
    before = facts(shop.node(0), key)
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "1MB/s")
    plans.approve(shop, plan)
    eventually(lambda: hidden_length(shop) > 5000, 20, "half of the hash is on the target")
    told = eventually(
        lambda: plans.show(shop, plan["id"])["progress"]["waits_for"], 5, "the plan tells of the key under way"
    )
    has(told, key, "hash", "in pieces")
    with shop.client() as wire:
        same(wire.ask("KEYS", "*"), [key.encode()])
        same(wire.ask("RANDOMKEY"), key.encode())
        cursor, names = wire.ask("SCAN", 0, "COUNT", 1000)
        names = set(names)
        while cursor != b"0":
            cursor, more = wire.ask("SCAN", cursor, "COUNT", 1000)
            names |= set(more)
        same(names, {key.encode()})
        has(wire.raw("HLEN", HIDDEN + "1:inv-bcn").decode(), "-ERR")
        check(wire.ask("DBSIZE") <= 3, "DBSIZE is right, but for what the move holds")
    shop.proxy.kill()
    check(hidden_length(shop) > 5000, "half of the hash is still there")
    shop.start()
    plans.ask(shop, "PLAN", "THROTTLE", plan["id"], "unlimited")
    same(plans.wait(shop, plan, *plans.ENDED, seconds=30)["state"], "done")
    same(facts(shop.node(1), key), before, "the hash after the restart")
    same(hidden_names(shop.node(1)), [])
    with shop.client() as wire:
        same(wire.ask("DBSIZE"), 1)


@test(seconds=60)
def an_abort_removes_half_a_large_value(fresh):
    shop = fresh(config=QUICK, node_args=DEBUG)
    key = keys(1, "hash")[0]
    fill(shop.node(0), "hash", key, 60000)
    before = facts(shop.node(0), key)
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "1MB/s")
    plans.approve(shop, plan)
    eventually(lambda: hidden_length(shop) > 5000, 20, "half of the hash is on the target")
    plans.ask(shop, "PLAN", "ABORT", plan["id"])
    same(plans.wait(shop, plan, *plans.ENDED, seconds=30)["state"], "aborted")
    same(hidden_names(shop.node(1)), [])
    same(plans.keys_of(shop.node(1)), set())
    same(facts(shop.node(0), key), before, "the hash after the abort")


class Writer(threading.Thread):
    """Runs commands one after another until it is stopped."""

    def __init__(self, shop, *commands, pause=0.001):
        super().__init__(daemon=True)
        self.pause = pause
        self.shop, self.commands, self.wrong, self.count = shop, commands, [], 0
        self.is_over = False
        self.start()

    def run(self):
        try:
            with self.shop.client("writer") as wire:
                while not self.is_over:
                    for command in self.commands:
                        words = [word(self.count) if callable(word) else word for word in command]
                        reply = wire.raw(*words)
                        if reply.startswith(b"-"):
                            self.wrong.append(reply)
                        self.count += 1
                    time.sleep(self.pause)
        except Failure as why:
            self.wrong.append(str(why))

    def stop(self):
        self.is_over = True
        self.join(10)
        same(self.wrong, [], "what went wrong for the writer")


@test(long=True, seconds=150)
def a_large_key_that_is_written_all_the_time_stays_and_the_others_move(fresh):
    shop = fresh(config=QUICK, node_args=DEBUG)
    key = keys(1, "hash")[0]
    fill(shop.node(0), "hash", key, 300000)
    writer = Writer(shop, ("HINCRBY", key, "counter", 1))
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "unlimited")
    plans.approve(shop, plan)
    plans.wait_committed(shop, plan, 2047, seconds=40)
    same(plans.show(shop, plan["id"])["progress"]["slots_committed"], 2047)
    eventually(
        lambda: key in plans.show(shop, plan["id"])["progress"]["waits_for"],
        30,
        lambda: "the plan says so: %s" % plans.show(shop, plan["id"])["progress"],
    )
    plan = plans.wait(shop, plan, *plans.ENDED, seconds=80)
    writer.stop()
    same(plan["state"], "failed", "the plan's state: %s" % plan)
    has(plan["reason"], key, "hash", "MB", "slot %d" % slot_of(key), "Retry", "--pause")
    same(len(plans.owners(shop)["inv-vlc"]), 5462 + 2047)
    check(slot_of(key) in plans.owners(shop)["inv-bcn"], "the key's slot has stayed")
    same(plans.keys_of(shop.node(1)), set())
    same(hidden_names(shop.node(1)), [])
    with shop.client() as wire:
        same(int(wire.ask("HGET", key, "counter")), writer.count)
    again = plans.ask(shop, "PLAN", "RETRY", plan["id"])
    plans.approve(shop, again)
    same(plans.wait(shop, again, *plans.ENDED, seconds=40)["state"], "done")
    with shop.client() as wire:
        same(int(wire.ask("HGET", key, "counter")), writer.count)


@test(seconds=60)
def a_large_stream_moves_while_its_consumers_work(fresh):
    shop = fresh(config=QUICK, node_args=DEBUG)
    key = keys(1, "stream")[0]
    fill(shop.node(0), "stream", key, 40000)
    fill_groups(shop.node(0), key, 200)
    writer = Writer(
        shop,
        ("XREADGROUP", "GROUP", "quiet", "ana", "COUNT", 2, "STREAMS", key, ">"),
        ("XACK", key, "group", lambda count: "%d-1" % (4 + count)),
        ("XCLAIM", key, "quiet", "eva", 0, lambda count: "%d-1" % (90 + count)),
        pause=0.02,
    )
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "unlimited")
    plans.approve(shop, plan)
    state = plans.wait(shop, plan, *plans.ENDED, seconds=45)
    writer.stop()
    same(state["state"], "done", "the plan's state: %s" % state)
    # What the commands make of it on a server that never moved anything.
    with shop.client() as wire:
        delivered = {entry[0] for entry in wire.ask("XPENDING", key, "quiet", "-", "+", 100000)}
        last = int(wire.ask("XINFO", "GROUPS", key)[1][7].split(b"-")[0])
        read = {b"%d-1" % n for n in range(101, last + 1) if n != 201}  # It was deleted before.
        same(delivered, read, "entries that are pending")
        pending = {entry[0] for entry in wire.ask("XPENDING", key, "group", "-", "+", 100000)}
        acked = {b"%d-1" % (4 + n) for n in range(1, writer.count, 3)}
        same(pending & acked, set(), "entries that were acknowledged, and are pending")


def newer(args):
    """A payload of a version that nobody can read yet."""
    if args[0] != b"RESTORE":
        return None
    payload = args[3][:-10] + b"\xff\x00" + args[3][-8:]
    return [*args[:3], payload, *args[4:]]


@test(seconds=60)
def an_older_target_gets_everything_in_pieces(fresh):
    shop = fresh(config=QUICK, node_args=DEBUG, taps=(1,))
    shop.relays[1].rewrite = newer
    before = plans.fill(shop, 350)
    key = keys(1, "hash")[0]
    fill(shop.node(0), "hash", key, 15000)
    digest = facts(shop.node(0), key)
    writer = Writer(shop, *[("INCR", name) for name in keys(3, "counter")])
    plan = plans.run(shop, "--move", MOVED + ":inv-vlc", "--limit", "unlimited", seconds=40)
    writer.stop()
    same(plan["state"], "done", "the plan's state: %s" % plan)
    same(plans.contents(shop, 350), before, "keys after the move")
    same(facts(shop.node(1), key), digest, "the hash after the move")
    with shop.client() as wire:
        counts = [int(wire.ask("GET", name)) for name in keys(3, "counter")]
    same(counts, [writer.count // 3] * 3)
