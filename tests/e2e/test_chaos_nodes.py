"""Moves whose nodes are killed, stopped, cut off, full or unwilling."""
import os
import threading
import time

from harness import chaos, faults, plans, processes
from harness.chaos import GROUP, PATIENT, QUICK, SOURCE, TARGET, Move
from harness.check import check, eventually, has, same
from harness.load import Latency, best_of
from harness.resp import slot_of
from harness.tap import command
from harness.tests import test

KEEPS = ("--appendonly", "yes")
MARKER = "__slotproxy:marker"


@test(seconds=120)
def a_target_killed_before_the_commit_gets_its_copies_again(fresh):
    shop = fresh(config=QUICK, taps=(TARGET,), node_args=KEEPS)
    with Move(shop) as move:
        done = shop.relays[TARGET].at(command("RESTORE", 2000), shop.node(TARGET).kill, sent=True)
        move.begin()
        chaos.acted(done, "the 2000th copy")
        shop.node(TARGET).start()
        move.ended(errors=True)


@test(seconds=120)
def a_target_that_loses_all_before_the_commit_gets_its_copies_again(fresh):
    shop = fresh(config=QUICK, taps=(TARGET,))
    # Keys of its own would be gone, and nobody could tell the server from another one.
    with Move(shop, elsewhere=False) as move:
        identity = shop.node(TARGET).ask("GET", "__slotproxy:identity")
        done = shop.relays[TARGET].at(command("RESTORE", 2000), shop.node(TARGET).kill, sent=True)
        move.begin()
        chaos.acted(done, "the 2000th copy")
        shop.node(TARGET).start()
        shop.node(TARGET).ask("SET", "__slotproxy:identity", identity)
        move.ended(errors=True)


@test(slow=True, seconds=120)
def a_stopped_target_holds_up_nobody_at_the_source_and_the_plan_goes_on_when_it_wakes(fresh):
    shop = fresh(config=QUICK)
    with Move(shop) as move:
        move.begin("200KB/s")
        plans.wait(shop, move.plan, "running")
        key = next(k for k in ("quiet:%d" % n for n in range(9999)) if slot_of(k) < 2048)

        def delay():
            latency = Latency(shop.forward, shop.node(2).address, "GET", key)
            shop.node(TARGET).stop()
            time.sleep(3)
            shop.node(TARGET).go_on()
            return latency.delay(0.1, "clients of the source while the target stood still")

        move.crowd.pause()
        best_of(3, delay)
        move.crowd.go_on()
        move.ended(errors=True)


@test(seconds=120)
def a_target_stopped_in_a_pause_costs_clients_the_pause_limit_and_no_key(fresh):
    shop = fresh(config=PATIENT, taps=(TARGET,))
    with Move(shop) as move:
        done = shop.relays[TARGET].at(command("SET", 2, MARKER), shop.node(TARGET).stop)
        move.begin()
        chaos.acted(done, "the second marker")
        key = next(k.name for k in move.crowd.keys if GROUP <= slot_of(k.name) < 2 * GROUP and k.kind == "list")
        with shop.client() as wire:
            began = time.monotonic()
            check(not wire.raw("LLEN", key).startswith(b"-"), "the source serves on")
            waited = time.monotonic() - began
        time.sleep(0.5)
        shop.node(TARGET).go_on()
        move.ended()
        check(waited < 0.8, "clients wait for the pause limit of 200 ms: they waited %.3f s" % waited)


@test(seconds=120)
def a_mover_cut_off_from_its_target_does_no_harm_when_its_late_bytes_arrive(fresh):
    shop = fresh(config=QUICK, taps=(TARGET,))
    tap, held = shop.relays[TARGET], []
    with Move(shop) as move:
        done = tap.at(command("RESTORE", 1500), lambda: held.append(tap.hold()))
        move.begin()
        chaos.acted(done, "the 1500th copy")
        plans.wait_committed(shop, move.plan, 1, seconds=30)
        tap.release(held[0])
        move.ended(errors=True)


@test(seconds=120)
def a_feed_that_is_cut_at_either_node_is_noticed_and_the_copies_begin_anew(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=8000) as move:
        move.begin("1MB/s")
        cuts = 0
        for place in (SOURCE, TARGET) * 3:
            for number in eventually(
                lambda: faults.movers_of(shop.node(place)), 10, "a mover reads the feed"
            ):
                cuts += shop.node(place).ask("CLIENT", "KILL", "ID", number)
            move.crowd.wait_for(300)
        check(cuts >= 6, "feeds were cut %d times" % cuts)
        move.ended()


@test(slow=True, seconds=120)
def a_feed_cut_again_and_again_at_any_moment_loses_no_change(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=2000) as move:
        move.begin()
        cuts, deadline = 0, time.monotonic() + 12
        while time.monotonic() < deadline and move.show()["state"] == "running":
            place = (SOURCE, TARGET)[cuts % 2]
            for number in faults.movers_of(shop.node(place)):
                cuts += shop.node(place).ask("CLIENT", "KILL", "ID", number)
            time.sleep(0.02 * (1 + cuts % 9))
        check(cuts >= 4, "feeds were cut %d times" % cuts)
        move.ended()


@test(seconds=120)
def a_feed_that_overflows_its_output_buffer_is_noticed(fresh):
    shop = fresh(config=PATIENT, taps=(SOURCE,))
    tap, held = shop.relays[SOURCE], []
    with Move(shop) as move:
        source = shop.node(SOURCE)
        source.ask("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0")

        def burst():
            held.append([link for link in tap.hold() if link.is_movers])
            tap.release([link for link in tap.links if not link.is_movers])
            name = next(iter(move.values))
            with source.client("burst") as wire:
                for start in range(0, 60000, 2000):
                    wire.pipeline(*(("SET", "burst%d:%s" % (n, "x" * 60), 1) for n in range(start, start + 2000)))
                wire.pipeline(*(("DEL", "burst%d:%s" % (n, "x" * 60)) for n in range(60000)))
                del name
            eventually(lambda: not faults.movers_of(source), 5, "the feed is cut by the server")
            tap.release(held[0])

        done = tap.at(command("DUMP", 1500), burst)
        move.begin()
        chaos.acted(done, "the burst")
        move.ended()


@test(seconds=120)
def a_target_without_room_fails_the_plan_in_words_and_is_left_as_it_was(fresh):
    shop = fresh(config=QUICK)
    target = shop.node(TARGET)
    with Move(shop, cold=4000, size=1000) as move:
        target.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        move.plan = plans.propose(shop, "--move", chaos.MOVED + ":inv-vlc", "--limit", "2MB/s")
        plans.approve(shop, move.plan)
        target.ask("CONFIG", "SET", "maxmemory", int(target.info("memory")["used_memory"]) + 10**6)
        report = plans.wait(shop, move.plan, *plans.ENDED)
        has(report["reason"], "inv-vlc has no room", "OOM", "raise its maxmemory")
        target.ask("CONFIG", "SET", "maxmemory", 0)
        move.ended("failed", errors=True)


@test(seconds=120)
def copies_that_the_target_evicts_before_the_commit_are_made_again_or_nothing_is_committed(fresh):
    shop = fresh(config=PATIENT, taps=(TARGET,))
    target = shop.node(TARGET)
    with Move(shop, cold=4000) as move:
        victims = list(move.values)[:300]

        def evict():
            """As a server does that is full: its own deletion, told to the feed."""
            with target.client("evictor") as wire:
                wire.pipeline(*(("UNLINK", name) for name in victims))

        done = shop.relays[TARGET].at(command("SET", 1, MARKER), evict)
        move.begin()
        chaos.acted(done, "the first marker")
        move.ended()


@test(slow=True, seconds=120)
def a_target_that_evicts_copies_for_want_of_memory_never_costs_the_source_a_key(fresh):
    shop = fresh(config=QUICK)
    target = shop.node(TARGET)
    with Move(shop, cold=4000, size=1000, shared=False) as move:
        target.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        move.crowd.pause()
        plan = move.begin()
        target.ask("CONFIG", "SET", "maxmemory", int(target.info("memory")["used_memory"]) + 500_000)
        time.sleep(3)
        if move.show()["state"] == "running":
            plans.ask(shop, "PLAN", "ABORT", plan["id"])
        plans.wait(shop, plan, *plans.ENDED)
        # What was committed is the target's, and its policy evicts it; all else must be there.
        still = plans.owners(shop)["inv-bcn"]
        there = {name: value for name, value in move.values.items() if slot_of(name) in still}
        faults.check_bulk(shop, there)


@test(seconds=120)
def keys_that_the_source_evicts_while_they_are_copied_are_not_on_the_target(fresh):
    shop = fresh(config=PATIENT)
    source = shop.node(SOURCE)
    with shop.client() as wire:
        volatile = ["volatile:%d" % n for n in range(6000)]
        volatile = [name for name in volatile if slot_of(name) < 2048]
        wire.pipeline(*(("SET", name, "x" * 500, "EX", 10000 + n) for n, name in enumerate(volatile)))
    with Move(shop, cold=0, kinds=("set", "zset", "family"), shared=False) as move:
        # No expiries of its own, so that the policy evicts nothing that it checks.
        move.begin("400KB/s")
        source.ask("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
        for _ in range(10):
            source.ask("CONFIG", "SET", "maxmemory", int(source.info("memory")["used_memory"]) - 20000)
            move.crowd.wait_for(50)
        source.ask("CONFIG", "SET", "maxmemory", 0)
        evicted = int(source.info("stats")["evicted_keys"])
        check(evicted > 50, "the source has evicted %d keys" % evicted)
        chaos.finish(shop, move.plan)
        with shop.client() as wire:
            left = sum(wire.ask("EXISTS", name) for name in volatile)
        same(left, len(volatile) - evicted, "volatile keys that are left")


@test(seconds=120)
def a_target_that_refuses_writes_for_a_while_is_waited_for(fresh):
    shop = fresh(config=QUICK, taps=(TARGET,))
    target = shop.node(TARGET)
    with Move(shop, kinds=("string", "hash", "list"), slots=range(2048)) as move:

        def refuse():
            target.ask("CONFIG", "SET", "min-replicas-to-write", 1)

        done = shop.relays[TARGET].at(command("RESTORE", 1500), refuse)
        move.begin()
        chaos.acted(done, "the 1500th copy")
        eventually(
            lambda: "NOREPLICAS" in move.show()["progress"]["waits_for"],
            10,
            lambda: "the plan says what it waits for: %s" % move.show(),
        )
        same(len(plans.owners(shop)["inv-bcn"]), 5461, "nothing is committed meanwhile")
        target.ask("CONFIG", "SET", "min-replicas-to-write", 0)
        move.ended(errors=True)


@test(slow=True, seconds=120)
def a_target_that_refuses_writes_just_before_a_commit_is_not_committed_to(fresh):
    for nth in (1, 2, 5):
        shop = fresh(config=QUICK, taps=(TARGET,))
        target = shop.node(TARGET)
        with Move(shop, cold=1000) as move:
            done = shop.relays[TARGET].at(
                command("SET", nth, MARKER),
                lambda: target.ask("CONFIG", "SET", "min-replicas-to-write", 1),
            )
            move.begin()
            chaos.acted(done, "the marker")
            threading.Event().wait(0.3)
            same(move.show()["progress"]["slots_committed"], (nth - 1) * GROUP, "slots committed")
            target.ask("CONFIG", "SET", "min-replicas-to-write", 0)
            move.ended(errors=True)


@test(slow=True, seconds=120)
def a_target_that_can_not_save_and_takes_no_writes_is_waited_for(fresh):
    shop = fresh(config=PATIENT, taps=(TARGET,))
    target = shop.node(TARGET)
    in_the_way = os.path.join(target.folder, "dump.rdb")
    os.mkdir(in_the_way)
    with Move(shop, elsewhere=False) as move:

        def fail_to_save():
            target.ask("CONFIG", "SET", "save", "3600 1")
            target.ask("BGSAVE")
            eventually(
                lambda: target.info("persistence")["rdb_last_bgsave_status"] == "err", 5, "it fails"
            )

        done = shop.relays[TARGET].at(command("RESTORE", 1500), fail_to_save)
        move.begin()
        chaos.acted(done, "the 1500th copy")
        eventually(
            lambda: "MISCONF" in move.show()["progress"]["waits_for"],
            10,
            lambda: "the plan says what it waits for: %s" % move.show(),
        )
        same(len(plans.owners(shop)["inv-bcn"]), 5461, "nothing is committed meanwhile")
        os.rmdir(in_the_way)
        target.ask("BGSAVE")
        move.ended(errors=True)


@test(slow=True, seconds=120)
def a_target_that_is_made_a_replica_while_copies_are_written_is_waited_for(fresh):
    shop = fresh(config=QUICK, taps=(TARGET,))
    target, nobody = shop.node(TARGET), processes.free_port()
    with Move(shop, elsewhere=False) as move:
        done = shop.relays[TARGET].at(
            command("RESTORE", 1500), lambda: target.ask("REPLICAOF", "127.0.0.1", nobody)
        )
        move.begin()
        chaos.acted(done, "the 1500th copy")
        time.sleep(1.5)
        same(len(plans.owners(shop)["inv-bcn"]), 5461, "nothing is committed meanwhile")
        target.ask("REPLICAOF", "NO", "ONE")
        move.ended(errors=True)


@test(slow=True, seconds=150)
def a_target_that_loads_its_data_for_seconds_while_it_is_copied_to_is_waited_for(fresh):
    shop = fresh(config=QUICK, taps=(TARGET,), node_args=KEEPS)
    target = shop.node(TARGET)
    with Move(shop) as move:
        done = shop.relays[TARGET].at(command("RESTORE", 2000), target.kill, sent=True)
        move.begin()
        chaos.acted(done, "the 2000th copy")
        target.start("--key-load-delay", "600", "--loading-process-events-interval-bytes", "4096")
        move.ended(errors=True)
