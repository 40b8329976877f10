"""What slots do: heat."""
import threading

from harness.check import check, eventually, has, same
from harness.resp import slot_of
from harness.shop import as_json, key_on
from harness.tests import test


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
    same(found["by_bytes"][0]["slot"], slot_of(large), "the slot with most bytes: %s" % found)
    nodes = {node["node"]: node for node in found["nodes"]}
    check(nodes["inv-bcn"]["operations"] > nodes["inv-vlc"]["operations"] > 0, str(nodes))
    check(nodes["inv-gir"]["operations"] < nodes["inv-vlc"]["operations"], str(nodes))
    text = shop.slotctl("slots", "--heat", "--top", "1").stdout
    has(text, "hottest slots by operations", str(slot_of(hot)), "inv-bcn")


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
