"""Moves whose nodes come back with an older state, as servers do that lose the end of their history:
what was lost is the server's own loss, and the move adds nothing to it."""
import time

from harness import chaos, faults, plans
from harness.chaos import PATIENT, SOURCE, TARGET, Move
from harness.check import check, eventually, has, same
from harness.shop import RANGES
from harness.tap import command
from harness.tests import test

# Durable is what has been so for the grace time: long enough to lose it first.
KEEPS = ("--appendonly", "yes", "--appendfsync", "no")
LONG = {**PATIENT, "rebalance": {"grace": "60s", "pause": "200ms"}}
MARKER = "__slotproxy:marker"
OF_SOURCE = range(RANGES[SOURCE][0], RANGES[SOURCE][1] + 1)
OF_TARGET = range(RANGES[TARGET][0], RANGES[TARGET][1] + 1)


def committed(fresh, **more):
    """A shop and a move all of whose slots are committed while no client writes."""
    shop = fresh(config=LONG, node_args=KEEPS, **more)
    return shop, Move(shop, cold=1500, shared=False)


def commit_quietly(move):
    move.crowd.pause()
    move.begin()
    plans.wait_committed(move.shop, move.plan, 2048)
    when = time.time()
    move.crowd.go_on()
    move.crowd.wait_for(400)
    return when


def lose(move, when, *slots):
    """The model forgets what was written since to keys in these slots."""
    move.crowd.pause()
    for each in slots:
        for key in move.crowd.keys_in(each):
            key.is_as_at(when)


def shorten_grace(move):
    """So that the end comes soon: the next process of the proxy reads the file anew."""
    move.shop.config["rebalance"]["grace"] = "300ms"
    move.shop.write_config()
    move.crowd.pause()
    move.shop.proxy.kill()
    move.shop.start()
    move.crowd.go_on()


def back_at(move, server):
    server.start()
    server.wait_loaded()
    move.crowd.go_on()


@test(seconds=120)
def a_source_that_comes_back_older_while_it_is_copied_gives_the_older_state_and_nothing_newer(fresh):
    shop = fresh(config=PATIENT, node_args=KEEPS)
    with Move(shop, cold=6000, shared=False) as move:
        source = shop.node(SOURCE)
        move.begin("1MB/s")
        move.crowd.wait_for(300)
        move.crowd.pause()
        source.ask("SET", "history-ends-here", "1")
        when = time.time()
        move.crowd.go_on()
        move.crowd.wait_for(600)
        source.kill()
        same(move.show()["progress"]["slots_committed"], 0, "slots committed so far")
        lost = faults.cut_aof(source, lambda args: args[1:2] == [b"history-ends-here"])
        check(lost > 100, "%d commands are lost" % lost)
        lose(move, when, OF_SOURCE)
        back_at(move, source)
        move.ended(errors=True)


@test(seconds=120)
def a_target_that_comes_back_from_before_the_marker_gives_the_slots_back_with_every_old_key(fresh):
    shop, move = committed(fresh)
    with move:
        when = commit_quietly(move)
        target = shop.node(TARGET)
        target.kill()
        faults.cut_at_marker(target)
        lose(move, when, range(2048), OF_TARGET)
        back_at(move, target)
        shop.proxy.wait_log("inv-vlc has lost slots", 15)
        eventually(lambda: move.show()["progress"]["slots_committed"] == 2048, 20, "they move again")
        shorten_grace(move)
        move.ended(errors=True)


@test(slow=True, seconds=120)
def a_target_that_comes_back_from_between_two_commits_keeps_the_first_and_gives_the_second_back(fresh):
    shop, move = committed(fresh)
    with move:
        when = commit_quietly(move)
        target = shop.node(TARGET)
        target.kill()
        count = [0]

        def is_sixth(args):
            count[0] += faults.is_marker(args)
            return count[0] == 6

        faults.cut_aof(target, is_sixth)
        lose(move, when, range(2048), OF_TARGET)
        back_at(move, target)
        shop.proxy.wait_log("inv-vlc has lost slots", 15)
        shorten_grace(move)
        move.ended(errors=True)


@test(seconds=120)
def a_target_that_comes_back_from_after_the_last_marker_keeps_the_slots(fresh):
    shop, move = committed(fresh)
    with move:
        when = commit_quietly(move)
        target = shop.node(TARGET)
        target.kill()
        markers = [
            args for _, args in faults.commands_of(faults.aof_files(target)[-1]) if faults.is_marker(args)
        ]
        lost = faults.cut_aof(target, lambda args: args == markers[-1], after=True)
        check(lost > 50, "%d commands are lost" % lost)
        lose(move, when, range(2048), OF_TARGET)
        back_at(move, target)
        shorten_grace(move)
        move.ended(errors=True)
        check("has lost slots" not in shop.proxy.log(), "nothing is given back")


@test(seconds=120)
def a_target_without_persistence_that_comes_back_empty_gives_the_slots_back(fresh):
    shop = fresh(config=LONG)
    with Move(shop, cold=1500, shared=False, elsewhere=False) as move:
        when = commit_quietly(move)
        target = shop.node(TARGET)
        target.kill()
        lose(move, when, range(2048))
        back_at(move, target)
        shop.proxy.wait_log("inv-vlc has lost slots", 15)
        shorten_grace(move)
        move.ended(errors=True)


@test(slow=True, seconds=120)
def a_target_that_loses_all_after_the_collection_keeps_the_slots_and_the_loss_is_told(fresh):
    shop = fresh(config=PATIENT)
    with Move(shop, cold=500, shared=False, elsewhere=False) as move:
        move.begin()
        plans.wait(shop, move.plan, *plans.ENDED)
        move.crowd.pause()
        shop.node(TARGET).restart()
        shop.proxy.wait_log("inv-vlc: had lost its identity key, so it came back empty", 10)
        check(set(range(2048)) <= plans.owners(shop)["inv-vlc"], "the slots stay where they are")
        same(shop.node(SOURCE).ask("EXISTS", next(iter(move.values))), 0, "keys at the source")


@test(seconds=120)
def a_marker_that_was_lost_alone_is_written_again_and_undoes_nothing(fresh):
    shop, move = committed(fresh)
    with move:
        commit_quietly(move)
        target = shop.node(TARGET)
        name = next(n for n in plans.keys_of(target, but=" ") if n.startswith(MARKER.encode()))
        target.ask("DEL", name)
        eventually(lambda: target.ask("EXISTS", name), 5, "the marker is written again")
        move.crowd.wait_for(300)
        target.restart()
        target.wait_loaded()
        shorten_grace(move)
        move.ended(errors=True)
        check("has lost slots" not in shop.proxy.log(), "nothing is given back")


@test(seconds=120)
def a_target_restarted_whole_but_without_its_marker_undoes_nothing_and_asks(fresh):
    shop, move = committed(fresh, taps=(TARGET,))
    with move:
        commit_quietly(move)
        target = shop.node(TARGET)
        # Dies before the marker can be written again; its AOF is whole.
        dead = shop.relays[TARGET].at(command("SET", 1, MARKER), target.kill)
        for name in plans.keys_of(target, but=" "):
            if name.startswith(MARKER.encode()):
                target.ask("DEL", name)
        chaos.acted(dead, "the marker's second writing")
        target.start()
        target.wait_loaded()
        plan = plans.wait(shop, move.plan, *plans.ENDED)
        same(plan["state"], "failed")
        has(plan["reason"], "inv-vlc", "does not hold the marker", "inv-bcn still keeps its copies")
        check(set(range(2048)) <= plans.owners(shop)["inv-vlc"], "the slots stay where they are")
        move.crowd.wait_for(300)
        shop.wait_served()
        faults.check_bulk(shop, move.values)
        move.crowd.verdict(errors=True, collected=False)
