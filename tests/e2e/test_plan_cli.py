"""slotctl plan: what an operator types, reads and scripts. What plans do to keys is in test_plans."""
import json
import subprocess

from harness.check import check, eventually, has, lacks, same
from harness.proxy import find_slotctl
from harness.shop import as_json, keys_on
from harness.tests import test


def plan(shop, *words):
    """What slotctl plan answers, parsed."""
    return as_json(shop.slotctl("plan", *words, "--json"))


def refused(shop, *words, code=1):
    got = shop.slotctl("plan", *words)
    same(got.returncode, code, "slotctl's exit status: " + got.stdout + got.stderr)
    same(got.stdout, "", "what a refusal prints as a result")
    return got.stderr


def start(shop, *words):
    """A slotctl that runs beside the test."""
    return subprocess.Popen(
        [find_slotctl(shop.binary), "plan", *words, "--admin", shop.admin],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(running, seconds=30):
    out, err = running.communicate(timeout=seconds)
    return running.returncode, out, err


def fill(shop, count=3000):
    keys = keys_on(0, count)
    client = shop.client()
    for at in range(0, count, 500):
        client.ask("MSET", *[part for key in keys[at : at + 500] for part in (key, "x" * 100)])


@test(seconds=60)
def a_plan_is_proposed_read_approved_watched_and_awaited(fresh):
    shop = fresh()
    fill(shop)
    proposed = plan(
        shop, "propose", "--move", "0-999:inv-vlc", "--by", "ana", "--limit", "500KB/s"
    )
    same((proposed["id"], proposed["state"], proposed["base_epoch"]), (1, "proposed", 1))
    same(proposed["moves"][0]["slots"], "0-999")
    same((proposed["moves"][0]["from"], proposed["moves"][0]["to"]), ("inv-bcn", "inv-vlc"))
    same((proposed["slots_moved"], proposed["least_possible"]), (1000, 1000))
    approval = "slotctl plan approve 1 --digest " + proposed["digest"]
    has(shop.slotctl("plan", "show", "1").stdout, "0-999", "inv-bcn → inv-vlc", "checks", approval)
    has(shop.slotctl("plan", "list").stdout, "proposed", "ana", proposed["digest"])
    has(shop.slotctl("plan", "diff", "1").stdout, "5,461 → 4,461", "0-999")
    same(shop.slotctl("plan", "wait", "1", "--timeout", "0.2").returncode, 7, "wait, not approved")
    waiting, watching = start(shop, "wait", "1"), start(shop, "watch", "1", "--json")
    got = shop.slotctl(
        "plan", "approve", "1", "--digest", proposed["digest"], "--by", "eva", "--reason", "capacity"
    )
    same(got.returncode, 0, got.stderr)
    code, out, err = ended(waiting)
    same(code, 0, "the exit status of plan wait: " + out + err)
    has(out, "plan 1 is", "done", "slotctl plan revert 1")
    code, out, err = ended(watching)
    same(code, 0, "the exit status of plan watch: " + out + err)
    states = [json.loads(line)["state"] for line in out.splitlines()]
    same((states[0], states[-1]), ("proposed", "done"))
    check("running" in states, "a watched plan is seen running: %s" % states)
    has(
        shop.slotctl("plan", "history", "1").stdout,
        "ana", "proposed", "eva", "approved", "capacity", "done",
    )
    shown = plan(shop, "show", "1")
    same(shown["progress"]["slots_committed"], 1000)
    has(shop.slotctl("plan", "show", "1").stdout, "FORECAST", "WHAT HAPPENED")


@test(seconds=60)
def the_way_back_is_a_plan_of_its_own(fresh):
    shop = fresh()
    first = plan(shop, "propose", "--move", "0-99:inv-vlc")
    shop.slotctl("plan", "approve", "1", "--digest", first["digest"])
    same(shop.slotctl("plan", "wait", "1", "--timeout", "20").returncode, 0)
    back = plan(shop, "revert", "1")
    same((back["id"], back["state"]), (2, "proposed"))
    move = back["moves"][0]
    same((move["slots"], move["from"], move["to"]), ("0-99", "inv-vlc", "inv-bcn"))


@test(seconds=60)
def a_running_plan_is_steered(fresh):
    shop = fresh()
    fill(shop)
    proposed = plan(shop, "propose", "--move", "0-2999:inv-vlc", "--limit", "20KB/s")
    same(plan(shop, "approve", "1", "--digest", proposed["digest"])["digest"], proposed["digest"])
    eventually(lambda: plan(shop, "show", "1")["state"] == "running", 10, "the plan runs")
    paused = shop.slotctl("plan", "pause", "1", "--by", "ana", "--reason", "lunch")
    has(paused.stdout, "paused by the operator", "slotctl plan resume 1")
    same(shop.slotctl("plan", "wait", "1", "--timeout", "0.3").returncode, 7, "an operator's pause")
    same(shop.slotctl("plan", "resume", "1").returncode, 0)
    same(plan(shop, "throttle", "1", "30KB/s")["bytes_per_second"], 30000)
    same(shop.slotctl("plan", "abort", "1").returncode, 0)
    got = shop.slotctl("plan", "wait", "1", "--timeout", "20")
    same(got.returncode, 4, "the exit status of waiting for an aborted plan: " + got.stdout)
    has(got.stdout, "aborted", "slotctl plan retry 1")


@test
def refusals_say_what_to_do(fresh):
    shop = fresh()
    has(shop.slotctl("plan", "list").stdout, "no plans", "slotctl plan propose")
    has(refused(shop, "show", "7").lower(), "no plan 7", "plan list")
    has(refused(shop, "wait", "7"), "7")
    has(refused(shop, "propose", "--add", "inv-tar"), "inv-tar")
    has(refused(shop, "propose", "--balance"), "as wanted already")
    has(refused(shop, "propose", "--drain", "inv-xyz"), "inv-xyz")
    has(refused(shop, "propose", "--move", "0-99:inv-vlc", "--limit", "fast"), "fast")
    has(refused(shop, "approve", "1", code=2), "--digest")
    has(refused(shop, "propose", "--balance", "colour", code=2), "slots, keys, bytes or ops")
    proposed = plan(shop, "propose", "--move", "0-99:inv-vlc")
    has(refused(shop, "approve", "1", "--digest", "0000-0000"), "slotctl plan show 1")
    has(refused(shop, "pause", "1"), "1")
    rejected = shop.slotctl("plan", "reject", "1", "--reason", "not now")
    has(rejected.stdout, "rejected", "not now")
    same(shop.slotctl("plan", "wait", "1").returncode, 5, "the exit status of a rejected plan")
    has(refused(shop, "approve", "1", "--digest", proposed["digest"]), "rejected")


@test
def config_export_writes_what_is(shop):
    got = shop.slotctl("config", "export")
    same(got.returncode, 0, got.stderr)
    has(got.stdout, "cluster: shop", "inv-bcn", "slots: 0-5460")
    lacks(got.stdout, "(set)")
    same(as_json(shop.slotctl("config", "export", "--json"))["yaml"], got.stdout)
