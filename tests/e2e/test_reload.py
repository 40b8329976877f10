"""Reload by SIGHUP and slotctl: what changes, what does not, what needs a restart."""
import os
import signal

from harness import processes
from harness.check import check, error, eventually, has, same
from harness.load import Crowd
from harness.resp import bulk
from harness.shop import key_on, keys_on
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.


def reload_by_signal(shop, mark):
    """SIGHUP, then until the log speaks of it."""
    before = len(shop.proxy.log())
    shop.proxy.signal(signal.SIGHUP)
    eventually(
        lambda: mark in shop.proxy.log()[before:].lower(),
        5,
        lambda: "the log speaks of %r after SIGHUP: %r" % (mark, shop.proxy.log()[before:]),
    )


@test
def a_reload_changes_what_can_change_and_drops_no_client(fresh):
    shop = fresh(config={"limits": {"merged_reply": "1MB"}})
    clients = [shop.client("client %d" % n) for n in range(50)]
    for n in range(0, 2000, 500):
        clients[0].ask(
            "MSET", *[part for key in range(n, n + 500) for part in ("k%d" % key, "v" * 1000)]
        )
    keys = ["k%d" % n for n in range(2000)]
    error(clients[0].raw("MGET", *keys), "ERR")
    shop.config["limits"]["merged_reply"] = "64MB"
    shop.config["listen"]["password"] = "sesame"
    shop.write_config()
    reload_by_signal(shop, "reload")
    eventually(
        lambda: clients[0].raw("MGET", *keys).startswith(b"*2000\r\n"), 3, "the new limit holds"
    )
    for client in clients:
        same(client.raw("PING"), PONG)
    new = shop.client("new client")
    same(new.raw("GET", A), b"-NOAUTH Authentication required.\r\n")
    same(new.raw("AUTH", "sesame"), OK)


@test
def a_reload_with_a_mistake_changes_nothing_and_says_why(fresh):
    shop = fresh()
    good = open(shop.config_path).read()
    for old, new, words in (
        ("0-5460", "0-5461", "5461"),
        ("cluster: shop", "cluster: shop\nnosuch: 1", "nosuch"),
        (good, "", ""),
    ):
        with open(shop.config_path, "w") as file:
            file.write(good.replace(old, new))
        got = shop.slotctl("reload")
        check(got.returncode != 0, "slotctl reload ended with 0")
        has(got.stdout + got.stderr, "shop.yaml", words, what="slotctl's message")
        same(shop.client().raw("SET", A, 1), OK)
    os.remove(shop.config_path)
    got = shop.slotctl("reload")
    check(got.returncode != 0, "slotctl reload of a missing file ended with 0")
    has(got.stdout + got.stderr, "shop.yaml")
    same(shop.client().raw("SET", A, 1), OK)


@test
def a_reload_tells_what_needs_a_restart(fresh):
    shop = fresh()
    shop.config["listen"]["forward"] = "127.0.0.1:%d" % processes.free_port()
    shop.config["workers"] = 1
    shop.write_config()
    got = shop.slotctl("reload")
    same(got.returncode, 0, "slotctl reload: " + got.stdout + got.stderr)
    has(got.stdout, "restart", "forward", "workers", what="slotctl reload")
    same(shop.client().raw("SET", A, 1), OK)


@test
def a_node_moves_to_a_new_address_by_reload(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("MSET", A, 1, B, 2, C, 3)
    node = shop.node(2)
    node.ask("SAVE")
    node.kill()
    node.port = None
    node.start()
    shop.config["nodes"][2]["address"] = "127.0.0.1:%d" % node.port
    shop.write_config()
    same(shop.slotctl("reload").returncode, 0, "slotctl reload")
    eventually(lambda: client.raw("GET", C) == bulk(3), 5, "the node is served at its new address")
    same(client.raw("MGET", A, B, C), b"*3\r\n" + bulk(1) + bulk(2) + bulk(3))


@test(long=True, seconds=60)
def a_hundred_reloads_under_load_leak_nothing(fresh):
    shop = fresh()
    with Crowd(shop.forward, keys_on(0, 5, "w") + keys_on(1, 5, "w") + keys_on(2, 5, "w")) as crowd:
        crowd.wait_for(1000)
        same(shop.slotctl("reload").returncode, 0, "slotctl reload")
        before, memory = shop.proxy.descriptors(), shop.proxy.memory()
        for _ in range(100):
            shop.proxy.signal(signal.SIGHUP)
            crowd.wait_for(50)
        same(shop.slotctl("reload").returncode, 0, "slotctl reload")
        crowd.verdict()
    check(
        shop.proxy.descriptors() < before + 10,
        "descriptors grew from %d to %d" % (before, shop.proxy.descriptors()),
    )
    check(
        shop.proxy.memory() - memory < 8_000_000,
        "memory grew by %d" % (shop.proxy.memory() - memory),
    )


@test
def the_log_level_changes_by_reload(fresh):
    shop = fresh(config={"log": {"level": "error"}})
    shop.config["log"]["level"] = "debug"
    shop.write_config()
    same(shop.slotctl("reload").returncode, 0, "slotctl reload")
    shop.client().raw("SET", key_on(0), 1)
    before = len(shop.proxy.log())
    shop.node(2).restart()
    eventually(lambda: len(shop.proxy.log()) > before, 5, "it logs now")
