"""What the chaos tests share: a shop whose nodes can be cut off, and a move under checking clients."""
from . import faults, plans
from .check import Failure, check, same
from .checking import CheckingCrowd
from .wire import Wire

MOVED = "0-2047"  # From inv-bcn, which has more slots, to inv-vlc.
GROUP = 256  # Slots of a fence: what of them is quiet enough, in order.
SOURCE, TARGET = 0, 1
# A busy machine needs longer pauses than the usual ones; how long they are is measured elsewhere.
QUICK = {
    "rebalance": {"grace": "300ms", "pause": "200ms"},
    "timeouts": {"node_silent": "2s", "connect": "2s"},
}
# Nodes that a busy machine delays are not down.
PATIENT = {**QUICK, "timeouts": {"node_silent": "5s", "connect": "5s"}}


def begin(shop, limit="unlimited", moved=MOVED, more=()):
    plan = plans.propose(shop, "--move", moved + ":inv-vlc", "--limit", limit, *more)
    plans.approve(shop, plan)
    return plan


def finish(shop, plan, seconds=90, state="done"):
    """Waits for its end, as fast as it can go."""
    with Wire(shop.admin, "operator", timeout=60) as wire:
        wire.raw("PLAN", "THROTTLE", plan["id"], "unlimited")  # Refused when it has ended.
    report = plans.wait(shop, plan, *plans.ENDED, seconds=seconds)
    same(report["state"], state, "the plan's state (%s)" % report)
    return report


class Move:
    """Cold keys and checking clients on the slots that move; the plan is begun by begin().

    ended() waits for the plan and judges: the model holds, cold keys are what they were, nothing of
    a slot is on a node that does not own it."""

    def __init__(self, shop, cold=3000, size=100, **crowd):
        self.shop, self.plan = shop, None
        self.values = faults.bulk_fill(shop, cold, size) if cold else {}
        self.crowd = CheckingCrowd(shop, **crowd)

    def __enter__(self):
        self.crowd.wait_for(300)
        return self

    def __exit__(self, kind, why, _):
        self.crowd.stop()
        if kind and issubclass(kind, Failure) and self.crowd.complaints:
            raise Failure("%s\n     and a checking client says: %s" % (why, self.crowd.complaints[0]))

    def begin(self, *args, **more):
        self.plan = begin(self.shop, *args, **more)
        return self.plan

    def show(self):
        return plans.show(self.shop, self.plan["id"])

    def ended(self, state="done", errors=False, seconds=90, collected=True, least=500):
        report = finish(self.shop, self.plan, seconds, state)
        self.crowd.wait_for(200)
        self.crowd.verdict(least, errors, collected)
        faults.check_bulk(self.shop, self.values)
        owned = set(range(2048)) <= plans.owners(self.shop)["inv-vlc"]
        check(owned == (state == "done"), "who owns the slots at the end: %s" % report)
        return report


def acted(done, what, seconds=60):
    check(done.wait(seconds), "%s was not reached within %d s" % (what, seconds))
