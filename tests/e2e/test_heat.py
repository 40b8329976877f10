"""What slots do and hold: heat, hot keys, plans by keys and operations, and plans that slow down."""
import threading

from harness import plans, resp
from harness.check import check, eventually, has, same
from harness.resp import slot_of
from harness.shop import as_json, key_on, keys_on
from harness.tests import test
from harness.wire import Wire

QUICK = {"rebalance": {"grace": "300ms"}}


class Hammer:
    """Somebody who repeats the same requests over one connection until the end of the block."""

    def __init__(self, wire, *requests):
        self.wire, self.requests = wire, requests
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self.ended.is_set():
            for request in self.requests:
                self.wire.raw(*request)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(10)


def heat(shop):
    return as_json(shop.slotctl("slots", "--heat", "--json"))


@test(seconds=60)
def heat_shows_the_slot_that_is_hammered_and_the_one_with_large_values(fresh):
    shop = fresh()
    hot, large = key_on(0, "hot"), key_on(1, "large")
    with shop.client() as wire:
        wire.raw("SET", large, "x" * 20000)
    with Hammer(shop.client(), *[("INCR", hot)] * 9, ("GET", large)):
        eventually(lambda: heat(shop)["by_operations"], 20, "some slot is hot")
        eventually(
            lambda: heat(shop)["by_operations"][0]["slot"] == slot_of(hot),
            20,
            lambda: "the hammered slot %d is the hottest: %s" % (slot_of(hot), heat(shop)),
        )
        found = heat(shop)
    same(found["by_operations"][0]["node"], "inv-bcn")
    check("by_keys" in found and not found["by_keys"], "keys are not counted yet: %s" % found)
    same(found["by_bytes"][0]["slot"], slot_of(large), "the slot with most bytes: %s" % found)
    nodes = {node["node"]: node for node in found["nodes"]}
    check(nodes["inv-bcn"]["operations"] > nodes["inv-vlc"]["operations"] > 0, str(nodes))
    check(nodes["inv-gir"]["operations"] < nodes["inv-vlc"]["operations"], str(nodes))
    text = shop.slotctl("slots", "--heat", "--top", "1").stdout
    has(text, "hottest slots by operations", str(slot_of(hot)), "inv-bcn", "not counted yet")


@test(seconds=60)
def several_keys_in_one_request_count_for_each_slot(fresh):
    shop = fresh()
    keys = [key_on(node, "m") for node in range(3)]
    with Hammer(shop.client(), ("MGET", *keys)):
        slots = {slot_of(key) for key in keys}
        # The harness asks each node for a key before a test, so others have had a request too.
        eventually(
            lambda: {slot["slot"] for slot in heat(shop)["by_operations"][:3]} == slots,
            20,
            lambda: "these slots are the hottest: %s: %s" % (slots, heat(shop)),
        )


@test(seconds=60)
def hot_keys_are_named_while_somebody_asks(fresh):
    shop = fresh()
    hot = key_on(2, "hot")
    others = [("GET", key) for key in keys_on(0, 50)]
    requests = [request for other in others for request in (other, ("INCR", hot))]
    with Hammer(shop.client(), *requests):
        found = as_json(shop.slotctl("hot-keys", "--seconds", "1", "--top", "3", "--json"))
        same(len(found["keys"]), 3)
        top = found["keys"][0]
        same((top["key"], top["slot"], top["node"]), (hot, slot_of(hot), "inv-gir"))
        share = top["count"] / found["total"]
        check(0.4 < share < 0.6, "half of all uses are of the hot key: %s" % found)
        with Wire(shop.admin, "first to ask", timeout=15) as first:
            first.send(resp.request("HOTKEYS", 2))
            has(plans.refusal(shop, "HOTKEYS", 1), "already")
            first.read()
        has(shop.slotctl("hot-keys", "--seconds", "1").stdout, hot, "inv-gir", "uses of keys in 1 s")


@test(seconds=60)
def to_relieve_the_busiest_node_its_hottest_slot_moves(fresh):
    shop = fresh(config=QUICK)
    # All on one node, none with more than a node's share.
    hot = key_on(0, "hot")
    warm = [("INCR", key) for key in keys_on(0, 7, "warm")]
    with Hammer(shop.client(), *[("INCR", hot)] * 3, *warm):
        busy = {slot_of(hot)} | {slot_of(key) for _, key in warm}
        eventually(
            lambda: {slot["slot"] for slot in heat(shop)["by_operations"][:8]} == busy,
            20,
            lambda: "these slots are known to be busy: %s: %s" % (busy, heat(shop)),
        )
        same(heat(shop)["by_operations"][0]["slot"], slot_of(hot))
        plan = plans.propose(shop, "--relieve", "ops", "--slots", "1")
    same([move["slots"] for move in plan["moves"]], [str(slot_of(hot))], "what moves: %s" % plan)
    same(plan["moves"][0]["from"], "inv-bcn")
    check(plan["spread_after"] < plan["spread_before"], str(plan))
    same(plan["forecast_basis"], "counted")
    same(plan["keys"], 1)


@test(seconds=60)
def slots_that_hold_many_keys_are_evened_out_by_their_keys(fresh):
    shop = fresh(config=QUICK)
    with shop.client() as wire:
        for tag in ("a", "b", "c", "d", "e", "f"):
            skewed = key_on(0, tag)
            for n in range(0, 500, 100):
                names = ["{%s}%d" % (skewed, i) for i in range(n, n + 100)]
                wire.raw("MSET", *[part for name in names for part in (name, "x" * 50)])
    plan = plans.propose(shop, "--balance", "keys")
    same(plan["forecast_basis"], "counted")
    check(plan["spread_before"] > 2.9, "all keys are on one node: %s" % plan)
    check(plan["spread_after"] < 1.1, "and evenly spread afterwards: %s" % plan)
    same(plan["keys"], 2000, "the keys that move")
    check(plan["slots_moved"] < 10, "few slots hold them: %d move" % plan["slots_moved"])
    again = plans.propose(shop, "--balance", "keys")
    same(again["moves"], plan["moves"], "the same input gives the same plan")
    plans.approve(shop, plan)
    plans.wait(shop, plan, "done")
    sizes = [node.client().ask("DBSIZE") for node in shop.nodes]
    check(all(900 < size < 1100 for size in sizes), "keys of the nodes: %s" % sizes)
    largest = heat(shop)["by_keys"]
    same([slot["keys"] for slot in largest[:6]], [500] * 6)
    has(shop.slotctl("slots", "--heat").stdout, "largest slots by keys, counted")


@test(seconds=60)
def a_spread_that_stays_is_proposed_once_and_never_approved(fresh):
    shop = fresh(
        config={
            "rebalance": {"propose_at": 1.2, "propose_after": "1s", "propose_by": "slots"},
        },
        edit=lambda config: [
            node.update(slots=slots)
            for node, slots in zip(config["nodes"], ("0-9999", "10000-12999", "13000-16383"))
        ],
    )
    eventually(
        lambda: plans.ask(shop, "PLAN", "LIST")["plans"], 15, "a plan is proposed by the system"
    )
    found = plans.ask(shop, "PLAN", "LIST")["plans"]
    same([(plan["state"], plan["proposed_by"]) for plan in found], [("proposed", "system")])
    has(found[0]["reason"], "spread")
    plans.ask(shop, "PLAN", "REJECT", 1)
    # It would come again within these, if it came again: the watch goes by the second.
    eventually(lambda: shop.proxy.alive() and seconds_up(shop) >= 7, 20, "some seconds pass")
    same(len(plans.ask(shop, "PLAN", "LIST")["plans"]), 1, "plans after the rejection")


def seconds_up(shop):
    return plans.ask(shop, "STATUS")["uptime_seconds"]


@test(seconds=90)
def a_plan_slows_down_while_a_node_answers_late_and_recovers(fresh):
    shop = fresh(
        config={"rebalance": {"grace": "300ms", "latency": "25ms"}},
        node_args=("--enable-debug-command", "yes"),
    )
    with shop.client() as wire:
        keys = keys_on(0, 20000)
        for n in range(0, len(keys), 500):
            wire.raw("MSET", *[part for key in keys[n : n + 500] for part in (key, "x" * 200)])
    plan = plans.propose(shop, "--drain", "inv-bcn", "--limit", "400KB/s")

    def progress():
        return plans.show(shop, plan["id"]).get("progress", {})

    with Hammer(shop.client(), ("GET", keys[0])):
        with Hammer(shop.node(0).client(), ("DEBUG", "SLEEP", "0.04")):
            plans.approve(shop, plan)
            eventually(lambda: "slowed_to" in progress(), 30, lambda: "slowed: %s" % progress())
            found = progress()
            check(found["slowed_to"] < 400000, str(found))
            has(found["speed_reason"], "slowed: p99 of inv-bcn", "target 25 ms")
        slowest = progress()["slowed_to"]
        eventually(
            lambda: progress().get("slowed_to", 400000) > slowest,
            20,
            lambda: "faster than %d again: %s" % (slowest, progress()),
        )
    same(plans.show(shop, plan["id"])["bytes_per_second"], 400000, "the approved limit")
    plans.ask(shop, "PLAN", "ABORT", plan["id"])
    plans.wait(shop, plan, "aborted")
