"""Collecting strays: keys on nodes that do not own them go to their owners, and nothing else happens
to any key."""
import threading
import time

from harness import plans
from harness.check import check, has, same
from harness.shop import keys_on
from harness.tests import test

QUICK = {"rebalance": {"grace": "300ms"}}


def put_strays(shop, count, node=0, owner=1, prefix="stray:"):
    """Keys of every second kind that `owner` owns, on `node`: their names."""
    names = keys_on(owner, count, prefix)
    with shop.node(node).client() as wire:
        for n, name in enumerate(names):
            if n % 3 == 0:
                wire.raw("SET", name, "stray %d" % n)
            elif n % 3 == 1:
                wire.raw("RPUSH", name, n, n + 1)
            else:
                wire.raw("SET", name, "short-lived %d" % n)
                wire.raw("PEXPIREAT", name, 4102444800000 + n)
    return names


def collect(shop, *words, seconds=40):
    plan = plans.propose(shop, "--collect-strays", *words)
    plans.approve(shop, plan)
    return plans.wait(shop, plan, *plans.ENDED, seconds=seconds)


@test(seconds=60)
def strays_go_to_their_owners_and_conflicts_are_left_alone(fresh):
    shop = fresh(config=QUICK)
    names = put_strays(shop, 60)
    dumps = {name: shop.node(0).ask("DUMP", name) for name in names}
    with shop.client() as wire:
        wire.raw("SET", names[0], "the owner's")
        same(wire.raw("GET", names[1]), b"$-1\r\n", "a stray, as clients see it")
    shop.node(1).ask("RESTORE", names[3], 0, dumps[names[3]])
    plan = plans.propose(shop, "--collect-strays", "--by", "ana")
    same(plan["purpose"], "collect strays")
    same([(s["from"], s["to"]) for s in plan["strays"]], [("inv-bcn", "inv-vlc")])
    strays = plan["strays"][0]
    same((strays["keys"], strays["conflicts"]), (58, 2))
    same(set(strays["conflict_names"]), {names[0], names[3]})
    same(sum(slot["keys"] for slot in strays["slots"]), 58, "keys by slot")
    has(shop.slotctl("plan", "show", "1").stdout, "inv-bcn → inv-vlc", "58", names[0], "nobody waits")
    same(plan["moves"], [], "slots that move")
    same(shop.node(0).ask("EXISTS", names[1]), 1, "nothing moves before the approval")
    plans.approve(shop, plan, "--by", "eva")
    done = plans.wait(shop, plan, *plans.ENDED, seconds=40)
    same(done["state"], "done", "the plan: %s" % done)
    has(done["reason"], "58 keys given to inv-vlc", "58 removed from inv-bcn", "2 left alone")
    left = {names[0].encode(), names[3].encode()}
    same(plans.keys_of(shop.node(0)), left, "what is left on inv-bcn")
    same(done["progress"]["keys_copied"], 58)
    with shop.client() as wire:
        same(wire.raw("GET", names[0]), b"$11\r\nthe owner's\r\n")
        for n, name in enumerate(names[1:], 1):
            kind = b"+list\r\n" if n % 3 == 1 else b"+string\r\n"
            same(wire.raw("TYPE", name), kind)
            expiry = 4102444800000 + n if n % 3 == 2 else -1
            same(wire.ask("PEXPIRETIME", name), expiry, "the expiry of %s" % name)
    same(shop.node(1).ask("KEYS", "__slotproxy:[sp]*"), [], "notes and pieces that are left")
    has(plans.refusal(shop, "PLAN", "REVERT", 1), "no way back")
    has(plans.refusal(shop, "PLAN", "RETRY", 1), "--collect-strays")
    has(plans.refusal(shop, "PLAN", "PROPOSE", "--collect-strays"), "none of the 2 strays")
    history = plans.ask(shop, "PLAN", "HISTORY", 1)["entries"]
    same([entry["who"] for entry in history], ["ana", "eva", "system", "system"])
    same([entry["what"] for entry in history], ["proposed", "approved", "started", "done"])


@test
def without_strays_there_is_nothing_to_propose(fresh):
    shop = fresh(config=QUICK)
    has(plans.refusal(shop, "PLAN", "PROPOSE", "--collect-strays"), "there are no strays")
    has(
        plans.refusal(shop, "PLAN", "PROPOSE", "--collect-strays", "--to-config"),
        "propose it alone",
    )


@test(seconds=60)
def a_key_that_its_owner_had_at_the_proposal_never_comes_back_from_a_stray(fresh):
    shop = fresh(config=QUICK)
    names = put_strays(shop, 30)
    with shop.client() as wire:
        wire.raw("SET", names[0], "the owner's")
        plan = plans.propose(shop, "--collect-strays")
        wire.raw("DEL", names[0])
        wire.raw("SET", names[1], "newer")
        plans.approve(shop, plan)
        done = plans.wait(shop, plan, *plans.ENDED, seconds=40)
        same(done["state"], "done", "the plan: %s" % done)
        has(done["reason"], "28 keys given", "2 left alone")
        same(wire.ask("EXISTS", names[0]), 0, "a key that a client deleted")
        same(wire.ask("GET", names[1]), b"newer")
        same(wire.ask("EXISTS", *names[2:]), 28)


@test(seconds=90)
def strays_of_several_nodes_and_of_any_size_arrive_whole(fresh):
    shop = fresh(config=QUICK)
    small = put_strays(shop, 20, node=2, owner=1, prefix="from-gir:")
    big = keys_on(1, 6, prefix="big:")
    with shop.node(0).client() as wire:
        wire.raw("SET", big[0], "x" * 3_000_000)
        wire.raw("PEXPIREAT", big[0], 4102444800000)
        for start in range(0, 40_000, 2000):
            some = range(start, start + 2000)
            wire.raw("RPUSH", big[1], *("element %d" % n for n in some))
            wire.raw("SADD", big[2], *("member %d" % n for n in some))
            wire.raw("HSET", big[3], *(part for n in some for part in ("field %d" % n, n)))
            wire.raw("ZADD", big[4], *(part for n in some for part in (n, "member %d" % n)))
        for n in range(500):
            wire.raw("XADD", big[5], "%d-1" % (n + 1), "field", "y" * 4000)
        wire.raw("XGROUP", "CREATE", big[5], "group", "0")
        wire.raw("XREADGROUP", "GROUP", "group", "c", "COUNT", 5, "STREAMS", big[5], ">")
        before = {name: plans.value_of(wire, name) for name in big}
    done = collect(shop, "--limit", "20MB/s", seconds=60)
    same(done["state"], "done", "the plan: %s" % done)
    has(done["reason"], "6 keys given to inv-vlc, 6 removed from inv-bcn", "20 keys given to inv-vlc")
    with shop.client() as wire:
        for name in big:
            check(ordered(plans.value_of(wire, name)) == ordered(before[name]), "%s is whole" % name)
        same(wire.ask("PEXPIRETIME", big[0]), 4102444800000)
        same(wire.ask("EXISTS", *small), 20)
    for place in (0, 2):
        same(plans.keys_of(shop.node(place)), set(), "what is left on node %d" % place)
    same(shop.node(1).ask("KEYS", "__slotproxy:[sp]*"), [], "notes and pieces that are left")


def ordered(value):
    """Hashes and sets come in any order."""
    return sorted(value.split(b"\r\n")) if isinstance(value, bytes) else value


class Writers:
    """Clients that set and delete the names of strays at their owner while these are collected, each
    its own names: what each did last."""

    def __init__(self, shop, names, count=3):
        self.last = {}
        self.wrong = []
        self.over = threading.Event()
        self.threads = [
            threading.Thread(target=self.work, args=(shop, names[n::count])) for n in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def work(self, shop, names):
        with shop.client("writer") as wire:
            n = 0
            while not self.over.is_set():
                name = names[n % len(names)]
                n += 1
                if wire.raw("SET", name, "client %d" % n) != b"+OK\r\n":
                    self.wrong.append(name)
                got = wire.ask("GET", name)
                if got != b"client %d" % n:
                    self.wrong.append((name, got))
                self.last[name] = got
                if n % 2:
                    wire.raw("DEL", name)
                    got = wire.ask("GET", name)
                    if got is not None:
                        self.wrong.append((name, got))
                    self.last[name] = None

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


@test(seconds=240)
def what_clients_write_and_delete_meanwhile_is_neither_undone_nor_revived(fresh):
    shop = fresh(config=QUICK)
    names = put_strays(shop, 1500)
    plan = plans.propose(shop, "--collect-strays", "--limit", "500KB/s")
    plans.approve(shop, plan)
    plans.wait(shop, plan, "running")
    # From here on the feed is open, or a name is written before: either way it is not a stray's.
    plans.eventually(
        lambda: plans.show(shop, plan["id"])["progress"]["keys_copied"] > 0, 20, "strays are given"
    )
    writers = Writers(shop, names[1::2])
    ended = plans.wait(shop, plan, *plans.ENDED, seconds=180)
    writers.end()
    same(ended["state"], "done", "the plan: %s" % ended)
    same(writers.wrong, [], "what writers read back")
    check(len(writers.last) > 100, "writers wrote: %d names" % len(writers.last))
    with shop.client() as wire:
        for name, last in writers.last.items():
            same(wire.ask("GET", name), last, "what a client left of %s" % name)
        for name in names[0::2]:
            same(wire.ask("EXISTS", name), 1, "the stray %s at its owner" % name)
    left = {name.decode() for name in plans.keys_of(shop.node(0))}
    check(left <= set(writers.last), "only what clients wrote meanwhile is left alone: %s" % left)


@test(seconds=90)
def a_collection_is_paused_and_aborted(fresh):
    shop = fresh(config=QUICK)
    names = put_strays(shop, 3000)
    plan = plans.propose(shop, "--collect-strays", "--limit", "100KB/s")
    plans.approve(shop, plan)
    progress = lambda: plans.show(shop, plan["id"])["progress"]  # noqa: E731
    plans.eventually(lambda: progress()["keys_copied"] > 0, 20, "strays are given")
    plans.ask(shop, "PLAN", "PAUSE", plan["id"])
    time.sleep(0.5)
    before = progress()["keys_copied"]
    time.sleep(1)
    same(progress()["keys_copied"], before, "keys given while it is paused")
    plans.ask(shop, "PLAN", "RESUME", plan["id"])
    plans.ask(shop, "PLAN", "ABORT", plan["id"], "--by", "ana")
    ended = plans.wait(shop, plan, *plans.ENDED)
    same(ended["state"], "aborted", "the plan: %s" % ended)
    both = plans.keys_of(shop.node(0)) & plans.keys_of(shop.node(1))
    same(both, set(), "keys on both nodes after the abort")
    all_of = plans.keys_of(shop.node(0)) | plans.keys_of(shop.node(1))
    same(len(all_of & {name.encode() for name in names}), 3000, "keys on either")


@test(seconds=90)
def a_key_deleted_while_the_proxy_was_down_does_not_come_back(fresh):
    shop = fresh(config={"rebalance": {"grace": "30s"}})
    names = put_strays(shop, 300)
    plan = plans.propose(shop, "--collect-strays")
    plans.approve(shop, plan)
    plans.eventually(
        lambda: plans.show(shop, plan["id"])["progress"]["keys_copied"] >= 300, 20, "all are given"
    )
    shop.proxy.kill()
    shop.node(1).ask("DEL", *names[:50])
    shop.config["rebalance"]["grace"] = "300ms"
    shop.write_config()
    shop.start()
    ended = plans.wait(shop, plan, *plans.ENDED, seconds=40)
    same(ended["state"], "failed", "the plan: %s" % ended)
    has(ended["reason"], "started again", "--collect-strays")
    same(plans.keys_of(shop.node(0)), set(), "what was given and noted is removed")
    with shop.client() as wire:
        same(sum(wire.ask("EXISTS", name) for name in names[:50]), 0, "deleted keys that came back")
        same(sum(wire.ask("EXISTS", name) for name in names[50:]), 250, "the others")


@test(seconds=60)
def a_flush_ends_a_collection_and_nothing_comes_back(fresh):
    shop = fresh(config={"rebalance": {"grace": "30s"}})
    put_strays(shop, 3000)
    plan = plans.propose(shop, "--collect-strays", "--limit", "100KB/s")
    plans.approve(shop, plan)
    plans.eventually(
        lambda: plans.show(shop, plan["id"])["progress"]["keys_copied"] > 0, 20, "strays are given"
    )
    with shop.client() as wire:
        same(wire.raw("FLUSHALL"), b"+OK\r\n")
        ended = plans.wait(shop, plan, *plans.ENDED)
        same(ended["state"], "failed", "the plan: %s" % ended)
        has(ended["reason"], "was flushed meanwhile")
        same(wire.ask("DBSIZE"), 0, "keys after the flush")
