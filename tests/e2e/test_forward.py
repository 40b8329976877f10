"""The forward port: three servers that look like one."""
import hashlib
import time

from harness import resp
from harness.check import check, error, eventually, has, lacks, one_of, same
from harness.resp import array, as_map, bulk
from harness.shop import PRIVATE, key_on, keys_on, node_of
from harness.tests import test
from harness.wire import timed

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.


# Commands whose keys are split over the nodes

@test(stock=True)
def mget_answers_in_the_order_of_the_request(shop):
    client = shop.client()
    same(client.raw("MSET", A, "1", B, "2", C, "3"), OK)
    same(client.raw("MGET", C, "none", A, B, A, C), array(bulk(3), NULL, bulk(1), bulk(2), bulk(1), bulk(3)))
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
        same(client.pipeline(("SET", A, n), ("MGET", A, B, C), ("MSET", A, "m", B, "m", C, "m"), ("GET", C),
                             ("DEL", A, B, C), ("EXISTS", A, B, C)),
             [OK, array(bulk(n), NULL, NULL), OK, bulk("m"), b":3\r\n", b":0\r\n"])


@test
def a_split_write_reaches_each_key_s_owner_only(shop):
    client = shop.client()
    keys = keys_on(0, 5) + keys_on(1, 5) + keys_on(2, 5)
    client.ask("MSET", *[part for key in keys for part in (key, key)])
    for place in (0, 1, 2):
        for key in keys:
            same(shop.node(place).ask("EXISTS", key), int(node_of(key) == place), "%s at node %d" % (key, place))


@test
def a_split_command_names_the_node_and_the_slot_that_failed(fresh):
    shop = fresh()
    client = shop.client()
    shop.node(2).ask("CONFIG", "SET", "min-replicas-to-write", "1")  # Writes fail there, reads do not.
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
    for args in (("MSETNX", A, 1, C, 2), ("RENAME", A, C), ("RENAMENX", A, C), ("COPY", A, C), ("SMOVE", A, C, "m"),
                 ("SINTER", A, C), ("SUNION", A, B, C), ("SDIFFSTORE", A, B), ("SINTERSTORE", A, A, C),
                 ("SINTERCARD", 2, A, C), ("ZUNION", 2, A, C), ("ZUNIONSTORE", A, 1, C), ("ZINTERCARD", 2, A, C),
                 ("ZRANGESTORE", A, C, 0, -1), ("ZMPOP", 2, A, C, "MIN"), ("LMPOP", 2, A, C, "LEFT"),
                 ("LMOVE", A, C, "LEFT", "RIGHT"), ("RPOPLPUSH", A, C), ("BITOP", "AND", A, A, C), ("PFCOUNT", A, C),
                 ("PFMERGE", A, C), ("LCS", A, C), ("GEOSEARCHSTORE", A, C, "FROMLONLAT", 1, 1, "BYRADIUS", 1, "km"),
                 ("SORT", A, "STORE", C), ("GEORADIUS", A, 1, 1, 1, "km", "STORE", C),
                 ("XREAD", "STREAMS", A, C, 0, 0), ("XREADGROUP", "GROUP", "g", "c", "STREAMS", A, C, ">", ">"),
                 ("EVAL", "return 1", 2, A, C), ("EVAL_RO", "return 1", 2, A, C), ("FCALL", "f", 2, A, C),
                 ("RENAME", C, other), ("SINTER", C, other), ("LCS", other, C)):
        same(client.raw(*args), CROSSSLOT, "the reply to %s" % (args,))
    same(client.raw("PING"), PONG)


@test(stock=True)
def keys_with_one_tag_work_together(shop):
    client = shop.client()
    same(client.raw("MSETNX", "{a}1", 1, "{a}2", 2), b":1\r\n")
    same(client.raw("RENAME", "{a}1", "{a}3"), OK)
    same(client.raw("EVAL", "return {redis.call('GET',KEYS[1]),redis.call('GET',KEYS[2])}", 2, "{a}3", "{a}2"),
         array(bulk(1), bulk(2)))
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
    same(client.raw("XREADGROUP", "GROUP", "streams", "c", "COUNT", 1, "STREAMS", "x", ">"), array(array(bulk("x"), entry)))
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
        check(isinstance(reply, list) and len(reply) == 2, "SCAN answers a cursor and a list, got %r" % (reply,))
        cursor = reply[0]
        check(cursor.isdigit() and int(cursor) < 1 << 63, "the cursor %r is a number below 2^63" % cursor)
        keys += reply[1]
        cursors.append(cursor)
        if cursor == b"0":
            return keys, cursors
    check(False, "the loop did not end")


@test(stock=True)
def scan_shows_every_key_once_over_all_nodes(shop):
    client = shop.client()
    names = [b"key%d" % n for n in range(1000)]
    client.ask("MSET", *[part for name in names for part in (name, 1)])
    for options in ((), ("COUNT", 10), ("COUNT", 100000), ("MATCH", "key*"), ("TYPE", "string")):
        keys, _ = scan([client], *options)
        same(sorted(keys), sorted(names), "the keys with %s" % (options,))
    same(sorted(scan([client], "MATCH", "key99*")[0]), sorted(n for n in names if n.startswith(b"key99")))
    same(scan([client], "TYPE", "list")[0], [])
    same(scan([client], "MATCH", "none*", "COUNT", 1000)[0], [])


@test(stock=True)
def scan_of_an_empty_store_ends(shop):
    keys, cursors = scan([shop.client()])
    same(keys, [])
    check(len(cursors) <= 3, "as many calls as nodes at most, not %d" % len(cursors))


@test(stock=True)
def a_scan_goes_on_over_any_connection(shop):
    names = [b"key%d" % n for n in range(300)]
    clients = [shop.client("client %d" % n) for n in range(4)]
    clients[3].hello3()
    clients[0].ask("MSET", *[part for name in names for part in (name, 1)])
    same(sorted(scan(clients, "COUNT", 7)[0]), sorted(names))


@test(stock=True)
def a_scan_in_a_pipeline_and_a_silly_cursor_are_answered(shop):
    client = shop.client()
    client.ask("SET", "a", 1)
    got = client.pipeline(("SCAN", 0), ("SCAN", "x"), ("SCAN", "99999999999999999999999"), ("PING",), ("SCAN", 0, "COUNT", 0))
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
    shop.relays[0].rules.append((lambda args: args[0].upper() == b"SCAN",
                                 lambda args, ask: array(bulk(cursor[0]), array(bulk(A)))))
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
    eventually(lambda: names.discard(client.ask("RANDOMKEY")) or not names, 10, "every key comes up")
    client.ask("DEL", A, B, C)
    same(client.hello3().raw("RANDOMKEY"), b"_\r\n")


@test(stock=True)
def flushall_and_flushdb_empty_all_nodes(shop):
    client = shop.client()
    for args in (("FLUSHALL",), ("FLUSHDB",), ("FLUSHALL", "ASYNC"), ("FLUSHDB", "SYNC")):
        client.ask("MSET", A, 1, B, 1, C, 1)
        same(client.pipeline(args, ("DBSIZE",), ("MGET", A, B, C)), [OK, b":0\r\n", array(NULL, NULL, NULL)])


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
        client.ask("MSET", *[part for n in range(start, start + 500) for part in ("k%d" % n + "x" * 400, "v" * 1000)])
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
        for args in (("GET", key), ("SET", key, "x"), ("DEL", key), ("MGET", A, key), ("MSET", A, "evil", key, "x"),
                     ("UNLINK", A, key), ("EVAL", "return redis.call('DEL',KEYS[1])", 1, key), ("RENAME", key, key),
                     ("EXISTS", key), ("TYPE", key), ("DUMP", key), ("EXPIRE", key, 1), ("OBJECT", "ENCODING", key)):
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


# Scripts and functions

@test(stock=True)
def scripts_without_keys_run(shop):
    client = shop.client()
    same(client.raw("EVAL", "return 1", 0), b":1\r\n")
    same(client.raw("EVAL", "return ARGV[1]", 0, "x"), bulk("x"))
    same(client.raw("EVAL_RO", "return 1", 0), b":1\r\n")
    digest = hashlib.sha1(b"return 1").hexdigest()
    same(client.raw("EVALSHA", digest, 0), b":1\r\n")


@test(stock=True)
def a_loaded_script_is_known_on_every_node(shop):
    client = shop.client()
    script = "return {KEYS[1], ARGV[1]}"
    digest = hashlib.sha1(script.encode()).hexdigest()
    same(client.raw("EVALSHA", digest, 1, A, "x"), b"-NOSCRIPT No matching script. Please use EVAL.\r\n")
    same(client.raw("SCRIPT", "LOAD", script), bulk(digest))
    commands = [("EVALSHA", digest, 1, key, n) for n, key in enumerate((A, B, C) * 7)]
    same(client.pipeline(*commands), [array(bulk(args[3]), bulk(args[4])) for args in commands])
    same(client.raw("SCRIPT", "EXISTS", digest, "f" * 40), array(b":1\r\n", b":0\r\n"))
    same(shop.client().raw("EVALSHA", digest, 1, B, "other"), array(bulk(B), bulk("other")), "another client's reply")
    same(client.raw("SCRIPT", "FLUSH"), OK)
    for key in (A, B, C):
        error(client.raw("EVALSHA", digest, 1, key, "x"), "NOSCRIPT")
    same(client.raw("SCRIPT", "EXISTS", digest), array(b":0\r\n"))


@test(stock=True)
def a_script_seen_by_eval_is_known_on_the_other_nodes_too(shop):
    client = shop.client()
    script = "return 'seen ' .. KEYS[1]"
    digest = hashlib.sha1(script.encode()).hexdigest()
    same(client.raw("EVAL", script, 1, A), bulk("seen " + A))
    same(client.pipeline(("EVALSHA", digest, 1, B), ("EVALSHA", digest, 1, C), ("EVALSHA", digest.upper(), 1, A)),
         [bulk("seen " + B), bulk("seen " + C), bulk("seen " + A)])


@test(stock=True)
def load_and_use_in_one_pipeline_keep_their_order(shop):
    client = shop.client()
    for n in range(30):
        script = "return redis.call('INCRBY', KEYS[1], %d)" % (n + 1)
        digest = hashlib.sha1(script.encode()).hexdigest()
        got = client.pipeline(("SET", A, 0), ("SET", C, 0), ("SCRIPT", "LOAD", script), ("EVALSHA", digest, 1, A),
                              ("INCR", A), ("EVALSHA", digest, 1, A), ("GET", A), ("EVALSHA", digest, 1, C), ("GET", C))
        n += 1
        same(got, [OK, OK, bulk(digest)] + [b":%d\r\n" % total for total in (n, n + 1, 2 * n + 1)]
             + [bulk(2 * n + 1), b":%d\r\n" % n, bulk(n)])


@test
def scripts_survive_a_node_that_lost_its_cache(fresh):
    shop = fresh()
    client = shop.client()
    script = "return redis.call('INCR', KEYS[1])"
    digest = client.ask("SCRIPT", "LOAD", script).decode()
    same(client.raw("EVALSHA", digest, 1, B), b":1\r\n")
    shop.node(1).ask("SCRIPT", "FLUSH")  # Behind the proxy's back.
    got = client.pipeline(*[("EVALSHA", digest, 1, B)] * 5 + [("GET", B)])
    one_of(got[-1], [bulk(6)], "the counter after five more")
    shop.node(1).ask("SAVE")
    shop.node(1).restart()
    eventually(lambda: client.raw("EXISTS", B) == b":1\r\n", 5, "the node is back")
    same(client.pipeline(("SET", B, 0), ("EVALSHA", digest, 1, B), ("INCR", B), ("EVALSHA", digest, 1, B)),
         [OK, b":1\r\n", b":2\r\n", b":3\r\n"])


@test(long=True, seconds=60)
def the_memory_of_scripts_is_bounded(fresh):
    shop = fresh(config={"limits": {"script_cache": "4MB"}})
    client = shop.client()
    scripts = ["return %d --%s" % (n, "x" * 1000) for n in range(20000)]
    before = shop.proxy.memory()
    for start in range(0, len(scripts), 500):
        client.pipeline(*[("SCRIPT", "LOAD", script) for script in scripts[start : start + 500]])
    grown = shop.proxy.memory() - before
    check(grown < 20_000_000, "20 MB of scripts with a cache of 4 MB: the proxy grew by %d" % grown)
    last = hashlib.sha1(scripts[-1].encode()).hexdigest()
    same(client.raw("EVALSHA", last, 1, C), b":19999\r\n")
    first = hashlib.sha1(scripts[0].encode()).hexdigest()
    one_of(client.raw("EVALSHA", first, 1, C), (b":0\r\n", b"-NOSCRIPT No matching script. Please use EVAL.\r\n"))


@test(stock=True)
def a_function_is_known_on_every_node(shop):
    client = shop.client()
    code = "#!lua name=lib\nredis.register_function('f', function(keys, args) return {keys[1], args[1]} end)"
    same(client.raw("FUNCTION", "LOAD", code), bulk("lib"))
    for key in (A, B, C):
        same(client.raw("FCALL", "f", 1, key, "x"), array(bulk(key), bulk("x")))
    same([as_map(lib)["library_name"] for lib in client.ask("FUNCTION", "LIST")], [b"lib"])
    dump = client.ask("FUNCTION", "DUMP")
    same(client.raw("FUNCTION", "DELETE", "lib"), OK)
    for key in (A, B, C):
        error(client.raw("FCALL", "f", 1, key, "x"), "ERR Function not found")
    same(client.raw("FUNCTION", "RESTORE", dump), OK)
    same(client.raw("FCALL", "f", 1, C, "x"), array(bulk(C), bulk("x")))
    same(client.raw("FUNCTION", "FLUSH"), OK)
    same(client.ask("FUNCTION", "LIST"), [])


# First contact

@test(stock=True)
def hello_answers_what_clients_read(shop):
    client = shop.client()
    for args, version in (((), 2), (("2",), 2), (("3",), 3), ((), 3), (("2", "SETNAME", "me"), 2)):
        reply = client.ask("HELLO", *args)
        check(isinstance(reply, dict) == (version == 3), "RESP%d's shape" % version)
        fields = as_map(reply)
        same(list(fields), ["server", "version", "proto", "id", "mode", "role", "modules"], "the fields")
        same([fields[key] for key in ("server", "proto", "mode", "role", "modules")],
             [b"redis", version, b"standalone", b"master", []])
        same(fields["id"], client.ask("CLIENT", "ID"))
        has(fields["version"], "7.0.15")
    same(client.raw("CLIENT", "GETNAME"), bulk("me"))
    same(client.raw("HELLO", "4"), b"-NOPROTO unsupported protocol version\r\n")
    same(client.raw("HELLO", "x"), b"-ERR Protocol version is not an integer or out of range\r\n")
    check(client.raw("HELLO", "2", "AUTH", "default", "any").startswith(b"*14\r\n"), "no password is set: any will do")
    error(client.raw("HELLO", "3", "AUTH", "nobody", "any"), "WRONGPASS")
    error(client.raw("HELLO", "3", "SETNAME", "a b"), "ERR Client names cannot contain spaces")
    same(as_map(client.ask("HELLO"))["proto"], 2, "the version after failed HELLOs")


@test(stock=True)
def info_says_what_libraries_look_for(shop):
    client = shop.client()
    text = client.ask("INFO").decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    for field in ("redis_version", "redis_mode", "role", "loading", "connected_slaves", "master_replid",
                  "master_repl_offset", "run_id", "tcp_port", "uptime_in_seconds", "connected_clients", "used_memory",
                  "maxmemory_policy", "cluster_enabled", "total_commands_processed", "process_id"):
        check(field in fields, "INFO lacks %s" % field)
    same([fields[key] for key in ("redis_mode", "role", "loading", "cluster_enabled", "connected_slaves")],
         ["standalone", "master", "0", "0", "0"])
    has(fields["redis_version"], "7.0.15")
    same(fields["tcp_port"], str(shop.forward[1]))
    for line in text.split("\r\n"):
        check(not line or line.startswith("# ") or ":" in line, "a line of INFO is %r" % line)


@test(stock=True)
def a_named_section_of_info_comes_alone(shop):
    client = shop.client()
    client.ask("MSET", A, 1, B, 2, C, 3)
    for section, mark, field in (("server", "# Server", "redis_version"), ("replication", "# Replication", "role:master"),
                                 ("clients", "# Clients", "connected_clients"), ("memory", "# Memory", "used_memory"),
                                 ("keyspace", "# Keyspace", "db0:keys=3"), ("cluster", "# Cluster", "cluster_enabled:0"),
                                 ("persistence", "# Persistence", "loading:0"), ("stats", "# Stats", "total_commands_processed"),
                                 ("cpu", "# CPU", "used_cpu_user"), ("KEYSPACE", "# Keyspace", "db0:keys=3")):
        text = client.ask("INFO", section)
        has(text, mark, field, what="INFO %s" % section)
        same(text.count(b"# "), 1, "the number of sections in INFO %s" % section)
    same(client.ask("INFO", "nosuch"), b"")
    both = client.ask("INFO", "server", "keyspace")
    has(both, "# Server", "# Keyspace")
    lacks(both, "# Memory")
    for section in ("all", "everything", "default"):
        has(client.ask("INFO", section), "# Server", "# Keyspace", "redis_version")
    check(client.hello3().raw("INFO", "server").startswith(b"="), "RESP3: a verbatim string")


@test
def info_says_what_the_proxy_is_and_has_a_section_per_node(shop):
    text = shop.client().ask("INFO")
    has(text, "slotproxy", *[shop.name(place) for place in (0, 1, 2)], what="INFO")


@test(stock=True)
def client_commands_are_answered_for_this_client(shop):
    one, two = shop.client("one"), shop.client("two")
    first, second = one.ask("CLIENT", "ID"), two.ask("CLIENT", "ID")
    check(first != second and first > 0, "ids differ: %r and %r" % (first, second))
    same(one.raw("CLIENT", "SETNAME", "first"), OK)
    same(two.raw("CLIENT", "SETNAME", "second"), OK)
    for client, name, number in ((one, "first", first), (two, "second", second)):
        same(client.raw("CLIENT", "GETNAME"), bulk(name))
        same(client.raw("CLIENT", "ID"), b":%d\r\n" % number)
        port = client.socket.getsockname()[1]
        has(client.ask("CLIENT", "INFO"), "id=%d " % number, "name=%s " % name, "addr=127.0.0.1:%d " % port, "resp=2", "db=0 ")
    listed = one.ask("CLIENT", "LIST").decode()
    same(len([line for line in listed.split("\n") if "name=first " in line or "name=second " in line]), 2)
    check(listed.endswith("\n"), "the list ends with a line end")
    has(one.ask("CLIENT", "LIST", "ID", second), "name=second ")
    lacks(one.ask("CLIENT", "LIST", "ID", second), "name=first ")
    same(one.raw("CLIENT", "NO-EVICT", "on"), OK)
    same(one.raw("CLIENT", "SETNAME", ""), OK)
    same(one.raw("CLIENT", "GETNAME"), NULL)


@test
def newer_client_commands_are_answered_too(shop):
    client = shop.client()
    same(client.pipeline(("CLIENT", "SETINFO", "LIB-NAME", "tester"), ("CLIENT", "SETINFO", "LIB-VER", "1.0"),
                         ("CLIENT", "NO-TOUCH", "on"), ("PING",)), [OK, OK, OK, PONG])
    has(client.ask("CLIENT", "INFO"), "lib-name=tester", "lib-ver=1.0")


@test
def names_of_clients_stay_out_of_the_shared_connections(shop):
    shop.client().ask("CLIENT", "SETNAME", "private-name")
    client = shop.client()
    client.ask("CLIENT", "SETNAME", "private-name")
    client.pipeline(("GET", A), ("GET", B), ("GET", C))
    for place in (0, 1, 2):
        lacks(shop.node(place).ask("CLIENT", "LIST"), "private-name", what="the node's clients")
        has(shop.node(place).ask("CLIENT", "LIST"), "name=slotproxy", what="the node's clients")


@test(stock=True)
def client_kill_ends_the_connection_it_names(shop):
    killer = shop.client("killer")
    for way in ("id", "addr", "old"):
        victim = shop.client("victim by " + way)
        number = victim.ask("CLIENT", "ID")
        address = "127.0.0.1:%d" % victim.socket.getsockname()[1]
        if way == "old":
            same(killer.raw("CLIENT", "KILL", address), OK)
        else:
            same(killer.raw("CLIENT", "KILL", way.upper(), number if way == "id" else address), b":1\r\n")
        same(victim.read_until_closed(), b"")
    same(killer.raw("CLIENT", "KILL", "ID", 999999999), b":0\r\n")
    same(killer.raw("CLIENT", "KILL", "127.0.0.1:1"), b"-ERR No such client\r\n")
    same(killer.raw("PING"), PONG)


@test(stock=True)
def client_reply_off_and_skip_leave_replies_out(shop):
    client = shop.client()
    client.send(b"".join(resp.request(*args) for args in (
        ("CLIENT", "REPLY", "SKIP"), ("SET", A, 1), ("GET", A), ("CLIENT", "REPLY", "OFF"), ("SET", B, 2), ("MSET", A, 3, C, 4),
        ("NOSUCH",), ("PING",), ("CLIENT", "REPLY", "ON"), ("MGET", A, B, C))))
    same(client.read(), bulk(1))
    same(client.read(), OK)
    same(client.read(), array(bulk(3), bulk(2), bulk(4)))
    check(client.silent(0.05), "nothing else arrives")


@test(stock=True)
def reset_brings_back_the_start(shop):
    client = shop.client().hello3()
    client.ask("CLIENT", "SETNAME", "n")
    same(client.raw("RESET"), b"+RESET\r\n")
    same(client.raw("CLIENT", "GETNAME"), NULL)
    same(as_map(client.ask("HELLO"))["proto"], 2)


@test
def databases_other_than_0_are_refused_and_never_mixed(shop):
    client = shop.client()
    same(client.raw("SELECT", 0), OK)
    same(client.raw("SELECT", 99), b"-ERR DB index is out of range\r\n")
    same(client.raw("SELECT", "x"), b"-ERR value is not an integer or out of range\r\n")
    error(client.raw("SELECT", 3), "ERR")
    client.ask("SET", A, "three")
    same(client.raw("SELECT", 0), OK)
    same(client.raw("GET", A), bulk("three"))
    for args in (("SWAPDB", 0, 1), ("MOVE", A, 1), ("COPY", A, A + "{bar}", "DB", 1)):
        error(client.raw(*args), "", what="the reply to %s" % (args,))
    same(client.raw("GET", A), bulk("three"))


@test(stock=True)
def the_command_table_is_whole(shop):
    client = shop.client()
    count = client.ask("COMMAND", "COUNT")
    table = client.ask("COMMAND")
    check(count > 200, "COMMAND COUNT is %d" % count)
    same(len(table), count, "the length of COMMAND")
    entries = {entry[0].decode(): entry for entry in table}
    check(all(len(entry) == 10 for entry in table), "each entry has ten fields")
    same(entries["get"][1:6], [2, ["readonly", "fast"], 1, 1, 1])
    same(entries["mset"][3:6], [1, -1, 2])
    same([item for item in entries["mget"][7]], [b"request_policy:multi_shard"])
    check(any(sub[0] == b"config|get" for sub in entries["config"][9]), "CONFIG has its subcommands")
    check(set(entries) <= {name.decode() for name in client.ask("COMMAND", "LIST")}, "COMMAND LIST names them all")
    got = client.ask("COMMAND", "INFO", "get", "nosuch")
    same((got[0][0], got[1]), (b"get", None))
    documents = as_map(client.ask("COMMAND", "DOCS", "get", "nosuch"))
    same(list(documents), ["get"])
    has(as_map(documents["get"]), "summary", "since", "group", what="COMMAND DOCS get")
    same(client.ask("COMMAND", "GETKEYS", "mset", "a", 1, "b", 2), [b"a", b"b"])
    check(len(as_map(client.ask("COMMAND", "DOCS"))) >= count, "COMMAND DOCS without names tells of all")


@test(stock=True)
def config_get_answers_the_few_names_that_clients_ask(shop):
    client = shop.client()
    same(client.ask("CONFIG", "GET", "save"), [b"save", b""])
    same(client.ask("CONFIG", "GET", "appendonly"), [b"appendonly", b"no"])
    same(client.ask("CONFIG", "GET", "nosuchname"), [])
    same(as_map(client.ask("CONFIG", "GET", "maxmemory")), {"maxmemory": b"0"})
    has(client.ask("CONFIG", "GET", "databases"), b"databases")
    check(isinstance(client.hello3().ask("CONFIG", "GET", "maxmemory"), dict), "RESP3: a map")


@test
def config_set_never_reaches_a_node(shop):
    client = shop.client()
    for args in (("CONFIG", "SET", "maxmemory", "1mb"), ("CONFIG", "SET", "requirepass", "x"), ("CONFIG", "REWRITE"),
                 ("CONFIG", "RESETSTAT")):
        got = client.raw(*args)
        if args[1] != "RESETSTAT":
            error(got, "", what="the reply to %s" % (args,))
    for place in (0, 1, 2):
        same(shop.node(place).ask("CONFIG", "GET", "maxmemory"), [b"maxmemory", b"0"])


@test
def what_an_operator_does_is_refused_at_once_and_harms_nothing(shop):
    client = shop.client()
    for args in (("MONITOR",), ("SHUTDOWN",), ("SHUTDOWN", "NOSAVE"), ("REPLICAOF", "NO", "ONE"), ("SLAVEOF", "127.0.0.1", 1),
                 ("SYNC",), ("PSYNC", "?", -1), ("REPLCONF", "x", "y"), ("FAILOVER",), ("DEBUG", "SLEEP", 3),
                 ("DEBUG", "SEGFAULT"), ("MIGRATE", "127.0.0.1", 1, "k", 0, 100),
                 ("ACL", "SETUSER", "x"), ("MODULE", "LOAD", "/x.so"), ("CLIENT", "PAUSE", 1000), ("CLIENT", "TRACKING", "ON")):
        got, took = timed(lambda args=args: client.raw(*args))
        error(got, "", what="the reply to %s" % (args,))
        check(took < 0.5, "%s took %.3f s" % (args, took))
    same(client.pipeline(("PING",), ("SET", A, 1), ("SET", B, 1), ("SET", C, 1)), [PONG, OK, OK, OK])
    for place in (0, 1, 2):
        same(shop.node(place).info("replication")["role"], "master")


@test
def what_comes_later_is_a_clear_error_and_never_a_wrong_answer(shop):
    client = shop.client()
    client.ask("SET", A, 1)
    for args in (("MULTI",), ("EXEC",), ("DISCARD",), ("WATCH", A), ("SUBSCRIBE", "ch"), ("PSUBSCRIBE", "ch*"),
                 ("SSUBSCRIBE", "ch"), ("PUBLISH", "ch", "m"), ("SPUBLISH", "ch", "m"), ("PUBSUB", "CHANNELS"),
                 ("BLPOP", "queue", 1), ("BRPOP", "queue", 1), ("BLMOVE", "{q}a", "{q}b", "LEFT", "RIGHT", 1),
                 ("BLMPOP", 1, 1, "queue", "LEFT"), ("BZPOPMIN", "queue", 1), ("BZPOPMAX", "queue", 1),
                 ("BZMPOP", 1, 1, "queue", "MIN"), ("BRPOPLPUSH", "{q}a", "{q}b", 1), ("XREAD", "BLOCK", 0, "STREAMS", "x", "$"),
                 ("XREADGROUP", "GROUP", "g", "c", "BLOCK", 0, "STREAMS", "x", ">"), ("WAIT", 0, 100),
                 ("CLIENT", "TRACKING", "ON"), ("CLIENT", "CACHING", "YES"), ("MONITOR",)):
        got, took = timed(lambda args=args: client.raw(*args))
        error(got, "ERR", what="the reply to %s" % (args,))
        check(took < 0.5, "%s took %.3f s" % (args, took))
        same(client.raw("GET", A), bulk(1), "a command after %s" % (args,))
    got = client.pipeline(("MULTI",), ("SET", A, 2), ("EXEC",))
    check(got[0].startswith(b"-") and got[2].startswith(b"-"), "MULTI and EXEC: %r" % got)
    got = client.pipeline(("MULTI",), ("BLPOP", "q", 0), ("PING",))
    same(got[2], PONG)


@test(stock=True)
def it_looks_like_a_standalone_server_to_cluster_clients(shop):
    client = shop.client()
    disabled = b"-ERR This instance has cluster support disabled\r\n"
    for args in (("INFO",), ("SLOTS",), ("NODES",), ("SHARDS",), ("MYID",), ("KEYSLOT", "a"), ("HELP",)):
        same(client.raw("CLUSTER", *args), disabled, "CLUSTER %s" % (args,))
    for name in ("READONLY", "READWRITE", "ASKING"):
        same(client.raw(name), disabled, name)


@test
def forward_cluster_makes_it_a_seed(fresh):
    shop = fresh(config={"listen": {"forward_cluster": True}})
    client = shop.client()
    same(client.ask("CLUSTER", "SLOTS"), shop.at(0).ask("CLUSTER", "SLOTS"))
    has(client.ask("CLUSTER", "INFO"), "cluster_state:ok")
    same(client.raw("SET", C, 1), OK)
    same(client.raw("GET", C), bulk(1))


@test(stock=True)
def tools_for_a_look_inside_get_an_answer(shop):
    client = shop.client()
    client.ask("SET", A, 1)
    for args in (("MODULE", "LIST"), ("SLOWLOG", "GET"), ("LATENCY", "LATEST")):
        check(isinstance(client.ask(*args), list), "%s answers a list" % (args,))
    check(isinstance(client.ask("SLOWLOG", "LEN"), int), "SLOWLOG LEN")
    check(client.ask("MEMORY", "USAGE", A) > 0, "MEMORY USAGE")
    same(client.raw("ROLE"), array(bulk("master"), b":0\r\n", b"*0\r\n"))
    error(client.raw("FT._LIST"), "ERR unknown command")
    error(client.raw("SENTINEL", "MASTERS"), "ERR unknown command")
    now = client.ask("TIME")
    check(abs(int(now[0]) - time.time()) < 5, "TIME is now")


@test
def commands_that_a_node_knows_and_the_table_does_not_are_learned(fresh):
    # A real module is not at hand: the relay adds one command to what a node says that it knows.
    entry = (b"*10\r\n$8\r\nshop.get\r\n:2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n")

    def with_one_more(args, ask):
        reply = ask()
        if len(args) > 1 or reply[:1] != b"*":
            return reply
        head, rest = reply.split(b"\r\n", 1)
        return b"*%d\r\n" % (int(head[1:]) + 1) + entry + rest

    shop = fresh(relays=(0, 1, 2), start=False)
    for relay in shop.relays.values():
        relay.rules.append((lambda args: args[0].upper() == b"COMMAND", with_one_more))
        relay.rules.append((lambda args: args[0].upper() == b"SHOP.GET", lambda args, ask: bulk(b"got " + args[1])))
    shop.start()
    client = shop.client()
    for place in (0, 1, 2):
        key = key_on(place)
        same(client.raw("SHOP.GET", key), bulk("got " + key))
        check([b"SHOP.GET", key.encode()] in shop.relays[place].seen, "%s went to node %d" % (key, place))
    same(client.raw("SHOP.GET"), b"-ERR wrong number of arguments for 'shop.get' command\r\n")
