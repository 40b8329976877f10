"""What a plan checks before anybody may approve it, and what it says to do."""
from harness import plans
from harness.check import check, has, same
from harness.shop import key_on
from harness.tests import test

GOAL = ("--move", "0-2047:inv-vlc")  # From inv-bcn.


def checks(shop, plan, part):
    """The checks whose text has this part: (result, what, advice)."""
    shown = plans.show(shop, plan["id"])["checks"]
    return [(c["result"], c["what"], c["advice"]) for c in shown if part in c["what"]]


def proposed(shop, *words):
    """A new proposal, so that the nodes are asked anew."""
    return plans.propose(shop, *GOAL, *words)


def only(shop, part):
    """The one check with this part, of a plan proposed now."""
    found = checks(shop, proposed(shop), part)
    same(len(found), 1, "checks that say %r: %s" % (part, found))
    return found[0]


def refused(shop, plan):
    return plans.refusal(shop, "PLAN", "APPROVE", plan["id"], "--digest", plan["digest"])


def with_user(fresh):
    """A shop whose inv-vlc has a user of the proxy's own, who may do everything for now."""

    def edit(config):
        config["nodes"][1].update(username="proxy", password="secret")

    shop = fresh(start=False, edit=edit, config={"rebalance": {"grace": "300ms"}})
    user = ("ACL", "SETUSER", "proxy")
    shop.node(1).ask(*user, "on", ">secret", "~*", "&*", "+@all")
    shop.start()
    return shop, lambda *rules: shop.node(1).ask(*user, *rules)


@test
def rights_that_are_missing_are_named_with_the_line_that_gives_them(fresh):
    shop, set_user = with_user(fresh)
    same(only(shop, "rights on inv-vlc")[0], "pass")
    set_user("-restore", "-client|kill")
    plan = proposed(shop)
    result, what, advice = checks(shop, plan, "inv-vlc denies")[0]
    same((result, what), ("fail", "inv-vlc denies its user proxy: client|kill, restore"))
    has(refused(shop, plan), "can't be approved now", "restore", "ACL SETUSER proxy")
    line = advice[advice.index("ACL SETUSER") :]
    shop.node(1).ask(*line.split())
    plans.approve(shop, plan)
    same(plans.wait(shop, plan, *plans.ENDED)["state"], "done")


@test
def keys_that_may_not_be_touched_are_told_from_commands(fresh):
    shop, set_user = with_user(fresh)
    set_user("resetkeys", "~__slotproxy:*")
    same(
        only(shop, "inv-vlc denies"),
        ("fail", "inv-vlc denies its user proxy: keys of the data", "on that server: ACL SETUSER proxy ~*"),
    )
    set_user("~*", "-bgsave")
    has(only(shop, "inv-vlc denies")[2], "ACL SETUSER proxy +bgsave")


@test
def rights_are_tried_where_the_proxy_may_not_ask_for_them(fresh):
    shop, set_user = with_user(fresh)
    before = shop.node(1).ask("DBSIZE")
    set_user("-acl", "-restore")
    same(only(shop, "inv-vlc denies")[1], "inv-vlc denies its user proxy: restore")
    set_user("+restore", "resetkeys", "~__slotproxy:*")
    same(only(shop, "inv-vlc denies")[1], "inv-vlc denies its user proxy: keys of the data")
    set_user("~*")
    same(only(shop, "rights on inv-vlc")[0], "pass")
    set_user("-multi")
    same(only(shop, "inv-vlc denies")[1], "inv-vlc denies its user proxy: multi")
    set_user("+multi")
    same(only(shop, "rights on inv-vlc")[0], "pass")
    same(shop.node(1).ask("DBSIZE"), before, "keys of inv-vlc, before and after")


@test
def what_is_done_in_one_step_needs_rights_of_its_own(fresh):
    shop, set_user = with_user(fresh)
    stray = key_on(1)
    shop.node(0).ask("SET", stray, "a stray")
    for acl in ("+acl", "-acl"):
        set_user(acl, "-watch", "-eval")
        same(only(shop, "rights on inv-vlc")[0], "pass", "of a plan that moves slots")
        plan = plans.propose(shop, "--collect-strays")
        same(
            checks(shop, plan, "inv-vlc denies")[0][1],
            "inv-vlc denies its user proxy: watch, eval",
        )
        has(refused(shop, plan), "+watch +eval")
        set_user("+watch", "+eval")
    plans.approve(shop, plans.propose(shop, "--collect-strays"))
    same(plans.wait(shop, plan["id"] + 1, *plans.ENDED)["state"], "done")
    with shop.client() as wire:
        same(wire.ask("GET", stray), b"a stray")


@test
def memory_eviction_and_limits_of_the_target_are_judged(fresh):
    shop = fresh()
    target = shop.node(1)
    plans.fill(shop, 700)
    same(only(shop, "memory of inv-vlc")[0], "pass")
    target.ask("CONFIG", "SET", "maxmemory", "100")
    result, what, advice = only(shop, "memory of inv-vlc")
    same(result, "fail", what)
    has(advice, "raise its maxmemory", "--slots")
    has(refused(shop, proposed(shop)), "memory of inv-vlc")
    target.ask("CONFIG", "SET", "maxmemory", "1gb")
    for policy, words in (("allkeys-lru", "any key"), ("volatile-ttl", "keys that expire")):
        target.ask("CONFIG", "SET", "maxmemory-policy", policy)
        result, what, _ = only(shop, "inv-vlc evicts")
        same(result, "warn", what)
        has(what, words, policy)
    source = shop.node(0)
    source.ask("CONFIG", "SET", "client-output-buffer-limit", "normal 100000 0 0")
    result, what, advice = only(shop, "inv-bcn cuts off clients")
    same(result, "fail", what)
    has(advice, "CONFIG SET client-output-buffer-limit")
    source.ask("CONFIG", "SET", "client-output-buffer-limit", "normal 0 0 0")
    target.ask("CONFIG", "SET", "maxmemory-clients", "50mb")
    same(only(shop, "inv-vlc evicts clients")[0], "pass")


@test
def functions_and_other_databases_are_looked_at(fresh):
    shop = fresh()
    code = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"
    shop.node(0).ask("FUNCTION", "LOAD", code)
    result, what, advice = only(shop, "functions of inv-bcn")
    same((result, what), ("warn", "inv-vlc lacks functions of inv-bcn, or has others: lib"))
    has(advice, "FUNCTION LOAD")
    with shop.client() as wire:
        wire.ask("FUNCTION", "LOAD", "REPLACE", code)
    same(only(shop, "functions of inv-bcn")[0], "pass")
    with shop.node(0).client() as wire:
        wire.raw("SELECT", 3)
        wire.raw("SET", "x", 1)
    same(only(shop, "inv-bcn has keys in db3")[0], "pass")
    same(only(shop, "inv-vlc has the databases of inv-bcn")[0], "pass")


@test
def a_target_needs_the_databases_that_the_source_uses(fresh):
    shop = fresh(node_args=("--databases", "4"))
    with shop.node(0).client() as wire:
        wire.raw("SELECT", 3)
        wire.raw("SET", "x", 1)
    same(only(shop, "inv-vlc has the databases of inv-bcn")[0], "pass")
    shop.node(1).args = ("--databases", "2")
    shop.node(1).restart()
    shop.wait_served()
    result, what, advice = only(shop, "inv-vlc has 2 databases")
    same((result, what), ("fail", "inv-bcn has keys in db3, and inv-vlc has 2 databases"))
    has(advice, "`databases 4`", "redis.conf of inv-vlc")


@test
def a_node_that_does_not_answer_or_is_not_the_right_one_blocks(fresh):
    shop = fresh()
    plan = proposed(shop)
    shop.node(1).stop()
    failed = plans.eventually(
        lambda: [c for c in checks(shop, proposed(shop), "inv-vlc") if c[0] == "fail"],
        10,
        "a check fails while inv-vlc is silent",
    )
    check(failed, "a check fails")
    has(refused(shop, plan), "can't be approved now", "inv-vlc")
    shop.node(1).go_on()
    added = plans.add_node(shop, "inv-tar")
    added.ask("SET", "__slotproxy:identity", "shop/inv-gir/0000000000000001")
    plans.ask(shop, "RELOAD")
    joining = plans.propose(shop, "--add", "inv-tar")
    shown = [c for c in joining["checks"] if c["what"].startswith("inv-tar is the server of")]
    same([c["result"] for c in shown], ["fail"], "checks: %s" % joining["checks"])
