"""Servers that are not what they should be, and keys that are not where they should be."""
from harness.check import error, eventually, has, lacks, same
from harness.resp import slot_of
from harness.servers import RedisCluster, RedisServer
from harness.shop import as_json, keys_on, node_of
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.


def refused(shop, place, key, *words):
    """The node's slots are refused, with the reason; the others are served."""
    client = shop.client()
    reply = eventually(
        lambda: next(
            (
                r
                for r in [client.raw("GET", key)]
                if r.startswith(b"-") and all(word.encode() in r.lower() for word in words)
            ),
            None,
        ),
        5,
        lambda: "GET %s is refused with %s (last: %r)" % (key, words, client.raw("GET", key)),
    )
    error(reply, "CLUSTERDOWN", shop.name(place), str(slot_of(key)), *words)
    other = next(k for k in (A, B, C) if node_of(k) not in (place,))
    eventually(lambda: not client.raw("GET", other).startswith(b"-"), 5, "%s is served" % other)


@test
def a_replica_is_refused(fresh):
    shop = fresh(start=False)
    master = RedisServer()
    try:
        shop.node(2).ask("REPLICAOF", "127.0.0.1", master.port)
        shop.start(wait_nodes=False)
        refused(shop, 2, C, "role")
        shop.node(2).ask("REPLICAOF", "NO", "ONE")
        eventually(
            lambda: shop.client().raw("SET", C, 1) == OK, 5, "it is served once it is a primary"
        )
    finally:
        master.end()


@test
def a_node_that_becomes_a_replica_is_refused_from_then_on(fresh):
    shop = fresh()
    master = RedisServer()
    try:
        shop.node(2).ask("REPLICAOF", "127.0.0.1", master.port)
        client = shop.client()
        eventually(
            lambda: client.raw("SET", C, 1).startswith((b"-CLUSTERDOWN", b"-READONLY")),
            5,
            "writes fail",
        )
        eventually(lambda: client.raw("SET", C, 1).startswith(b"-CLUSTERDOWN"), 5, "it is refused")
        same(client.raw("SET", A, 1), OK)
    finally:
        master.end()


@test
def a_server_in_cluster_mode_is_refused(fresh):
    nodes = [RedisServer(), RedisServer(), RedisServer("--cluster-enabled", "yes")]
    try:
        shop = fresh(nodes=nodes, start=False)
        shop.start(wait_nodes=False)
        refused(shop, 2, C, "cluster")
    finally:
        for node in nodes:
            node.end()


@test
def one_server_under_two_names_is_refused(fresh):
    shop = fresh(start=False)
    # The same server by another spelling of its address.
    shop.config["nodes"][2]["address"] = "localhost:%d" % shop.node(1).port
    shop.write_config()
    shop.start(wait_nodes=False)
    client = shop.client()
    eventually(lambda: client.raw("SET", A, 1) == OK, 5, "the third node serves")
    # Whichever name is verified second is refused; the other keeps the server.
    key, name = eventually(
        lambda: next(
            (
                (key, name)
                for key, name in ((B, "inv-vlc"), (C, "inv-gir"))
                if b"is the same server as" in client.raw("GET", key)
            ),
            None,
        ),
        5,
        "one of the two names is refused",
    )
    error(client.raw("SET", key, 1), "CLUSTERDOWN", name)
    same(client.raw("SET", C if key == B else B, 1), OK, "the other name serves")
    has(
        shop.slotctl("nodes").stdout + shop.proxy.log(),
        "inv-vlc",
        "inv-gir",
        what="slotctl nodes and the log",
    )


@test
def a_different_server_behind_a_name_is_refused_after_a_restart(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("MSET", A, 1, B, 2, C, 3)
    same(shop.proxy.end(), None, "the end of the first proxy")
    second, third = shop.config["nodes"][1:]
    second["address"], third["address"] = third["address"], second["address"]
    shop.write_config()
    shop.start(wait_nodes=False)
    refused(shop, 1, B, "identity")
    refused(shop, 2, C, "identity")
    has(shop.proxy.log(), "identity", what="the log")


@test
def keys_that_are_already_on_the_wrong_node_are_warned_about(fresh):
    shop = fresh(start=False)
    for key in keys_on(2, 30, "old") + keys_on(0, 20, "old"):
        shop.node(0).ask("SET", key, 1)
    shop.start()
    eventually(
        lambda: "stray" in shop.proxy.log().lower() or "does not own" in shop.proxy.log().lower(),
        5,
        "the log warns of keys on the wrong node",
    )
    has(shop.proxy.log(), "inv-bcn", what="the log")
    strays = as_json(shop.slotctl("strays", "--json"))
    found = {node["node"]: node["strays"] for node in strays["nodes"]}
    same(found, {"inv-bcn": 30, "inv-vlc": 0, "inv-gir": 0}, "the strays")
    same(shop.client().raw("DBSIZE")[:1], b":")


@test
def a_real_cluster_is_no_node_of_ours(fresh):
    cluster = RedisCluster()
    try:
        shop = fresh(nodes=cluster.nodes, start=False)
        shop.start(wait_nodes=False)
        refused_all(shop)
    finally:
        cluster.end()


def refused_all(shop):
    client = shop.client()
    for key in (A, B, C):
        eventually(
            lambda key=key: client.raw("GET", key).startswith(b"-CLUSTERDOWN"),
            5,
            "%s is refused" % key,
        )
        lacks(client.raw("GET", key), "MOVED", what="the refusal")
