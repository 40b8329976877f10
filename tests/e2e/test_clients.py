"""Programs and libraries that people use, as they come."""
import asyncio
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

from harness import processes
from harness.check import Failure, Skip, check, has, lacks, same
from harness.tests import test
from harness.wire import is_ready

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.environ.get("E2E_NODE_MODULES") or os.path.join(HERE, "..", "..", "build", "e2e-node")


# redis-cli


def cli(shop, *args, stdin=None, timeout=20):
    return processes.run(
        ["redis-cli", "-p", str(shop.forward[1]), *args], stdin=stdin, timeout=timeout
    )


@test(stock=True)
def redis_cli_runs_commands(shop):
    same(cli(shop, "PING").stdout, "PONG\n")
    got = cli(
        shop,
        stdin="MSET bar 1 c 2 foo 3\nMGET foo bar c none\nINCR foo\nDBSIZE\nSCAN 0 COUNT 100 MATCH nosuch\n",
    )
    same(got.stdout.splitlines()[:7], ["OK", "3", "1", "2", "", "4", "3"])
    got = cli(shop, "-3", "HSET", "h", "f", "v")
    same((got.stdout, got.stderr), ("1\n", ""))
    same(cli(shop, "-3", "HGETALL", "h").stdout.split(), ["f", "v"])
    same(cli(shop, "--no-raw", "GET", "nosuch").stdout, "(nil)\n")
    same(cli(shop, "-x", "SET", "piped", stdin="from stdin").stdout, "OK\n")
    same(cli(shop, "GET", "piped").stdout, "from stdin\n")
    same(cli(shop, "-n", "0", "GET", "bar").stdout, "1\n")
    same(cli(shop, "-r", "3", "INCR", "repeated").stdout, "1\n2\n3\n")


@test(stock=True)
def redis_cli_scans_and_looks_for_big_keys(shop):
    cli(
        shop,
        stdin="".join("SET key:%d %s\n" % (n, "x" * n) for n in range(1, 301))
        + "RPUSH list 1 2 3\nHSET hash f v\n",
    )
    got = cli(shop, "--scan", "--pattern", "key:*")
    same(sorted(got.stdout.split()), sorted("key:%d" % n for n in range(1, 301)))
    for option in ("--bigkeys", "--memkeys"):
        got = cli(shop, option)
        same(got.returncode, 0, "redis-cli %s: %s" % (option, got.stderr))
        has(got.stdout, "Sampled 302 keys in the keyspace!", what="redis-cli " + option)
    has(
        cli(shop, "--bigkeys").stdout,
        "Biggest string found '\"key:300\"' has 300 bytes",
        what="redis-cli --bigkeys",
    )


@test(stock=True)
def redis_cli_pipes_a_mass_insertion(shop):
    data = b"".join(
        b"*3\r\n$3\r\nSET\r\n$%d\r\nmass:%d\r\n$1\r\nv\r\n" % (len("mass:%d" % n), n)
        for n in range(5000)
    )
    got = subprocess.run(
        ["redis-cli", "-p", str(shop.forward[1]), "--pipe"],
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=20,
    )
    has(got.stdout, b"errors: 0, replies: 5000", what="redis-cli --pipe")
    same(shop.client().ask("DBSIZE"), 5000)


@test(stock=True)
def redis_cli_measures_latency(shop):
    got = processes.run(
        ["timeout", "2", "redis-cli", "-p", str(shop.forward[1]), "--latency", "-i", "1"]
    )
    check(re.search(r"\d", got.stdout), "--latency says %r" % got.stdout)
    lacks(got.stdout + got.stderr, "rror", what="--latency")


@test(stock=True)
def redis_cli_is_interactive_with_help_from_the_server(shop):
    parent, child = pty.openpty()
    fcntl.ioctl(
        child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0)
    )  # Else redis-cli asks the terminal.
    process = subprocess.Popen(
        ["redis-cli", "-p", str(shop.forward[1])],
        stdin=child,
        stdout=child,
        stderr=child,
        env=dict(os.environ, TERM="xterm", HOME="/nonexistent"),
        preexec_fn=processes.die_with_parent,
    )
    os.close(child)

    def type_and_wait(text, *wanted, seconds=5):
        """Types, then waits for each of `wanted` in turn: typing ahead of the prompt gets lost."""
        os.write(parent, text)
        seen, deadline, found = b"", time.monotonic() + seconds, 0
        for part in wanted:
            while (at := seen.find(part, found)) < 0:
                if is_ready(parent, select.POLLIN, 0.1):
                    seen += os.read(parent, 65536)
                if time.monotonic() > deadline:
                    raise Failure(
                        "after %r the terminal shows %r, wanted %r" % (text, seen[-300:], part)
                    )
            found = at + len(part)

    prompt = b"%d> " % shop.forward[1]
    try:
        type_and_wait(b"", prompt)
        type_and_wait(b"SET bar 1\r", b"OK", prompt)
        type_and_wait(b"GET bar\r", b'"1"', prompt)
        type_and_wait(b"GETE\t", b"GETEX")
        type_and_wait(b"\x15HELP GETEX\r", b"summary", prompt)
        type_and_wait(b"NOSUCH\r", b"unknown command", prompt)
        type_and_wait(b"PING\r", b"PONG", prompt)
    finally:
        process.kill()
        process.wait()
        os.close(parent)


# redis-benchmark


@test(stock=True)
def redis_benchmark_runs_every_test_that_needs_no_transactions(shop):
    tests = "ping,set,get,incr,lpush,rpush,lpop,rpop,sadd,hset,spop,zadd,zpopmin,lrange_100,mset"
    got = processes.run(
        [
            "redis-benchmark",
            "-p",
            str(shop.forward[1]),
            "-t",
            tests,
            "-n",
            "2000",
            "-c",
            "20",
            "-q",
        ],
        timeout=25,
    )
    same(got.returncode, 0, "its exit status: " + got.stderr)
    lacks(got.stdout + got.stderr, "rror", "WARNING", what="its output")
    same(
        got.stdout.count("requests per second"),
        17,
        "the number of results in %r" % got.stdout[-900:],
    )


@test(stock=True)
def redis_benchmark_pipelines_with_many_random_keys(shop):
    got = processes.run(
        [
            "redis-benchmark",
            "-p",
            str(shop.forward[1]),
            "-t",
            "set,get",
            "-n",
            "50000",
            "-c",
            "50",
            "-P",
            "64",
            "-r",
            "100000",
            "-q",
        ],
        timeout=25,
    )
    same(got.returncode, 0, "its exit status: " + got.stderr)
    lacks(got.stdout + got.stderr, "rror", "WARNING", what="its output")
    got = processes.run(
        [
            "redis-benchmark",
            "-p",
            str(shop.forward[1]),
            "-n",
            "3000",
            "-r",
            "1000",
            "-q",
            "--threads",
            "2",
            "MSET",
            "a:__rand_int__",
            "1",
            "b:__rand_int__",
            "2",
            "c:__rand_int__",
            "3",
        ],
        timeout=25,
    )
    same(got.returncode, 0, "its exit status: " + got.stderr)
    lacks(got.stdout + got.stderr, "rror", what="its output")


# redis-py


def redis_py():
    try:
        import redis
    except ImportError:
        raise Skip("python3-redis is not installed for %s" % sys.executable)
    return redis


@test(stock=True)
def redis_py_works_plain(shop):
    redis = redis_py()
    r = redis.Redis(port=shop.forward[1], decode_responses=True)
    same(r.ping(), True)
    keys = ["py:%d" % n for n in range(60)]
    check(r.mset({key: key for key in keys}), "MSET")
    same(r.mget(keys[::-1] + ["py:none"]), keys[::-1] + [None])
    same(set(r.scan_iter("py:*", count=7)), set(keys))
    same((r.exists(*keys), r.delete(*keys[:20]), r.unlink(*keys), r.dbsize()), (60, 20, 40, 0))
    same(r.hset("py:h", mapping={"a": 1, "b": 2}), 2)
    same(r.hgetall("py:h"), {"a": "1", "b": "2"})
    same(r.zadd("py:z", {"a": 1, "b": 2.5}), 2)
    same(r.zrange("py:z", 0, -1, withscores=True), [("a", 1.0), ("b", 2.5)])
    r.xadd("py:x", {"f": "v"}, id="1-1")
    r.xgroup_create("py:x", "g", id="0")
    same(r.xreadgroup("g", "c", {"py:x": ">"}), [["py:x", [("1-1", {"f": "v"})]]])
    same(r.xack("py:x", "g", "1-1"), 1)
    info = r.info()
    same((info["redis_mode"], info["loading"], info["role"]), ("standalone", 0, "master"))
    same(r.client_setname("py"), True)
    same(r.client_getname(), "py")
    check(any(client["name"] == "py" for client in r.client_list()), "CLIENT LIST")
    check("get" in r.command(), "COMMAND")
    same(r.config_get("maxmemory"), {"maxmemory": "0"})
    try:
        r.set("py:n", 1)
        r.hget("py:n", "f")
        raise Failure("HGET of a string did not fail")
    except redis.ResponseError as why:
        has(str(why), "WRONGTYPE")


@test(stock=True)
def redis_py_pipelines_scripts_and_pools(shop):
    redis = redis_py()
    r = redis.Redis(port=shop.forward[1], decode_responses=True)
    with r.pipeline(transaction=False) as pipe:
        for n in range(1000):
            pipe.set("py:%d" % n, n).get("py:%d" % n)
        got = pipe.execute()
    same(got, [part for n in range(1000) for part in (True, str(n))])
    twice = r.register_script("return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}")
    for n in range(20):
        same(twice(keys=["py:s%d" % n], args=[n]), ["py:s%d" % n, n])
    with r.pipeline(transaction=False) as pipe:
        for n in range(20):
            twice(keys=["py:s%d" % n], args=[1], client=pipe)
        same(pipe.execute(), [["py:s%d" % n, n + 1] for n in range(20)])
    pool = redis.ConnectionPool(port=shop.forward[1], max_connections=20)
    clients = [redis.Redis(connection_pool=pool) for _ in range(20)]
    for n, client in enumerate(clients):
        client.set("py:pool%d" % n, n)
        same(client.get("py:pool%d" % n), b"%d" % n)
    locked = r.set("py:lock", "me", nx=True, px=10000)
    same((locked, r.set("py:lock", "other", nx=True)), (True, None))


@test(stock=True)
def redis_py_works_with_asyncio(shop):
    redis_py()
    from redis import asyncio as aioredis

    async def play():
        r = aioredis.Redis(port=shop.forward[1], decode_responses=True)
        await asyncio.gather(*[r.set("aio:%d" % n, n) for n in range(100)])
        got = await asyncio.gather(*[r.get("aio:%d" % n) for n in range(100)])
        pipe = r.pipeline(transaction=False)
        for n in range(100):
            pipe.incr("aio:%d" % n)
        more = await pipe.execute()
        await r.close()
        return got, more

    got, more = asyncio.run(play())
    same(got, [str(n) for n in range(100)])
    same(more, [n + 1 for n in range(100)])


@test(stock=True)
def redis_py_cluster_follows_the_map(shop):
    redis = redis_py()
    from redis.cluster import ClusterNode, RedisCluster

    r = RedisCluster(
        startup_nodes=[ClusterNode("127.0.0.1", shop.endpoint(1)[1])], decode_responses=True
    )
    same(
        {node.port for node in r.get_primaries()}, {shop.endpoint(place)[1] for place in (0, 1, 2)}
    )
    keys = ["pc:%d" % n for n in range(100)]
    for key in keys:
        same(r.set(key, key), True)
    same([r.get(key) for key in keys], keys)
    same(r.mget_nonatomic(keys), keys)
    same(r.exists(*keys), 100)
    same(sum(r.dbsize(target_nodes=node) for node in r.get_primaries()), 100)
    same(
        sorted(key for node in r.get_primaries() for key in r.keys("*", target_nodes=node)),
        sorted(keys),
    )
    pipe = r.pipeline()
    for key in keys:
        pipe.get(key)
    same(pipe.execute(), keys)
    same(r.delete(*keys), 100)
    same(r.cluster_info(r.get_primaries()[0])["cluster_state"], "ok")
    try:
        r.mget("a", "b")
        raise Failure("MGET over slots did not fail")
    except redis.exceptions.RedisClusterException as why:
        has(str(why), "same key slot")
    same(r.eval("return redis.call('SET', KEYS[1], ARGV[1])", 1, "pc:e", "v"), "OK")
    same(r.get("pc:e"), "v")


@test(stock=True)
def redis_py_cluster_works_with_asyncio(shop):
    redis_py()
    from redis.asyncio.cluster import RedisCluster

    async def play():
        r = RedisCluster(host="127.0.0.1", port=shop.endpoint(2)[1], decode_responses=True)
        await asyncio.gather(*[r.set("aioc:%d" % n, n) for n in range(100)])
        got = await asyncio.gather(*[r.get("aioc:%d" % n) for n in range(100)])
        await r.close()
        return got

    same(asyncio.run(play()), [str(n) for n in range(100)])
