"""What a plan tells of single keys before anybody approves it."""
from harness import plans
from harness.check import check, has, same
from harness.shop import keys_on
from harness.tests import test


@test
def the_largest_keys_and_streams_with_groups_are_named(fresh):
    shop = fresh()
    plans.fill(shop, 140)
    moved, stays = keys_on(0, 2, "big:"), keys_on(2, 1, "big:")
    with shop.client() as wire:
        wire.raw("SET", moved[0], "x" * 6_000_000)
        wire.raw("SET", moved[1], "x" * 100_000)
        wire.raw("SET", stays[0], "x" * 7_000_000)
    plan = plans.propose(shop, "--move", "0-5460:inv-vlc")
    sample = plan["sample"]
    check(sample["whole"], "all keys were looked at: %s" % sample)
    check(0 < sample["keys"] < 143, "the keys of the slots that move: %d" % sample["keys"])
    same([key["key"] for key in sample["largest"]][:2], moved, "the largest keys, largest first")
    first = sample["largest"][0]
    same((first["node"], first["type"]), ("inv-bcn", "string"))
    check(first["bytes"] >= 6_000_000, "its memory: %s" % first)
    check(first["pause_ms"] > 50, "its pause: %s" % first)
    check(sample["streams_with_groups"] > 0, "streams with groups: %s" % sample)
    same({key["groups"] for key in sample["streams"]}, {1}, "groups of each stream")
    has(
        shop.slotctl("plan", "show", "1").stdout,
        'largest keys (of all)', moved[0], "longer than a pause may be",
        "streams with consumer groups: %d" % sample["streams_with_groups"],
    )
    same(plans.show(shop, 1)["sample"], sample, "the same when it is shown again")
