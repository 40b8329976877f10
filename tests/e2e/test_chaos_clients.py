"""What clients do while slots move, and what they see of it: nothing."""
import threading
import time

from harness import chaos, faults, plans, processes, resp
from harness.chaos import GROUP, PATIENT, SOURCE, TARGET, Move
from harness.check import check, same
from harness.load import Latency, best_of
from harness.resp import slot_of
from harness.tap import catch_up, command
from harness.tests import test
from harness.wire import Wire

MARKER = "__slotproxy:marker"


@test(seconds=120)
def keys_of_all_types_move_under_writers_without_an_error_and_within_the_pause_limit(fresh):
    shop = fresh(config=PATIENT)
    move = Move(shop, cold=6000)

    name = move.crowd.keys_in(range(2048))[0].name

    def delay():
        """There and back again; a busy machine may need a second try."""
        goal = "inv-bcn" if 0 in plans.owners(shop)["inv-vlc"] else "inv-vlc"
        latency = Latency(shop.forward, shop.node(2).address, "EXISTS", name)
        plan = plans.run(
            shop, "--move", "%s:%s" % (chaos.MOVED, goal), "--limit", "unlimited", seconds=90
        )
        slow = latency.delay(0.07, "clients of slots that move")
        same(plan["state"], "done", "the plan's state")
        return slow

    with move:
        best_of(5, delay)
        move.crowd.wait_for(200)
    move.crowd.verdict(1000)
    faults.check_bulk(shop, move.values)


@test(slow=True, seconds=200)
def two_hundred_thousand_keys_move_under_writers_without_an_error(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=200000, keys=600) as move:
        move.begin()
        move.ended(seconds=150)


@test(seconds=120)
def keys_deleted_right_after_they_were_copied_stay_deleted(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=4000, kinds=("string", "hash", "set"), keys=60) as move:
        move.begin("500KB/s")
        deleted, names = [], list(move.values)
        copied = shop.node(TARGET)
        with shop.client() as wire:
            deadline = time.monotonic() + 15
            while len(deleted) < 300 and time.monotonic() < deadline:
                there = [n for n, raw in zip(names, copied_now(copied, names)) if raw == b":1\r\n"]
                wire.pipeline(*(("DEL", name) for name in there[:50]))
                deleted += there[:50]
                names = [name for name in names if name not in set(there[:50])]
        check(len(deleted) >= 100, "%d keys were deleted right after they were copied" % len(deleted))
        for name in deleted:
            del move.values[name]
        move.ended()
        with shop.client() as wire:
            left = [n for n, raw in zip(deleted, wire.pipeline(*(("EXISTS", n) for n in deleted))) if raw != b":0\r\n"]
        same(left, [], "deleted keys that came back")


def copied_now(server, names):
    with server.client() as wire:
        return wire.pipeline(*(("EXISTS", name) for name in names[:1500]))


@test(seconds=120)
def keys_that_live_for_milliseconds_expire_on_time_wherever_they_are(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=2000, kinds=("string",), keys=100) as move:
        expiring = list(move.values)[::3]
        when = int(time.time() * 1000)
        with shop.client() as wire:
            wire.pipeline(*(("PEXPIREAT", n, when + 1 + 2 * i) for i, n in enumerate(expiring)))
            kept = expiring[-50:]  # They would expire some 1.3 s from now.
            move.begin("300KB/s")
            move.crowd.wait_for(100)
            persisted = [n for n, raw in zip(kept, wire.pipeline(*(("PERSIST", n) for n in kept))) if raw == b":1\r\n"]
        for name in set(expiring) - set(persisted):
            del move.values[name]
        move.ended()
        time.sleep(max(0, when / 1000 + 0.01 + 0.002 * len(expiring) - time.time()))
        with shop.client() as wire:
            gone = [n for n in expiring if n not in set(persisted)]
            alive = [n for n, raw in zip(gone, wire.pipeline(*(("EXISTS", n) for n in gone))) if raw != b":0\r\n"]
        same(alive, [], "expired keys that are visible")


@test(seconds=120)
def consumer_groups_that_change_between_copy_and_commit_without_a_notice_move_as_they_are(fresh):
    shop = fresh(config=PATIENT, taps=(TARGET,))
    names = [n for n in ("stream:%d" % i for i in range(500)) if slot_of(n) < 2048][:40]
    facts = {}

    def read_all(wire, name):
        return [
            wire.ask(*words)
            for words in (("XRANGE", name, "-", "+"), ("XINFO", "GROUPS", name), ("XINFO", "STREAM", name))
        ] + [[entry[:2] + entry[3:] for entry in wire.ask("XPENDING", name, "g", "-", "+", 100)]]

    def groups_only():
        with shop.client() as wire:
            for n, name in enumerate(names):
                wire.raw("XREADGROUP", "GROUP", "g", "c", "COUNT", n % 4 + 1, "STREAMS", name, ">")
                wire.raw("XACK", name, "g", "1-1")
                wire.raw("XCLAIM", name, "g", "d", 0, "2-1", "JUSTID")
                wire.raw("XGROUP", "CREATE", name, "new", "3-1")
                facts[name] = read_all(wire, name)

    with Move(shop, cold=1000, kinds=("string",), keys=20) as move:
        with shop.client() as wire:
            for name in names:
                wire.pipeline(*(("XADD", name, "%d-1" % i, "f", i) for i in range(1, 8)))
                wire.raw("XGROUP", "CREATE", name, "g", 0)
        done = shop.relays[TARGET].at(catch_up(), groups_only)
        move.begin()
        chaos.acted(done, "the catch-up")
        move.ended()
        with shop.client() as wire:
            for name in names:
                same(read_all(wire, name), facts[name], "what %s is after the move" % name)


@test(seconds=120)
def commands_over_several_keys_of_one_slot_never_see_half_of_them(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=1000, kinds=("family",), keys=60, writers=4, readers=2) as move:
        with shop.client() as wire:
            wire.pipeline(*(("SADD", "{checked:%d}a" % n, *range(50)) for n in range(200)))
            wire.pipeline(*(("SADD", "{checked:%d}b" % n, *range(40, 90)) for n in range(200)))
            move.begin()
            wrong = []
            while move.show()["state"] == "running" and not wrong:
                replies = wire.pipeline(
                    *(("SUNIONSTORE", "{checked:%d}c" % n, "{checked:%d}a" % n, "{checked:%d}b" % n) for n in range(200))
                )
                wrong = [raw for raw in replies if raw != b":90\r\n"]
        same(wrong, [], "replies to SUNIONSTORE")
        move.ended()


@test(seconds=120)
def a_scan_or_keys_during_cut_overs_shows_every_stable_key_and_dbsize_counts_no_copy(fresh):
    shop = fresh(config=PATIENT)
    stable = faults.bulk_fill(shop, 3000)
    names = {name.encode() for name in stable}
    plan = plans.propose(shop, "--move", chaos.MOVED + ":inv-vlc", "--limit", "600KB/s")
    with shop.client("scanner") as wire:
        same(wire.ask("DBSIZE"), len(names), "DBSIZE before")
        plans.approve(shop, plan)
        rounds = 0
        while plans.show(shop, plan["id"])["state"] in ("approved", "running") or rounds < 2:
            seen, cursor = [], b"0"
            while True:
                cursor, page = wire.ask("SCAN", cursor, "COUNT", 200)
                seen += page
                if cursor == b"0":
                    break
            same(names - set(seen), set(), "stable keys that a SCAN missed")
            listed = wire.ask("KEYS", "bulk:*")
            same(len(listed), len(set(listed)), "names that KEYS shows, and different ones")
            same(names - set(listed), set(), "stable keys that KEYS missed")
            counted = wire.ask("DBSIZE")
            check(
                len(names) <= counted <= 2 * len(names) + 1,  # The marker.
                "DBSIZE says %d of %d keys, with their copies" % (counted, len(names)),
            )
            rounds += 1
        plans.wait(shop, plan, "done")
        same(wire.ask("DBSIZE"), len(names), "DBSIZE after")


@test(seconds=120)
def a_flush_while_slots_are_copied_paused_or_kept_leaves_nothing_that_comes_back(fresh):
    places = {
        "copied": (TARGET, ("RESTORE", 500)),
        "paused": (TARGET, ("SET", 2, MARKER)),
        "kept": (TARGET, ("INFO", 1, "persistence")),
    }
    for phase, (place, words) in places.items():
        shop = fresh(config=PATIENT, taps=(TARGET,))
        old = faults.bulk_fill(shop, 1500)
        flushed = []

        def flush():
            with shop.client("flusher", timeout=20) as wire:
                flushed.append(wire.raw("FLUSHALL"))

        thread = threading.Thread(target=flush, daemon=True)
        done = shop.relays[place].at(command(*words), thread.start)
        plan = chaos.begin(shop)
        chaos.acted(done, phase)
        thread.join(20)
        same(flushed, [b"+OK\r\n"], "FLUSHALL's reply")
        new = faults.bulk_fill(shop, 200, prefix="new")
        chaos.finish(shop, plan)
        with shop.client() as wire:
            same(wire.ask("DBSIZE"), len(new), "keys after a flush while slots are %s" % phase)
            same(wire.ask("EXISTS", *list(old)[:1]), 0)
        faults.check_bulk(shop, new)


@test(slow=True, seconds=150)
def a_flood_of_pipelined_commands_to_slots_that_move_is_answered_in_order_and_without_an_error(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=20000) as move:
        name = next(n for n in ("flood{%d}" % i for i in range(999)) if slot_of(n) < GROUP)
        flood = threading.Thread(
            target=lambda: results.append(
                processes.run(
                    ["redis-benchmark", "-p", str(shop.forward_port), "-n", "600000", "-c", "50", "-P", "32",
                     "-q", "INCR", name],
                    timeout=60,
                )
            )
        )
        results = []
        flood.start()
        move.begin()
        flood.join()
        move.ended()
        same(results[0].returncode, 0, "redis-benchmark's status")
        check("Error" not in results[0].stdout + results[0].stderr, results[0].stdout + results[0].stderr)
        with shop.client() as wire:
            same(wire.ask("GET", name), b"600000", "the counter")


@test(seconds=120)
def a_write_whose_client_leaves_in_the_pause_never_comes_behind_a_later_one(fresh):
    shop = fresh(config=PATIENT, taps=(TARGET,))
    with Move(shop, cold=1000) as move:
        for nth in (2, 4, 6, 8):
            first = (nth - 1) * GROUP
            names = [n for n in ("left:%d" % i for i in range(20000)) if first <= slot_of(n) < first + GROUP]
            later = []

            def act(names=names[:20], later=later):
                gone = shop.client("leaves")
                queued = b"".join(resp.request("SET", name, "queued") for name in names)
                gone.send(resp.request("PING") + queued)
                gone.read()  # What came with the PING is held back now, or has been sent.
                gone.close()
                thread = threading.Thread(target=write_later, args=(shop, names, later), daemon=True)
                thread.start()
                move.threads.append((thread, names, later))
                time.sleep(0.01)

            move.threads = getattr(move, "threads", [])
            shop.relays[TARGET].at(command("SET", 1, MARKER) if nth == 2 else command("SET", 2, MARKER), act)
        move.begin()
        plans.wait(shop, move.plan, *plans.ENDED)
        check(len(move.threads) == 4, "%d pauses were met" % len(move.threads))
        with shop.client() as wire:
            for thread, names, later in move.threads:
                thread.join(20)
                same(later, [b"+OK\r\n"] * len(names), "the later writes")
                for name in names:
                    same(wire.ask("GET", name), b"later", "what %s is" % name)
        move.ended()


def write_later(shop, names, later):
    with shop.client("later", timeout=20) as wire:
        later += wire.pipeline(*(("SET", name, "later") for name in names))


@test(seconds=120)
def a_pipeline_over_slots_that_move_and_others_is_answered_in_order(fresh):
    shop = fresh(config=PATIENT)
    moving = [n for n in ("in:%d" % i for i in range(400)) if slot_of(n) < 2048][:30]
    others = [n for n in ("out:%d" % i for i in range(400)) if slot_of(n) >= 6000][:30]
    with Move(shop, cold=3000) as move:
        move.begin("400KB/s")
        rounds = 0
        with shop.client("pipeline", timeout=20) as wire:
            while rounds < 30 or move.show()["state"] == "running":
                rounds += 1
                asked, wanted = [], []
                for n, (one, other) in enumerate(zip(moving, others)):
                    asked += [("ECHO", "%d.%d" % (rounds, n)), ("INCR", one), ("INCR", other)]
                    wanted += [resp.bulk("%d.%d" % (rounds, n)), b":%d\r\n" % rounds, b":%d\r\n" % rounds]
                same(wire.pipeline(*asked), wanted, "the replies of round %d" % rounds)
                if rounds == 60:
                    plans.ask(shop, "PLAN", "THROTTLE", move.plan["id"], "unlimited")
        move.ended()


@test(slow=True, seconds=120)
def a_read_that_is_held_in_a_pause_is_answered_by_the_new_owner_on_both_kinds_of_ports(fresh):
    shop = fresh(config=PATIENT, taps=(TARGET,))
    with Move(shop, cold=1000) as move:
        names = [n for n in move.values if slot_of(n) < GROUP][:5]
        answers = []

        def ask():
            for port in (shop.forward, shop.endpoint(SOURCE)):
                thread = threading.Thread(target=read_all, args=(port, names, answers), daemon=True)
                thread.start()
                threads.append(thread)
            time.sleep(0.01)

        threads = []
        done = shop.relays[TARGET].at(command("SET", 1, MARKER), ask)
        move.begin()
        chaos.acted(done, "the first pause")
        for thread in threads:
            thread.join(10)
        move.ended()
        wanted = [resp.bulk(move.values[name]) for name in names]
        same(answers, [wanted, wanted], "what was read in the pause")


def read_all(address, names, answers):
    with Wire(address, "held", timeout=20) as wire:
        answers.append(wire.pipeline(*(("GET", name) for name in names)))
