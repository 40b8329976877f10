"""Plans: proposed, read, approved, carried out; and clients that notice nothing."""
import os
import signal

from harness import plans
from harness.check import check, has, same
from harness.load import Crowd
from harness.resp import slot_of
from harness.tests import test

MOVED = "0-2047"  # Slots of inv-bcn that most tests move to inv-vlc.
# Nodes without AOF, RDB and replica keep nothing anyway.
QUICK = {"rebalance": {"grace": "300ms"}}


def crowd_on(shop, count=40):
    """Clients whose keys lie in the slots that move, and beside them."""
    keys, n = [], 0
    while len(keys) < count:
        if slot_of("crowd:%d" % n) < 4096:
            keys.append("crowd:%d" % n)
        n += 1
    return Crowd(shop.forward, keys)


def key_in(slots):
    return next(k for k in ("k%d" % n for n in range(9999)) if slot_of(k) in slots)


def moved_names(names, first=0, last=2047):
    return {name for name in names if first <= slot_of(name) <= last}


@test(seconds=60)
def an_approved_plan_moves_slots_and_no_client_notices(fresh):
    shop = fresh(config=QUICK)
    before = plans.fill(shop, 700)
    with crowd_on(shop) as crowd:
        crowd.wait_for(500)
        goal = ("--move", MOVED + ":inv-vlc")
        plan = plans.propose(shop, *goal, "--by", "ana", "--limit", "unlimited")
        same(plan["state"], "proposed")
        same(plan["moves"][0]["slots"], MOVED)
        same([check_["result"] for check_ in plan["checks"] if check_["result"] == "fail"], [])
        same(len(plans.owners(shop)["inv-bcn"]), 5461, "slots of inv-bcn before the approval")
        plans.approve(shop, plan, "--by", "eva", "--reason", "capacity")
        plan = plans.wait(shop, plan, *plans.ENDED, seconds=40)
        same(plan["state"], "done", "the plan's state: %s" % plan)
        crowd.wait_for(500)
    crowd.verdict(least=1000)
    same(crowd.errors, {}, "the errors that clients saw")
    same(plans.contents(shop, 700), before, "keys after the move")
    owners = plans.owners(shop)
    check(set(range(2048)) <= owners["inv-vlc"], "inv-vlc owns the slots")
    same(moved_names(plans.keys_of(shop.node(0))), set(), "what inv-bcn still holds of them")
    same(plan["progress"]["slots_committed"], 2048)
    check(plan["progress"]["pauses"] >= 1, "the pauses are counted: %s" % plan["progress"])
    history = plans.ask(shop, "PLAN", "HISTORY", plan["id"])["entries"]
    same([entry["what"] for entry in history], ["proposed", "approved", "started", "done"])
    same([entry["who"] for entry in history], ["ana", "eva", "system", "system"])
    same(history[1]["why"], "capacity")
    has(history[1]["peer"], "uid %d" % os.getuid())
    with open(os.path.join(shop.folder, "state", "plans", "0001.yaml")) as file:
        has(file.read(), "state: done", "approved_by: eva", what="the plan's file")


@test
def an_approval_names_the_digest_of_what_it_approves(fresh):
    shop = fresh(config=QUICK)
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc")
    has(
        plans.refusal(shop, "PLAN", "APPROVE", plan["id"], "--digest", "0000-0000"),
        "another digest",
    )
    same(plans.show(shop, plan["id"])["state"], "proposed")
    other = plans.propose(shop, "--move", "100-110:inv-gir")
    plans.approve(shop, other)
    plans.wait(shop, other, "done")
    stale = plans.show(shop, plan["id"])
    same(stale["state"], "stale")
    has(stale["reason"], "epoch 1", "plan 2")
    has(
        plans.refusal(shop, "PLAN", "APPROVE", plan["id"], "--digest", plan["digest"]),
        "stale",
        "retry 1",
    )
    again = plans.ask(shop, "PLAN", "RETRY", plan["id"])
    same(again["state"], "proposed")
    same(again["slots_moved"], 2048 - 11, "slots that are still to be moved")


@test
def a_failed_check_blocks_the_approval(fresh):
    shop = fresh(config=QUICK, node_args=("--databases", "4"))
    shop.node(1).args = ("--databases", "2")
    shop.node(1).restart()
    shop.wait_served()
    with shop.node(0).client() as wire:
        wire.raw("SELECT", 3)
        wire.raw("SET", "x", 1)
        plan = plans.propose(shop, "--move", MOVED + ":inv-vlc")
        failed = [each for each in plan["checks"] if each["result"] == "fail"]
        same(
            [each["what"] for each in failed],
            ["inv-bcn has keys in db3, and inv-vlc has 2 databases"],
        )
        has(
            plans.refusal(shop, "PLAN", "APPROVE", plan["id"], "--digest", plan["digest"]),
            "can't be approved now",
            "db3",
        )
        wire.raw("DEL", "x")
    plans.approve(shop, plan)
    plans.wait(shop, plan, "done")


@test(seconds=60)
def a_node_that_joins_the_file_is_proposed_and_gets_its_share(fresh):
    shop = fresh(config=QUICK)
    with shop.client() as wire:
        wire.raw(
            "FUNCTION",
            "LOAD",
            "#!lua name=lib\nredis.register_function('double', "
            "function(k, a) return redis.call('GET', k[1]) * 2 end)",
        )
        script = wire.ask("SCRIPT", "LOAD", "return redis.call('GET', KEYS[1])")
    before = plans.fill(shop, 350)
    added = plans.add_node(shop, "inv-tar")
    notes = plans.ask(shop, "RELOAD")["notes"]
    has("\n".join(notes), "plan 1 is proposed", what="the reload's notes")
    plan = plans.show(shop, 1)
    same(plan["proposed_by"], "system")
    same(plan["slots_moved"], 4096)
    same(plan["least_possible"], 4096)
    same(plan["forecast_basis"], "counted")
    same(plans.ask(shop, "STATUS")["plans"][0]["state"], "proposed")
    with crowd_on(shop) as crowd:
        crowd.wait_for(200)
        plans.approve(shop, plan)
        plan = plans.wait(shop, plan, *plans.ENDED, seconds=45)
        crowd.wait_for(200)
    same(plan["state"], "done", "the plan's state: %s" % plan)
    crowd.verdict(least=400)
    same(crowd.errors, {}, "the errors that clients saw")
    same(plans.contents(shop, 350), before, "keys after the move")
    same(len(plans.owners(shop)["inv-tar"]), 4096)
    name = key_in(plans.owners(shop)["inv-tar"])
    with shop.client() as wire:
        same(wire.raw("SET", name, 21), b"+OK\r\n")
        same(wire.raw("FCALL", "double", 1, name), b":42\r\n")
        same(wire.ask("EVALSHA", script, 1, name), b"21")
    same(added.ask("EXISTS", name), 1)
    with shop.at(3) as wire:
        same(wire.raw("GET", name), b"$2\r\n21\r\n")
    with shop.at(0) as wire:
        has(wire.raw("GET", name).decode(), "-MOVED", ":%d" % shop.endpoint_ports[3])


@test(seconds=60)
def an_abort_leaves_committed_slots_where_they_are_and_nothing_else_behind(fresh):
    shop = fresh(config=QUICK)
    before = plans.fill(shop, 2100)
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "30KB/s")
    plans.approve(shop, plan)
    plans.ask(shop, "PLAN", "PAUSE", plan["id"], "--reason", "lunch")
    same(plans.show(shop, plan["id"])["paused_by"], "operator")
    plans.ask(shop, "PLAN", "RESUME", plan["id"])
    plans.ask(shop, "PLAN", "ABORT", plan["id"], "--by", "ana", "--reason", "too slow")
    plan = plans.wait(shop, plan, *plans.ENDED, seconds=45)
    same(plan["state"], "aborted", "the plan's state: %s" % plan)
    has(plan["reason"], "ana aborted it: too slow")
    same(plans.contents(shop, 2100), before, "keys after the abort")
    owners = plans.owners(shop)
    for place, name in enumerate(("inv-bcn", "inv-vlc", "inv-gir")):
        strays = {k for k in plans.keys_of(shop.node(place)) if slot_of(k) not in owners[name]}
        same(strays, set(), "what %s holds of others' slots" % name)
    again = plans.ask(shop, "PLAN", "RETRY", plan["id"])
    plans.ask(shop, "PLAN", "THROTTLE", again["id"], "unlimited")
    plans.approve(shop, again)
    same(plans.wait(shop, again, *plans.ENDED)["state"], "done")
    same(plans.contents(shop, 2100), before, "keys after the second plan")


@test(seconds=90)
def a_plan_goes_on_after_the_proxy_was_killed(fresh):
    shop = fresh(config=QUICK)
    before = plans.fill(shop, 2100)
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "300KB/s")
    plans.approve(shop, plan)
    plans.wait_committed(shop, plan, 1)
    shop.proxy.kill()
    shop.start()
    plans.ask(shop, "PLAN", "THROTTLE", plan["id"], "unlimited")
    plan = plans.wait(shop, plan, *plans.ENDED, seconds=45)
    same(plan["state"], "done", "the plan's state: %s" % plan)
    same(plans.contents(shop, 2100), before, "keys after the restart")
    same(moved_names(plans.keys_of(shop.node(0))), set(), "what inv-bcn still holds")


@test(seconds=60)
def a_plan_goes_on_after_the_proxy_was_stopped(fresh):
    shop = fresh(config=QUICK)
    before = plans.fill(shop, 2100)
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "50KB/s")
    plans.approve(shop, plan)
    plans.wait(shop, plan, "running")
    shop.proxy.signal(signal.SIGTERM)
    same(shop.proxy.wait_exit(), 0, "the proxy's exit status")
    shop.start()
    plans.ask(shop, "PLAN", "THROTTLE", plan["id"], "unlimited")
    same(plans.wait(shop, plan, *plans.ENDED, seconds=45)["state"], "done")
    same(plans.contents(shop, 2100), before, "keys after the restart")


@test(seconds=60)
def a_plan_waits_for_a_node_that_is_down_and_says_so(fresh):
    shop = fresh(config=QUICK)
    before = plans.fill(shop, 700)
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "20KB/s")
    plans.approve(shop, plan)
    plans.wait(shop, plan, "running")
    shop.node(1).stop()
    paused = plans.wait(shop, plan, "paused")
    same(paused["paused_by"], "system")
    has(paused["reason"], "inv-vlc")
    shop.node(1).go_on()
    plans.ask(shop, "PLAN", "THROTTLE", plan["id"], "unlimited")
    same(plans.wait(shop, plan, *plans.ENDED, seconds=40)["state"], "done")
    same(plans.contents(shop, 700), before, "keys after the move")


@test(seconds=60)
def a_node_that_left_the_file_is_drained_leaves_the_map_and_may_come_back(fresh):
    shop = fresh(config=QUICK)
    before = plans.fill(shop, 350)
    for entry in shop.config["nodes"]:
        del entry["slots"]
    left = shop.config["nodes"].pop()
    shop.write_config()
    notes = plans.ask(shop, "RELOAD")["notes"]
    has("\n".join(notes), "plan 1 is proposed", what="the reload's notes")
    plans.approve(shop, plans.show(shop, 1))
    same(plans.wait(shop, 1, *plans.ENDED, seconds=45)["state"], "done")
    same(sorted(plans.owners(shop)), ["inv-bcn", "inv-vlc"])
    same(plans.contents(shop, 350), before, "keys after the drain")
    same(plans.keys_of(shop.node(2)), set(), "what the drained node holds")
    same(plans.ask(shop, "STATUS")["drift"], [])
    shop.config["nodes"].append(left)
    shop.write_config()
    plans.ask(shop, "RELOAD")
    plans.approve(shop, plans.show(shop, 2))
    same(plans.wait(shop, 2, *plans.ENDED, seconds=45)["state"], "done")
    same(plans.contents(shop, 350), before, "keys after the node came back")
    name = key_in(plans.owners(shop)["inv-gir"])
    same(shop.at(2).raw("SET", name, 1), b"+OK\r\n")
    same(shop.node(2).ask("GET", name), b"1")
