#!/usr/bin/python3
"""make bench-move: a quarter of the slots moves to a node that joins, under load, by slotproxy and by
`redis-cli --cluster reshard` on a real cluster of the same servers.

Prints how fast keys move, what clients notice of it (quiet and moving windows in turn, medians of the
ratios), how long pauses are, and how long a node stands still for a hash of 40 MB.
"""
import argparse
import base64
import os
import random
import re
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
sys.dont_write_bytecode = True

from harness import plans, processes, resp  # noqa: E402
from harness.check import Failure, check  # noqa: E402
from harness.servers import RedisServer  # noqa: E402
from harness.shop import RANGES, Shop  # noqa: E402
from probers import KEY, Probers, percentile, slot_of  # noqa: E402

# (what, keys, bytes of a value)
LOADS = (("100 B", 1_000_000, 100), ("10 KB", 20_000, 10_000))
HASH_FIELDS = 1_000_000
HASH = "large:0"  # On the first node.
MOVED = 4096
WATCH_SECONDS = 0.5  # As often as slotctl asks: a hundred questions a second would be a load of their own.
REDIS_CLI = os.environ.get("REDIS_CLI", "redis-cli")


def value_of(size):
    return base64.b64encode(random.Random(size).randbytes(size))[:size]


def fill(servers, count, size):
    """KEY % 0 … on the servers that own their slots in thirds."""
    value, wires = value_of(size), [server.client("filler") for server in servers]
    step = max(100, min(20_000, 20_000_000 // size))
    for start in range(0, count, step):
        batches = [bytearray() for _ in wires]
        counts = [0] * len(wires)
        for n in range(start, min(start + step, count)):
            key = KEY % n
            place = next(i for i, (_, last) in enumerate(RANGES) if slot_of(key) <= last)
            batches[place] += resp.request("SET", key, value)
            counts[place] += 1
        for wire, batch, replies in zip(wires, batches, counts):
            wire.timeout = 60
            wire.send(bytes(batch))
            wire.read_exactly(replies * len(b"+OK\r\n"))
    for wire in wires:
        wire.close()


def fill_hash(server, fields):
    with server.client("filler") as wire:
        wire.timeout = 60
        for start in range(0, fields, 1000):
            words = [w for n in range(start, start + 1000) for w in ("field:%07d" % n, "value:%07d" % n)]
            wire.raw("HSET", HASH, *words)


class SlotProxy:
    name = "slotproxy"

    def __init__(self, binary):
        config = {
            "rebalance": {"grace": "0"},
            "timeouts": {"node_silent": "10s"},
            "log": {"level": "debug"},
            "workers": 1,
        }
        self.shop = Shop(binary, config=config)
        plans.add_node(self.shop, "inv-tar")
        plans.ask(self.shop, "RELOAD")
        plans.ask(self.shop, "PLAN", "REJECT", 1) if plans.ask(self.shop, "PLAN", "LIST")["plans"] else None
        self.is_there, self.plan = False, None

    servers = property(lambda self: self.shop.nodes)
    address = property(lambda self: self.shop.forward)

    def propose(self, limit):
        """A quarter goes to the fourth node, or back to where it was."""
        if not self.is_there:
            words = ["--balance", "slots"] if self.plan else ["--add", "inv-tar"]
        else:
            words = [w for m in self.plan["moves"] for w in ("--move", "%s:%s" % (m["slots"], m["from"]))]
        plan = plans.propose(self.shop, *words, "--limit", limit)
        self.is_there = not self.is_there
        if self.is_there:
            self.plan = plan
        return plan

    def move(self, plan):
        """Seconds from the approval to the end, collection included."""
        began = time.monotonic()
        plans.approve(self.shop, plan)
        report = plans.wait(self.shop, plan, *plans.ENDED, seconds=300, every=WATCH_SECONDS)
        if report["state"] != "done":
            raise Failure("the plan has ended as %s: %s" % (report["state"], report["reason"]))
        return time.monotonic() - began

    def pauses(self):
        """Seconds, of all so far."""
        return [int(us) / 1e6 for us in re.findall(r"a pause of (\d+) us", self.shop.proxy.log())]

    def move_hash(self):
        slot = slot_of(HASH)
        plan = plans.propose(self.shop, "--move", "%d:inv-vlc" % slot, "--limit", "unlimited")
        plans.approve(self.shop, plan)
        report = plans.wait(self.shop, plan, *plans.ENDED, seconds=120)
        return "" if report["state"] == "done" else "%s: %s" % (report["state"], report["reason"])

    def end(self):
        self.shop.end()


class Cluster:
    """Four masters; the fourth owns nothing at first."""

    def __init__(self, pipeline):
        self.name, self.pipeline = "redis-cli (pipeline %d)" % pipeline, pipeline
        self.servers = [RedisServer("--cluster-enabled", "yes") for _ in range(4)]
        for (first, last), server in zip(RANGES, self.servers):
            server.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
        for server in self.servers[1:]:
            server.ask("CLUSTER", "MEET", "127.0.0.1", self.servers[0].port)
        deadline = time.monotonic() + 60
        while any(len(server.ask("CLUSTER", "NODES").splitlines()) < 4 or b"cluster_state:ok" not in server.ask("CLUSTER", "INFO") for server in self.servers):
            check(time.monotonic() < deadline, "the cluster did not form")
            time.sleep(0.1)
        self.ids = [server.ask("CLUSTER", "MYID").decode() for server in self.servers]

    address = property(lambda self: self.servers[0].address)

    def propose(self, _):
        return None

    def move(self, _):
        began = time.monotonic()
        self.reshard(",".join(self.ids[:3]), self.ids[3], MOVED)
        return time.monotonic() - began

    def reshard(self, source, target, slots):
        got = processes.run(
            [REDIS_CLI, "--cluster", "reshard", "127.0.0.1:%d" % self.servers[0].port, "--cluster-from", source,
             "--cluster-to", target, "--cluster-slots", str(slots), "--cluster-yes", "--cluster-timeout", "60000",
             "--cluster-pipeline", str(self.pipeline)],
            timeout=600,
        )
        check(got.returncode == 0, "redis-cli ended with %d: %s" % (got.returncode, got.stdout[-400:]))

    def move_hash(self):
        """The slot alone, by the steps that redis-cli takes."""
        slot, source, target = slot_of(HASH), self.servers[0], self.servers[1]
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[0])
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[1])
        with source.client() as wire:
            wire.timeout = 60
            reply = wire.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 60000, "KEYS", HASH)
        for server in (target, source):
            server.ask("CLUSTER", "SETSLOT", slot, "NODE", self.ids[1])
        return "" if reply == "OK" else str(reply)

    def end(self):
        for server in self.servers:
            server.end()


def measured_move(subject, load, limit="unlimited"):
    """One move of a quarter under probers: (keys/s, MB/s, waits before, while it is proposed, while it moves, errors)."""
    what, keys, size = load
    probers = Probers(subject.address, keys, value_of(size))
    time.sleep(2)
    asked = time.monotonic()
    plan = subject.propose(limit)
    began = time.monotonic()
    seconds = subject.move(plan)
    ended = time.monotonic()
    time.sleep(0.2)
    found, errors = probers.stop()
    quiet = [wait for at, wait in found if at < asked]
    planning = [wait for at, wait in found if asked <= at < began]
    moving = [wait for at, wait in found if began <= at < ended]
    moved = keys / 4
    return moved / seconds, moved * size / seconds / 1e6, quiet, planning, moving, errors


def show(name, rate, megabytes, quiet, _, moving, errors):
    print(
        "  %-24s %8.0f keys/s %7.1f MB/s   p99 %5.1f → %6.1f ms   p99.9 %5.1f → %6.1f   max %5.1f → %7.1f   %d errors"
        % (
            name,
            rate,
            megabytes,
            *(f(waits) for f in (lambda w: percentile(w, 0.99), lambda w: percentile(w, 0.999), lambda w: percentile(w, 1)) for waits in (quiet, moving)),
            errors,
        ),
        flush=True,
    )


def windows(subject, load, count):
    """Quiet and moving windows in turn, at the default limit: the ratios of p99."""
    ratios, at_rest, in_plan, in_move = [], [], [], []
    for _ in range(count):
        _, _, quiet, planning, moving, errors = measured_move(subject, load, "20MB/s")
        check(errors == 0, "%d errors" % errors)
        at_rest.append(percentile(quiet, 0.99))
        in_plan.append(percentile(planning, 0.99))
        in_move.append(percentile(moving, 0.99))
        ratios.append(in_move[-1] / at_rest[-1])
    print(
        "  at the default limit of 20 MB/s, %d windows: p99 %.2f → %.2f ms, median ratio %.2f (%s); %.2f ms while it is proposed"
        % (count, statistics.median(at_rest), statistics.median(in_move), statistics.median(ratios), ", ".join("%.2f" % r for r in ratios), statistics.median(in_plan)),
        flush=True,
    )


def stall(subject):
    """The longest time without an answer to a PING at the two nodes, while a hash of 40 MB moves."""
    fill_hash(subject.servers[0], HASH_FIELDS)
    probers = [Probers(subject.servers[n].address, 1, b"", 1, 0.0005, "ping") for n in (0, 1)]
    time.sleep(1)
    began = time.monotonic()
    wrong = subject.move_hash()
    ended = time.monotonic()
    time.sleep(0.5)
    text = []
    for which, prober in zip(("source", "target"), probers):
        found, _ = prober.stop()
        before = percentile([wait for at, wait in found if at < began], 1)
        text.append("%s %.1f ms (quiet %.1f)" % (which, percentile([w for at, w in found if at >= began], 1), before))
    print("  %-24s hash of %d fields in %.1f s, longest stall: %s%s" % (subject.name, HASH_FIELDS, ended - began, ", ".join(text), "; " + wrong if wrong else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True, help="slotproxy")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of keys, for a short try")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1, help="moves without a limit, there and back each")
    parser.add_argument("--only-slotproxy", action="store_true")
    options = parser.parse_args()
    for what, keys, size in LOADS:
        load = (what, int(keys * options.scale), size)
        print("%d keys of %s, a quarter moves" % (load[1], what), flush=True)
        for make in [lambda: SlotProxy(os.path.abspath(options.binary))] + ([] if options.only_slotproxy else [lambda: Cluster(10), lambda: Cluster(100)]):
            subject = make()
            try:
                fill(subject.servers[:3], load[1], size)
                for _ in range(options.rounds):
                    show(subject.name, *measured_move(subject, load))
                    if isinstance(subject, SlotProxy):
                        show("  and back", *measured_move(subject, load))
                if isinstance(subject, SlotProxy):
                    windows(subject, load, options.windows)
                    pauses = subject.pauses()
                    print("  %d pauses: p50 %.1f, p99 %.1f, max %.1f ms" % (len(pauses), percentile(pauses, 0.5), percentile(pauses, 0.99), percentile(pauses, 1)), flush=True)
            finally:
                subject.end()
    for make in [lambda: SlotProxy(os.path.abspath(options.binary))] + ([] if options.only_slotproxy else [lambda: Cluster(10)]):
        subject = make()
        try:
            stall(subject)
        finally:
            subject.end()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as why:
        sys.exit("bench-move failed: %s" % why)
