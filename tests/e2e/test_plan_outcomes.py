"""How plans end and what scripts see of it: exit codes, JSON, what is exported afterwards."""
import json
import os
import socket
import threading

from harness import plans
from harness.check import check, eventually, has, same
from harness.shop import HOST, as_json
from harness.tests import test

QUICK = {"rebalance": {"grace": "100ms"}}


def plan(shop, *words):
    return as_json(shop.slotctl("plan", *words, "--json"))


def approve(shop, proposed):
    return plan(shop, "approve", str(proposed["id"]), "--digest", proposed["digest"])


def waited(shop, number, code):
    """What plan wait prints when it ends with this exit code."""
    got = shop.slotctl("plan", "wait", str(number), "--timeout", "30", timeout=40)
    same(got.returncode, code, "the exit status of plan wait: " + got.stdout + got.stderr)
    return got.stdout


@test(seconds=60)
def a_plan_that_fails_ends_the_waiting_with_3_and_moves_nothing(fresh):
    shop = fresh(config=QUICK)
    plans.add_node(shop, "inv-tar")
    with socket.socket() as taken:
        taken.bind((HOST, shop.endpoint_ports[3]))
        taken.listen()
        plans.ask(shop, "RELOAD")
        approve(shop, plan(shop, "show", "1"))
        has(waited(shop, 1, 3), "plan 1 is failed", str(shop.endpoint_ports[3]), "slotctl plan retry 1")
    failed = plan(shop, "show", "1")
    same((failed["state"], failed["reason"] != ""), ("failed", True))
    same(len(plans.owners(shop)["inv-bcn"]), 5461, "slots of inv-bcn")
    again = plan(shop, "retry", "1")
    same((again["state"], again["slots_moved"]), ("proposed", 4096))
    approve(shop, again)
    has(waited(shop, 2, 0), "plan 2 is done")
    same(len(plans.owners(shop)["inv-tar"]), 4096)


@test(seconds=60)
def a_stale_plan_ends_the_waiting_with_5_and_is_made_anew(fresh):
    shop = fresh(config=QUICK)
    first = plan(shop, "propose", "--move", "0-99:inv-vlc")
    moved = plan(shop, "propose", "--move", "200-299:inv-gir")
    approve(shop, moved)
    waited(shop, 2, 0)
    has(waited(shop, 1, 5), "stale", "epoch 1")
    refused = shop.slotctl("plan", "approve", "1", "--digest", first["digest"])
    same(refused.returncode, 1)
    has(refused.stderr, "plan 1 is stale", "slotctl plan retry 1")
    # A node that is elsewhere now makes a plan stale as well, at its approval.
    elsewhere = plan(shop, "retry", "1")
    shop.config["nodes"][1]["address"] = "localhost:%d" % shop.node(1).port
    shop.write_config()
    plans.ask(shop, "RELOAD")
    refused = shop.slotctl("plan", "approve", "3", "--digest", elsewhere["digest"])
    same(refused.returncode, 1, refused.stdout)
    has(refused.stderr, "stale", "inv-vlc", "slotctl plan retry 3")
    same(plan(shop, "show", "3")["state"], "stale")


@test(seconds=60)
def a_pause_by_the_system_ends_the_waiting_with_6(fresh):
    shop = fresh(config=QUICK)
    plans.fill(shop, 700)
    slow = plan(shop, "propose", "--move", "0-4000:inv-vlc", "--limit", "10KB/s")
    approve(shop, slow)
    plans.wait(shop, 1, "running")
    shop.node(1).stop()
    has(waited(shop, 1, 6), "paused by the system", "inv-vlc")
    watched = shop.slotctl("plan", "list", "--json")
    same(as_json(watched)["plans"][0]["paused_by"], "system")
    shop.node(1).go_on()
    plan(shop, "throttle", "1", "unlimited")
    eventually(lambda: plan(shop, "show", "1")["state"] != "paused", 20, "the plan goes on")
    waited(shop, 1, 0)


@test(seconds=60)
def how_much_moves_and_how_fast_is_limited(fresh):
    shop = fresh(config=QUICK)
    plans.fill(shop, 700)
    some = plan(shop, "propose", "--drain", "inv-gir", "--slots", "500", "--by", "ana")
    same((some["slots_moved"], some["bytes_per_second"]), (500, 20_000_000), "slots, default limit")
    same(sum(int(m["slots"].split("-")[-1]) - int(m["slots"].split("-")[0]) + 1 for m in some["moves"]), 500)
    free = plan(shop, "propose", "--weight", "inv-bcn=2", "--limit", "unlimited")
    same(free["bytes_per_second"], 0, "no limit")
    check("seconds_at_limit" not in free, "without a limit no time is told: %s" % free)
    same(free["spread_after"] < free["spread_before"], True, "spreads: %s" % free)
    same(free["slots_moved"], free["least_possible"])
    none = shop.slotctl("plan", "propose", "--move", "0-99:inv-vlc", "--limit", "10MB")
    same(none.returncode, 1)
    has(none.stderr, "10MB", "MB/s")
    slow = plan(shop, "propose", "--move", "0-4000:inv-vlc", "--limit", "10KB/s")
    same(slow["bytes_per_second"], 10_000)
    check(slow["seconds_at_limit"] > 0, "the time at the limit: %s" % slow)
    approve(shop, slow)
    plans.wait(shop, 3, "running")
    same(plan(shop, "throttle", "3", "500KB/s")["bytes_per_second"], 500_000)
    waited(shop, 3, 0)
    report = plan(shop, "show", "3")
    same(report["progress"]["slots_committed"], 4001)
    check(report["keys"] > 0 and report["bytes"] > 0, "the forecast: %s" % report)
    check(report["progress"]["keys_copied"] > 0, "what happened: %s" % report)
    throttled = plan(shop, "history", "3")["entries"]
    has(json.dumps(throttled), "throttled to 500KB/s", '"started"', '"done"')


@test(seconds=60)
def an_aborted_plan_can_be_taken_back_and_the_map_be_exported(fresh):
    shop = fresh(config=QUICK)
    before = plans.fill(shop, 1400)
    approve(shop, plan(shop, "propose", "--move", "0-5000:inv-vlc", "--limit", "300KB/s"))
    plans.wait_committed(shop, {"id": 1}, 1)
    plan(shop, "abort", "1")
    has(waited(shop, 1, 4), "aborted", "slotctl plan revert 1")
    moved = plan(shop, "list")["plans"][0]["slots_committed"]
    check(0 < moved <= 5001, "%d slots were committed" % moved)
    status = plans.ask(shop, "STATUS")
    check(any("slots" in line for line in status["drift"]), "drift is shown: %s" % status["drift"])
    # What is exported is what is: with it there is no drift.
    exported = shop.slotctl("config", "export")
    same(exported.returncode, 0, exported.stderr)
    path = os.path.join(shop.folder, "exported.yaml")
    with open(path, "w") as file:
        file.write(exported.stdout)
    same(shop.slotctl("config", "check", path, admin=False).returncode, 0)
    with open(shop.config_path, "w") as file:
        file.write(exported.stdout)
    plans.ask(shop, "RELOAD")
    same(plans.ask(shop, "STATUS")["drift"], [], "drift from what was exported")
    back = plan(shop, "revert", "1")
    same((back["state"], back["slots_moved"]), ("proposed", moved))
    same({(m["from"], m["to"]) for m in back["moves"]}, {("inv-vlc", "inv-bcn")})
    diff = {node["node"]: node for node in plan(shop, "diff", "2")["nodes"]}
    same(diff["inv-bcn"]["slots_after"], 5461)
    same(diff["inv-vlc"]["slots_before"] - diff["inv-vlc"]["slots_after"], moved)
    plan(shop, "throttle", "2", "unlimited")
    approve(shop, back)
    waited(shop, 2, 0)
    same(plans.owners(shop)["inv-bcn"], set(range(5461)), "slots of inv-bcn, as before")
    same(plans.contents(shop, 1400), before, "keys after both plans")


@test(seconds=60)
def of_two_plans_that_are_approved_at_once_one_runs_and_the_other_has_to_wait(fresh):
    shop = fresh(config=QUICK)
    plans.fill(shop, 700)
    proposed = [
        plan(shop, "propose", "--move", "0-4000:inv-vlc", "--limit", "20KB/s"),
        plan(shop, "propose", "--move", "12000-13000:inv-vlc", "--limit", "20KB/s"),
    ]
    got = [None, None]

    def work(place):
        digest = proposed[place]["digest"]
        got[place] = shop.slotctl("plan", "approve", str(place + 1), "--digest", digest)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(sorted(each.returncode for each in got), [0, 1], "exit codes: %s" % got)
    first = 1 if got[0].returncode == 0 else 2
    has(
        got[2 - first].stderr,
        "plan %d is" % first, "one plan runs at a time", "slotctl plan wait %d" % first,
    )
    plan(shop, "throttle", str(first), "unlimited")
    waited(shop, first, 0)
    # What was proposed for the map of before is made anew.
    waited(shop, 3 - first, 5)
    approve(shop, plan(shop, "retry", str(3 - first)))
    waited(shop, 3, 0)
