"""Scripts and functions at the forward port: known on every node, in the order of the pipeline."""
import hashlib

from harness.check import check, error, eventually, one_of, same
from harness.resp import array, as_map, bulk
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.


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
    same(
        client.raw("EVALSHA", digest, 1, A, "x"),
        b"-NOSCRIPT No matching script. Please use EVAL.\r\n",
    )
    same(client.raw("SCRIPT", "LOAD", script), bulk(digest))
    commands = [("EVALSHA", digest, 1, key, n) for n, key in enumerate((A, B, C) * 7)]
    same(client.pipeline(*commands), [array(bulk(args[3]), bulk(args[4])) for args in commands])
    same(client.raw("SCRIPT", "EXISTS", digest, "f" * 40), array(b":1\r\n", b":0\r\n"))
    same(
        shop.client().raw("EVALSHA", digest, 1, B, "other"),
        array(bulk(B), bulk("other")),
        "another client's reply",
    )
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
    same(
        client.pipeline(
            ("EVALSHA", digest, 1, B), ("EVALSHA", digest, 1, C), ("EVALSHA", digest.upper(), 1, A)
        ),
        [bulk("seen " + B), bulk("seen " + C), bulk("seen " + A)],
    )


@test(stock=True)
def load_and_use_in_one_pipeline_keep_their_order(shop):
    client = shop.client()
    for n in range(30):
        script = "return redis.call('INCRBY', KEYS[1], %d)" % (n + 1)
        digest = hashlib.sha1(script.encode()).hexdigest()
        got = client.pipeline(
            ("SET", A, 0),
            ("SET", C, 0),
            ("SCRIPT", "LOAD", script),
            ("EVALSHA", digest, 1, A),
            ("INCR", A),
            ("EVALSHA", digest, 1, A),
            ("GET", A),
            ("EVALSHA", digest, 1, C),
            ("GET", C),
        )
        n += 1
        same(
            got,
            [OK, OK, bulk(digest)]
            + [b":%d\r\n" % total for total in (n, n + 1, 2 * n + 1)]
            + [bulk(2 * n + 1), b":%d\r\n" % n, bulk(n)],
        )


@test
def scripts_survive_a_node_that_lost_its_cache(fresh):
    shop = fresh()
    client = shop.client()
    script = "return redis.call('INCR', KEYS[1])"
    digest = client.ask("SCRIPT", "LOAD", script).decode()
    same(client.raw("EVALSHA", digest, 1, B), b":1\r\n")
    shop.node(1).ask("SCRIPT", "FLUSH")  # Behind the proxy's back.
    got = client.pipeline(*[("EVALSHA", digest, 1, B)] * 5 + [("GET", B)])
    # Repaired or not, but never out of order: what comes after a script sees what it did.
    noscript = b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
    repaired = [b":%d\r\n" % n for n in (2, 3, 4, 5, 6)] + [bulk(6)]
    one_of(got, (repaired, [noscript] * 5 + [bulk(1)]), "the replies to five EVALSHA and a GET")
    shop.node(1).ask("SAVE")
    shop.node(1).restart()
    eventually(lambda: client.raw("EXISTS", B) == b":1\r\n", 5, "the node is back")
    same(
        client.pipeline(
            ("SET", B, 0), ("EVALSHA", digest, 1, B), ("INCR", B), ("EVALSHA", digest, 1, B)
        ),
        [OK, b":1\r\n", b":2\r\n", b":3\r\n"],
    )


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
    one_of(
        client.raw("EVALSHA", first, 1, C),
        (b":0\r\n", b"-NOSCRIPT No matching script. Please use EVAL.\r\n"),
    )


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
