"""Moves within their limits: bandwidth, approvals, clocks, keys that never rest, many moves at once."""
import threading
import time

from harness import chaos, faults, plans
from harness.chaos import GROUP, PATIENT, SOURCE, TARGET, Move
from harness.check import check, eventually, has, same
from harness.resp import slot_of
from harness.tests import test

BURST_SECONDS = 0.05  # Of the limit; no less than 64 KB.


def passed_between(tap, way, since, until):
    return sum(count for at, count in list(tap.passed[way]) if since <= at < until)


# As fast as the limit on bytes lets it.
UNGENTLE = {**PATIENT, "rebalance": {**PATIENT["rebalance"], "node_share": "100%"}}


@test(slow=True, seconds=150)
def a_limit_holds_over_the_run_and_in_every_second_counted_at_the_nodes(fresh):
    rate = 1_000_000
    shop = fresh(config=UNGENTLE, taps=(SOURCE, TARGET))
    faults.bulk_fill(shop, 8000, 2000)
    plan = chaos.begin(shop, "1MB/s")
    began = time.monotonic()
    eventually(lambda: plans.show(shop, plan["id"])["progress"]["keys_copied"] > 0, 10, "it copies")
    time.sleep(12)
    until = time.monotonic()
    chaos.finish(shop, plan)
    busiest = 0
    for place in (SOURCE, TARGET):
        tap = shop.relays[place]
        total = sum(passed_between(tap, way, began + 1, until) for way in ("up", "down"))
        busiest = max(busiest, total / (until - began - 1))
        burst = 2 * max(64000, BURST_SECONDS * rate)  # The chunk comes on top.
        for tenth in range(int((until - began - 2) * 10)):
            start = began + 1 + tenth / 10
            window = sum(passed_between(tap, way, start, start + 1) for way in ("up", "down"))
            # What passes between tap and mover may lie in sockets for a moment.
            check(
                window <= (rate + burst) * 1.05,
                "%d bytes within a second at node %d, limit %d and burst %d" % (window, place, rate, burst),
            )
    check(0.95 * rate <= busiest <= 1.02 * rate, "%.0f bytes/s at the busier node" % busiest)


@test(seconds=120)
def a_pause_stops_every_byte_of_a_copy_at_once_and_another_limit_holds_from_the_next_second(fresh):
    shop = fresh(config=UNGENTLE, taps=(TARGET,))
    tap = shop.relays[TARGET]
    with Move(shop, cold=5000, size=1000, pace=0.005) as move:
        move.begin("500KB/s")
        eventually(lambda: move.show()["progress"]["keys_copied"] > 100, 10, "it copies")
        plans.ask(shop, "PLAN", "PAUSE", move.plan["id"])
        paused = time.monotonic() + 0.3
        time.sleep(1.3)
        written = passed_between(tap, "up", paused, paused + 1)
        check(written < 3000, "%d bytes went to the target in a second of pause" % written)
        plans.ask(shop, "PLAN", "THROTTLE", move.plan["id"], "1MB/s")
        plans.ask(shop, "PLAN", "RESUME", move.plan["id"])
        resumed = time.monotonic() + 0.5
        time.sleep(1.5)
        written = sum(passed_between(tap, way, resumed, resumed + 1) for way in ("up", "down"))
        check(500_000 < written < 1_200_000, "%d bytes within a second at 1 MB/s" % written)
        move.ended()


@test
def nothing_moves_without_an_approval_or_with_that_of_another_plan(fresh):
    shop = fresh(config=PATIENT)
    faults.bulk_fill(shop, 300)
    plan = plans.propose(shop, "--move", chaos.MOVED + ":inv-vlc")
    other = plans.propose(shop, "--move", "0-2046:inv-vlc")
    has(
        plans.refusal(shop, "PLAN", "APPROVE", plan["id"], "--digest", other["digest"]),
        "another digest",
    )
    for words in (("RESUME",), ("ABORT",), ("PAUSE",)):
        plans.refusal(shop, "PLAN", *words, plan["id"])
    plans.ask(shop, "PLAN", "THROTTLE", plan["id"], "unlimited")
    shop.proxy.kill()
    shop.start()
    same(plans.show(shop, plan["id"])["state"], "proposed")
    same(len(plans.owners(shop)["inv-bcn"]), 5461)
    same(plans.keys_of(shop.node(TARGET)), set(), "what is on the target")
    same(faults.movers_of(shop.node(SOURCE)), [], "movers at the source")


@test(seconds=120)
def a_plan_between_nodes_whose_clocks_differ_by_seconds_is_refused_before_it_moves_a_key(fresh):
    shop = fresh(config=PATIENT, relays=(TARGET,))

    def three_seconds_ahead(args, ask):
        return b"*2\r\n$10\r\n%d\r\n$1\r\n0\r\n" % (int(time.time()) + 3)

    relay = shop.relays[TARGET]
    relay.rules.append((lambda args: args[0].upper() == b"TIME", three_seconds_ahead))
    plan = plans.propose(shop, "--move", chaos.MOVED + ":inv-vlc")
    failed = [each for each in plan["checks"] if each["result"] == "fail"]
    check(any("clock" in each["what"] for each in failed), "the clocks are a failed check: %s" % failed)
    plans.refusal(shop, "PLAN", "APPROVE", plan["id"], "--digest", plan["digest"])


@test(seconds=120)
def a_plan_moves_slots_both_ways_between_two_nodes_and_a_second_plan_has_to_wait(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=3000) as move:
        there = faults.bulk_fill(shop, 1000, prefix="back", slots=range(8000, 9000))
        move.begin("400KB/s", more=("--move", "8000-8999:inv-bcn"))
        overlapping = plans.propose(shop, "--move", "1000-1100:inv-gir")
        same(overlapping["state"], "proposed")
        has(
            plans.refusal(
                shop, "PLAN", "APPROVE", overlapping["id"], "--digest", overlapping["digest"]
            ),
            "plan %d" % move.plan["id"],
        )
        move.ended()
        faults.check_bulk(shop, there)
        check(set(range(8000, 9000)) <= plans.owners(shop)["inv-bcn"], "the other way, too")
        same(plans.show(shop, overlapping["id"])["state"], "stale")


@test(slow=True, seconds=400)
def a_thousand_cut_overs_back_and_forth_leave_neither_memory_nor_connections_behind(fresh):
    shop = fresh(config={**PATIENT, "rebalance": {"grace": "10ms", "pause": "200ms"}})
    with Move(shop, cold=300) as move:
        pauses, facts = 0, []
        while pauses < 1000:
            goal = "inv-bcn" if 0 in plans.owners(shop)["inv-vlc"] else "inv-vlc"
            plan = plans.run(shop, "--move", "0-2047:" + goal, "--limit", "unlimited", seconds=60)
            same(plan["state"], "done")
            pauses += plan["progress"]["pauses"]
            facts.append((shop.proxy.memory(), shop.proxy.descriptors()))
        move.crowd.wait_for(100)
    move.crowd.verdict()
    early, late = facts[len(facts) // 4], facts[-1]
    check(late[0] - early[0] < 12_000_000, "memory after many moves: %d, then %d bytes" % (early[0], late[0]))
    check(late[1] <= early[1] + 6, "descriptors after many moves: %d, then %d" % (early[1], late[1]))
    same(faults.movers_of(shop.node(SOURCE)) + faults.movers_of(shop.node(TARGET)), [], "movers left")


@test(seconds=120)
def a_key_that_never_rests_holds_up_its_own_slot_only_and_the_limit_holds(fresh):
    shop = fresh(config=PATIENT)
    name = next(n for n in ("hot:%d" % i for i in range(9999)) if 500 < slot_of(n) < 1500)
    stop = threading.Event()

    def write():
        with shop.client("hot", timeout=20) as wire:
            n = 0
            while not stop.is_set():
                wire.pipeline(*(("SET", name, ("%d" % (n + i)).ljust(20000, "x")) for i in range(20)))
                n += 20

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        with Move(shop, cold=2000, pace=0.002) as move:
            move.begin("1MB/s")
            plans.wait_committed(shop, move.plan, 1900, seconds=90)
            stop.set()
            thread.join()
            move.ended()
    finally:
        stop.set()


@test(slow=True, seconds=120)
def a_slot_that_holds_a_whole_data_set_moves_within_the_pause_and_in_bounded_memory(fresh):
    shop = fresh(config=PATIENT)
    tag = next(n for n in ("tag%d" % i for i in range(9999)) if slot_of(n) == 777 or slot_of(n) < GROUP)
    with Move(shop, cold=500) as move:
        with shop.client("filler") as wire:
            for start in range(0, 200000, 2000):
                wire.pipeline(*(("SET", "{%s}%d" % (tag, n), n) for n in range(start, start + 2000)))
        before = shop.proxy.memory()
        move.begin()
        report = move.ended()
        check(shop.proxy.memory("VmHWM") - before < 100_000_000, "the proxy's memory stays bounded")
        with shop.client() as wire:
            same(wire.ask("GET", "{%s}199999" % tag), b"199999")
        check(report["progress"]["pauses"] >= 1, "pauses: %s" % report["progress"])
