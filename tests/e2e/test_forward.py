"""The forward port: three servers that look like one."""
from harness import resp
from harness.check import check, error, eventually, has, same
from harness.resp import array, as_map, bulk
from harness.shop import PRIVATE, keys_on, node_of
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.


# Commands whose keys are split over the nodes


@test(stock=True)
def mget_answers_in_the_order_of_the_request(shop):
    client = shop.client()
    same(client.raw("MSET", A, "1", B, "2", C, "3"), OK)
    same(
        client.raw("MGET", C, "none", A, B, A, C),
        array(bulk(3), NULL, bulk(1), bulk(2), bulk(1), bulk(3)),
    )
    client.ask("RPUSH", "list", "x")
    same(client.raw("MGET", "list", A), array(NULL, bulk(1)))
    same(client.raw("MGET", "{a}1", "{b}1"), array(NULL, NULL))
    client.hello3()
    same(client.raw("MGET", C, "none"), array(bulk(3), b"_\r\n"))


@test(stock=True)
def a_thousand_tags_in_one_mget_keep_their_places(shop):
    client = shop.client()
    keys = ["{tag%d}%d" % (n, n) for n in range(1000)]
    same(client.raw("MSET", *[part for key in keys for part in (key, key + "!")]), OK)
    same(client.raw("MGET", *keys), array(*[bulk(key + "!") for key in keys]))
    mixed = keys[::-1] + keys[::3]
    same(client.raw("MGET", *mixed), array(*[bulk(key + "!") for key in mixed]))


@test(stock=True)
def counts_over_several_nodes_are_added_up(shop):
    client = shop.client()
    client.ask("MSET", A, "1", B, "2", C, "3", "k1", "4")
    same(client.raw("EXISTS", A, B, C, "none", A, A), b":5\r\n")
    same(client.raw("TOUCH", A, B, C, "none"), b":3\r\n")
    same(client.raw("DEL", A, "none", C), b":2\r\n")
    same(client.raw("UNLINK", A, B, "k1", B), b":2\r\n")
    same(client.raw("EXISTS", A, B, C, "k1"), b":0\r\n")


@test(stock=True)
def the_last_of_repeated_keys_in_mset_wins(shop):
    client = shop.client()
    same(client.raw("MSET", A, "1", C, "x", A, "2", C, "y"), OK)
    same(client.raw("MGET", A, C), array(bulk(2), bulk("y")))


@test(stock=True)
def a_split_command_in_a_pipeline_sees_what_was_written_before_it(shop):
    client = shop.client()
    for n in range(200):
        same(
            client.pipeline(
                ("SET", A, n),
                ("MGET", A, B, C),
                ("MSET", A, "m", B, "m", C, "m"),
                ("GET", C),
                ("DEL", A, B, C),
                ("EXISTS", A, B, C),
            ),
            [OK, array(bulk(n), NULL, NULL), OK, bulk("m"), b":3\r\n", b":0\r\n"],
        )


@test
def a_split_write_reaches_each_key_s_owner_only(shop):
    client = shop.client()
    keys = keys_on(0, 5) + keys_on(1, 5) + keys_on(2, 5)
    client.ask("MSET", *[part for key in keys for part in (key, key)])
    for place in (0, 1, 2):
        for key in keys:
            same(
                shop.node(place).ask("EXISTS", key),
                int(node_of(key) == place),
                "%s at node %d" % (key, place),
            )


@test
def a_split_command_names_the_node_and_the_slot_that_failed(fresh):
    shop = fresh()
    client = shop.client()
    shop.node(2).ask(
        "CONFIG", "SET", "min-replicas-to-write", "1"
    )  # Writes fail there, reads do not.
    for args in (("MSET", A, "1", C, "2"), ("DEL", A, C), ("UNLINK", C, A)):
        got = client.raw(*args)
        check(got.startswith(b"-"), "%s should fail, got %r" % (args, got))
        has(got, "NOREPLICAS", shop.name(2), "12182", what="the error of %s" % (args,))
        if args[0] == "MSET":
            same(client.raw("GET", A), bulk("1"), "the half that a working node took")
    shop.node(2).ask("CONFIG", "SET", "min-replicas-to-write", "0")
    same(client.raw("MSET", A, "1", C, "2"), OK)


@test
def a_value_of_the_wrong_type_in_a_split_command_is_no_failure_of_the_others(shop):
    client = shop.client()
    client.ask("RPUSH", C, "x")
    same(client.raw("MSET", A, "1", C, "2"), OK)
    same(client.raw("MGET", A, C), array(bulk(1), bulk(2)))


# What cannot be split


@test
def keys_of_two_slots_are_refused_in_redis_s_words(shop):
    client = shop.client()
    other = next(key for key in keys_on(2, 5) if resp.slot_of(key) != resp.slot_of(C))
    for args in (
        ("MSETNX", A, 1, C, 2),
        ("RENAME", A, C),
        ("RENAMENX", A, C),
        ("COPY", A, C),
        ("SMOVE", A, C, "m"),
        ("SINTER", A, C),
        ("SUNION", A, B, C),
        ("SDIFFSTORE", A, B),
        ("SINTERSTORE", A, A, C),
        ("SINTERCARD", 2, A, C),
        ("ZUNION", 2, A, C),
        ("ZUNIONSTORE", A, 1, C),
        ("ZINTERCARD", 2, A, C),
        ("ZRANGESTORE", A, C, 0, -1),
        ("ZMPOP", 2, A, C, "MIN"),
        ("LMPOP", 2, A, C, "LEFT"),
        ("LMOVE", A, C, "LEFT", "RIGHT"),
        ("RPOPLPUSH", A, C),
        ("BITOP", "AND", A, A, C),
        ("PFCOUNT", A, C),
        ("PFMERGE", A, C),
        ("LCS", A, C),
        ("GEOSEARCHSTORE", A, C, "FROMLONLAT", 1, 1, "BYRADIUS", 1, "km"),
        ("SORT", A, "STORE", C),
        ("GEORADIUS", A, 1, 1, 1, "km", "STORE", C),
        ("XREAD", "STREAMS", A, C, 0, 0),
        ("XREADGROUP", "GROUP", "g", "c", "STREAMS", A, C, ">", ">"),
        ("EVAL", "return 1", 2, A, C),
        ("EVAL_RO", "return 1", 2, A, C),
        ("FCALL", "f", 2, A, C),
        ("RENAME", C, other),
        ("SINTER", C, other),
        ("LCS", other, C),
    ):
        same(client.raw(*args), CROSSSLOT, "the reply to %s" % (args,))
    same(client.raw("PING"), PONG)


@test(stock=True)
def keys_with_one_tag_work_together(shop):
    client = shop.client()
    same(client.raw("MSETNX", "{a}1", 1, "{a}2", 2), b":1\r\n")
    same(client.raw("RENAME", "{a}1", "{a}3"), OK)
    same(
        client.raw(
            "EVAL",
            "return {redis.call('GET',KEYS[1]),redis.call('GET',KEYS[2])}",
            2,
            "{a}3",
            "{a}2",
        ),
        array(bulk(1), bulk(2)),
    )
    client.ask("SADD", "{a}s1", 1, 2)
    client.ask("SADD", "{a}s2", 2, 3)
    same(client.raw("SINTERSTORE", "{a}s3", "{a}s1", "{a}s2"), b":1\r\n")
    same(client.raw("SMEMBERS", "{a}s3"), array(bulk(2)))


@test(stock=True)
def streams_are_routed_by_their_key_and_not_by_the_group(shop):
    client = shop.client()
    same(client.raw("XGROUP", "CREATE", "x", "streams", "$", "MKSTREAM"), OK)
    same(client.raw("XADD", "x", "1-1", "f", "v"), bulk("1-1"))
    entry = array(array(bulk("1-1"), array(bulk("f"), bulk("v"))))
    same(
        client.raw("XREADGROUP", "GROUP", "streams", "c", "COUNT", 1, "STREAMS", "x", ">"),
        array(array(bulk("x"), entry)),
    )
    same(client.raw("XREAD", "COUNT", 1, "STREAMS", "x", 0), array(array(bulk("x"), entry)))
    same(as_map(client.ask("XINFO", "STREAM", "x"))["length"], 1)
    same(as_map(client.ask("XINFO", "GROUPS", "x")[0])["name"], b"streams")
    same(client.raw("XACK", "x", "streams", "1-1"), b":1\r\n")


@test(stock=True)
def subcommands_with_a_key_go_to_its_owner(shop):
    client = shop.client()
    for key in (A, B, C):
        client.ask("SET", key, "x" * 100)
        same(client.raw("OBJECT", "ENCODING", key), bulk("raw"))
        check(client.ask("MEMORY", "USAGE", key) > 100, "MEMORY USAGE %s" % key)
        same(client.raw("OBJECT", "REFCOUNT", key), b":1\r\n")
    check(isinstance(client.ask("OBJECT", "HELP"), list), "OBJECT HELP needs no key")


# Commands over all nodes


@test(stock=True)
def dbsize_counts_the_keys_of_all_nodes(shop):
    client = shop.client()
    same(client.raw("DBSIZE"), b":0\r\n")
    client.ask("MSET", *[part for n in range(100) for part in ("key%d" % n, n)])
    same(client.raw("DBSIZE"), b":100\r\n")


@test(stock=True)
def keys_shows_the_keys_of_all_nodes_once(shop):
    client = shop.client()
    names = ["key%d" % n for n in range(100)]
    client.ask("MSET", *[part for name in names for part in (name, 1)])
    same(sorted(client.ask("KEYS", "*")), sorted(name.encode() for name in names))
    same(sorted(client.ask("KEYS", "key1?")), sorted(b"key1%d" % n for n in range(10)))
    same(client.raw("KEYS", "none*"), b"*0\r\n")
    same(client.raw("KEYS", "key7"), array(bulk("key7")))


def scan(clients, *options):
    """One whole loop, each call at the next client; ([keys], [cursors])."""
    cursor, keys, cursors = b"0", [], []
    for turn in range(100000):
        reply = clients[turn % len(clients)].ask("SCAN", cursor, *options)
        check(
            isinstance(reply, list) and len(reply) == 2,
            "SCAN answers a cursor and a list, got %r" % (reply,),
        )
        cursor = reply[0]
        check(
            cursor.isdigit() and int(cursor) < 1 << 63,
            "the cursor %r is a number below 2^63" % cursor,
        )
        keys += reply[1]
        cursors.append(cursor)
        if cursor == b"0":
            return keys, cursors
    check(False, "the loop did not end")


@test(stock=True)
def scan_shows_every_key_of_all_nodes(shop):
    client = shop.client()
    names = [b"key%d" % n for n in range(1000)]
    client.ask("MSET", *[part for name in names for part in (name, 1)])
    for options in ((), ("COUNT", 10), ("COUNT", 100000), ("MATCH", "key*"), ("TYPE", "string")):
        keys, _ = scan([client], *options)
        same(set(keys), set(names), "the keys with %s" % (options,))
    same(
        sorted(scan([client], "MATCH", "key99*")[0]),
        sorted(n for n in names if n.startswith(b"key99")),
    )
    same(scan([client], "TYPE", "list")[0], [])
    same(scan([client], "MATCH", "none*", "COUNT", 1000)[0], [])


@test(stock=True)
def scan_of_an_empty_store_ends(shop):
    keys, cursors = scan([shop.client()], "COUNT", 100000)
    same(keys, [])
    check(len(cursors) <= 3, "as many calls as nodes at most, not %d" % len(cursors))


@test(stock=True)
def a_scan_goes_on_over_any_connection(shop):
    names = [b"key%d" % n for n in range(300)]
    clients = [shop.client("client %d" % n) for n in range(4)]
    clients[3].hello3()
    clients[0].ask("MSET", *[part for name in names for part in (name, 1)])
    same(set(scan(clients, "COUNT", 7)[0]), set(names))


@test(stock=True)
def a_scan_in_a_pipeline_and_a_silly_cursor_are_answered(shop):
    client = shop.client()
    client.ask("SET", "a", 1)
    got = client.pipeline(
        ("SCAN", 0),
        ("SCAN", "x"),
        ("SCAN", "99999999999999999999999"),
        ("PING",),
        ("SCAN", 0, "COUNT", 0),
    )
    check(got[0].startswith(b"*2\r\n"), "SCAN 0")
    same(got[1], b"-ERR invalid cursor\r\n")
    same(got[2], b"-ERR invalid cursor\r\n")
    same(got[3], PONG)
    same(got[4], b"-ERR syntax error\r\n")


@test
def a_cursor_outlives_the_proxy(fresh):
    shop = fresh()
    names = [b"key%d" % n for n in range(500)]
    client = shop.client()
    client.ask("MSET", *[part for name in names for part in (name, 1)])
    cursor, seen = b"0", []
    for _ in range(5):
        cursor, page = client.ask("SCAN", cursor, "COUNT", 10)
        seen += page
    check(cursor != b"0", "the scan is still under way")
    same(shop.proxy.end(), None, "the end of the first proxy")
    shop.start()
    client = shop.client()
    while cursor != b"0":
        cursor, page = client.ask("SCAN", cursor, "COUNT", 10)
        seen += page
    same(sorted(set(seen)), sorted(names))


@test
def a_node_cursor_that_does_not_fit_is_an_error_that_names_the_node(fresh):
    shop = fresh(relays=(0,))
    cursor = [b"%d" % (2**63 - 1)]
    shop.relays[0].rules.append(
        (
            lambda args: args[0].upper() == b"SCAN",
            lambda args, ask: array(bulk(cursor[0]), array(bulk(A))),
        )
    )
    for huge in (2**40, 2**63 - 1, 2**64 - 1):
        cursor[0] = b"%d" % huge
        client = shop.client()
        reply, cursors = client.raw("SCAN", 0), 0
        while not reply.startswith(b"-") and cursors < 10:
            position = resp.value(reply)[0]
            check(position != b"0", "a node that was not finished cannot end the loop")
            reply, cursors = client.raw("SCAN", position), cursors + 1
        error(reply, "ERR", shop.name(0), what="the reply with a node cursor of %d" % huge)
        same(client.raw("PING"), PONG)


@test(stock=True)
def randomkey_is_a_key_of_any_node_or_null(shop):
    client = shop.client()
    same(client.raw("RANDOMKEY"), NULL)
    for key in (A, B, C):
        client.ask("SET", key, 1)
        same(client.raw("RANDOMKEY"), bulk(key), "the only key")
        client.ask("DEL", key)
    names = {b"bar", b"c", b"foo"}
    client.ask("MSET", A, 1, B, 1, C, 1)
    eventually(
        lambda: names.discard(client.ask("RANDOMKEY")) or not names, 10, "every key comes up"
    )
    client.ask("DEL", A, B, C)
    same(client.hello3().raw("RANDOMKEY"), b"_\r\n")


@test(stock=True)
def flushall_and_flushdb_empty_all_nodes(shop):
    client = shop.client()
    for args in (("FLUSHALL",), ("FLUSHDB",), ("FLUSHALL", "ASYNC"), ("FLUSHDB", "SYNC")):
        client.ask("MSET", A, 1, B, 1, C, 1)
        same(
            client.pipeline(args, ("DBSIZE",), ("MGET", A, B, C)),
            [OK, b":0\r\n", array(NULL, NULL, NULL)],
        )


@test
def flushall_does_not_cost_the_nodes_their_identity(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("SET", A, 1)
    same(client.raw("FLUSHALL"), OK)
    same(client.raw("SET", A, 2), OK)
    same(shop.proxy.end(), None, "the end of the first proxy")
    shop.start()
    same(shop.client().raw("GET", A), bulk(2))


@test
def a_merged_reply_has_a_limit_and_keys_then_proposes_scan(fresh):
    shop = fresh(config={"limits": {"merged_reply": "1MB"}})
    client = shop.client()
    for start in range(0, 3000, 500):
        client.ask(
            "MSET",
            *[
                part
                for n in range(start, start + 500)
                for part in ("k%d" % n + "x" * 400, "v" * 1000)
            ]
        )
    error(client.raw("KEYS", "*"), "ERR", "SCAN", what="KEYS of more than the limit")
    got = client.raw("MGET", *["k%d" % n + "x" * 400 for n in range(3000)])
    error(got, "ERR", what="MGET of more than the limit")
    same(client.raw("PING"), PONG)
    same(client.raw("DBSIZE"), b":3000\r\n")


# The proxy's own keys


@test
def the_proxy_s_own_keys_are_hidden_and_refused(shop):
    client = shop.client()
    own = [key for place in (0, 1, 2) for key in shop.node(place).ask("KEYS", PRIVATE + "*")]
    check(len(own) >= 3, "each node got an identity key: %r" % own)
    same(client.ask("DBSIZE"), 0)
    same(client.ask("KEYS", "*"), [])
    same(client.ask("KEYS", "__slot*"), [])
    same(client.raw("RANDOMKEY"), NULL)
    same(scan([client])[0], [])
    same(scan([client], "MATCH", PRIVATE + "*")[0], [])
    client.ask("SET", A, 1)
    same(client.ask("DBSIZE"), 1)
    for _ in range(20):
        same(client.raw("RANDOMKEY"), bulk(A))
    for key in [own[0].decode(), PRIVATE + "x", PRIVATE]:
        for args in (
            ("GET", key),
            ("SET", key, "x"),
            ("DEL", key),
            ("MGET", A, key),
            ("MSET", A, "evil", key, "x"),
            ("UNLINK", A, key),
            ("EVAL", "return redis.call('DEL',KEYS[1])", 1, key),
            ("RENAME", key, key),
            ("EXISTS", key),
            ("TYPE", key),
            ("DUMP", key),
            ("EXPIRE", key, 1),
            ("OBJECT", "ENCODING", key),
        ):
            check(client.raw(*args).startswith(b"-"), "%s should be refused" % (args,))
            has(client.raw(*args), PRIVATE, what="the refusal of %s" % (args,))
    same(client.raw("GET", A), bulk(1), "a key named beside a refused one")
    still = [key for place in (0, 1, 2) for key in shop.node(place).ask("KEYS", PRIVATE + "*")]
    same(sorted(still), sorted(own), "the identity keys")
    client.ask("FLUSHALL")
    same(client.ask("DBSIZE"), 0)


@test
def keys_of_foreign_slots_are_never_shown(fresh):
    shop = fresh()
    shop.node(0).ask("SET", C, "stray")
    client = shop.client()
    same(client.raw("GET", C), NULL)
    same(scan([client])[0], [], "SCAN")
    same(client.ask("KEYS", "*"), [], "KEYS")
