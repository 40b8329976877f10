"""Redirect endpoints: what cluster-aware clients read, follow and rely on."""
import topology

from harness import processes
from harness.check import check, error, eventually, has, lacks, same
from harness.resp import array, as_map, bulk, slot_of
from harness.servers import RedisServer
from harness.shop import RANGES, key_on, keys_on, node_of
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
EVERY = (0, 1, 2)


def moved(shop, key):
    host, port = shop.endpoint(node_of(key))
    return b"-MOVED %d %s:%d\r\n" % (slot_of(key), host.encode(), port)


# Served or redirected


@test(stock=True)
def a_key_is_served_by_its_owner_and_redirected_by_the_others(shop):
    for key in ("foo", "bar", "c", "", b"\0", b"\x00\xff\r\n", "{a}1", "user:{42}:name", "h:{}"):
        for place in EVERY:
            client = shop.at(place)
            if place == node_of(key):
                same(client.raw("SET", key, "v"), OK)
                same(client.raw("GET", key), bulk("v"))
            else:
                same(
                    client.raw("SET", key, "wrong"),
                    moved(shop, key),
                    "SET %r at node %d" % (key, place),
                )
                same(client.raw("GET", key), moved(shop, key), "GET %r at node %d" % (key, place))


@test(stock=True)
def moved_agrees_with_the_map_for_a_thousand_keys(shop):
    where = {}
    for first, last, (_, host, port) in topology.from_slots(shop.at(0).ask("CLUSTER", "SLOTS")):
        where.update({slot: b"%s:%d" % (host.encode(), port) for slot in range(first, last + 1)})
    keys = ["key:%d" % n for n in range(1000)]
    for place in EVERY:
        mine = b"%s:%d" % (shop.endpoint(place)[0].encode(), shop.endpoint(place)[1])
        for key, got in zip(keys, shop.at(place).pipeline(*[("GET", key) for key in keys])):
            owner = where[slot_of(key)]
            same(
                got,
                NULL if owner == mine else b"-MOVED %d %s\r\n" % (slot_of(key), owner),
                "GET %s" % key,
            )


@test(stock=True)
def every_keyed_command_is_redirected_the_same(shop):
    client, key = shop.at(0), key_on(2)
    for args in (
        ("MGET", key),
        ("MSET", key, 1),
        ("DEL", key),
        ("EXISTS", key, key),
        ("TOUCH", key),
        ("UNLINK", key),
        ("EVAL", "return 1", 1, key),
        ("EVALSHA", "f" * 40, 1, key),
        ("EVAL_RO", "return 1", 1, key),
        ("FCALL", "f", 1, key),
        ("XADD", key, "*", "f", "v"),
        ("XREAD", "COUNT", 1, "STREAMS", key, 0),
        ("XREADGROUP", "GROUP", "streams", "c", "STREAMS", key, ">"),
        ("XGROUP", "CREATE", key, "g", "$", "MKSTREAM"),
        ("XINFO", "STREAM", key),
        ("OBJECT", "ENCODING", key),
        ("MEMORY", "USAGE", key),
        ("SORT", key),
        ("ZUNIONSTORE", key, 1, key),
        ("ZADD", key, 1, "m"),
        ("LMPOP", 1, key, "LEFT"),
        ("PFCOUNT", key),
        ("GEOADD", key, 1, 1, "m"),
        ("BITFIELD", key, "GET", "u4", 0),
        ("DUMP", key),
        ("TYPE", key),
        ("SET", key, "x", "EX", 10),
        ("RENAME", key, key),
        ("COPY", key, key),
        ("SINTERCARD", 1, key),
    ):
        same(client.raw(*args), moved(shop, key), "the reply to %s" % (args,))


@test(stock=True)
def keys_of_two_slots_are_crossslot_before_they_are_moved(shop):
    foreign, own = key_on(2), key_on(0)
    client = shop.at(0)
    for args in (
        ("MGET", own, foreign),
        ("MGET", foreign, key_on(1)),
        ("MSET", own, 1, foreign, 2),
        ("DEL", foreign, key_on(1)),
        ("EXISTS", own, foreign),
        ("UNLINK", own, foreign),
        ("TOUCH", own, foreign),
        ("SINTER", own, foreign),
        ("RENAME", foreign, own),
        ("EVAL", "return 1", 2, own, foreign),
        ("MGET", own, key_on(0, skip=1)),
    ):
        same(client.raw(*args), CROSSSLOT, "the reply to %s" % (args,))
    tag = "{%s}" % own
    same(client.raw("MSET", tag + "1", 1, tag + "2", 2), OK)
    same(client.raw("MGET", tag + "2", tag + "1", tag + "3"), array(bulk(2), bulk(1), NULL))


@test(stock=True)
def errors_of_form_come_before_the_redirect(shop):
    client, key = shop.at(0), key_on(2)
    same(client.raw("GET"), b"-ERR wrong number of arguments for 'get' command\r\n")
    same(client.raw("GET", key, key), b"-ERR wrong number of arguments for 'get' command\r\n")
    error(
        client.raw("NOSUCH", key),
        "ERR unknown command 'NOSUCH', with args beginning with: '%s' " % key,
    )


@test(stock=True)
def pipelines_mix_served_redirected_and_keyless_in_order(shop):
    client = shop.at(1)
    own, foreign = key_on(1), key_on(0)
    got = client.pipeline(
        *[
            ("SET", own, n)
            if n % 4 == 0
            else ("GET", foreign)
            if n % 4 == 1
            else ("ECHO", n)
            if n % 4 == 2
            else ("GET", own)
            for n in range(400)
        ]
    )
    wanted = [
        OK
        if n % 4 == 0
        else moved(shop, foreign)
        if n % 4 == 1
        else bulk(n)
        if n % 4 == 2
        else bulk(n - 3)
        for n in range(400)
    ]
    same(got, wanted)


# One endpoint, one node


@test(stock=True)
def keyless_commands_mean_this_node_alone(shop):
    keys = {place: keys_on(place, 10 + place) for place in EVERY}
    for place in EVERY:
        for key in keys[place]:
            same(shop.at(place).raw("SET", key, place), OK)
    for place in EVERY:
        client = shop.at(place)
        mine = sorted(key.encode() for key in keys[place])
        same(client.ask("DBSIZE"), len(mine))
        same(sorted(client.ask("KEYS", "*")), mine)
        cursor, seen = b"0", []
        while True:
            cursor, page = client.ask("SCAN", cursor, "COUNT", 3)
            seen += page
            if cursor == b"0":
                break
        same(sorted(seen), mine, "SCAN at node %d" % place)
        check(client.ask("RANDOMKEY") in mine, "RANDOMKEY at node %d" % place)
        has(client.ask("INFO", "keyspace"), "db0:keys=%d," % len(mine))
    same(shop.at(0).raw("FLUSHALL"), OK)
    same([shop.at(place).ask("DBSIZE") for place in EVERY], [0, 11, 12])
    same(shop.at(1).raw("EVAL", "return redis.call('PING')", 0), PONG)


@test(stock=True)
def scripts_and_functions_work_per_node(shop):
    digest = shop.at(0).ask("SCRIPT", "LOAD", "return 7").decode()
    same(shop.at(0).raw("EVALSHA", digest, 1, key_on(0)), b":7\r\n")
    same(shop.at(0).raw("SCRIPT", "EXISTS", digest), array(b":1\r\n"))
    for place in EVERY:
        shop.at(place).ask("SCRIPT", "LOAD", "return 7")
        same(shop.at(place).raw("EVALSHA", digest, 1, key_on(place)), b":7\r\n")


@test(stock=True)
def hello_and_info_say_cluster(shop):
    for place in EVERY:
        client = shop.at(place)
        same(as_map(client.ask("HELLO"))["mode"], b"cluster")
        same(as_map(client.ask("HELLO", 3))["mode"], b"cluster")
        same(as_map(client.ask("HELLO", 2))["role"], b"master")
        text = client.ask("INFO")
        has(
            text,
            "redis_mode:cluster",
            "cluster_enabled:1",
            "role:master",
            "loading:0",
            "tcp_port:%d" % shop.endpoint(place)[1],
            what="INFO at node %d" % place,
        )
        has(client.ask("INFO", "cluster"), "cluster_enabled:1")
        lacks(client.ask("INFO", "cluster"), "redis_version")


@test(stock=True)
def readonly_readwrite_and_asking_are_ok(shop):
    client = shop.at(0)
    same(client.pipeline(("READONLY",), ("READWRITE",), ("ASKING",), ("PING",)), [OK, OK, OK, PONG])
    same(
        client.pipeline(
            ("READONLY",), ("GET", key_on(0)), ("GET", key_on(1)), ("SET", key_on(0), 1)
        ),
        [OK, NULL, moved(shop, key_on(1)), OK],
    )
    same(client.raw("ASKING"), OK)
    same(client.raw("GET", key_on(0)), bulk(1))
    same(
        client.pipeline(("ASKING",), ("GET", key_on(1)), ("GET", key_on(1))),
        [OK, moved(shop, key_on(1)), moved(shop, key_on(1))],
    )


@test(stock=True)
def only_database_0_exists(shop):
    client = shop.at(0)
    same(client.raw("SELECT", 0), OK)
    same(client.raw("SELECT", 1), b"-ERR SELECT is not allowed in cluster mode\r\n")
    error(client.raw("MOVE", key_on(0), 1), "ERR")


@test(stock=True)
def the_command_table_is_there_in_both_protocols(shop):
    client = shop.at(0)
    count = client.ask("COMMAND", "COUNT")
    same(len(client.ask("COMMAND")), count)
    client.hello3()
    table = client.ask("COMMAND")
    same(len(table), count)
    get = next(entry for entry in table if entry[0] == b"get")
    same(get[1:6], [2, ["readonly", "fast"], 1, 1, 1])


@test
def an_endpoint_never_shows_the_servers_behind_it(shop):
    for place in EVERY:
        client = shop.at(place)
        for args in (
            ("CLUSTER", "SLOTS"),
            ("CLUSTER", "SHARDS"),
            ("CLUSTER", "NODES"),
            ("GET", key_on((place + 1) % 3)),
        ):
            for node in shop.nodes:
                lacks(
                    client.raw(*args),
                    ":%d" % node.port if args[0] == "GET" else str(node.port),
                    what=str(args),
                )


@test
def the_proxy_s_own_keys_are_refused_at_endpoints_too(shop):
    for place in EVERY:
        client = shop.at(place)
        check(client.raw("GET", "__slotproxy:identity").startswith(b"-"), "refused")
        same(client.raw("DBSIZE"), b":0\r\n")
        same(client.raw("KEYS", "*"), b"*0\r\n")
        same(client.raw("RANDOMKEY"), NULL)


# Announced addresses


@test
def announce_replaces_the_endpoint_in_all_that_clients_read(fresh):
    def announce(config):
        for place, node in enumerate(config["nodes"]):
            node["announce"] = "shop-%d.example.net:%d" % (place, 7000 + place)

    shop = fresh(edit=announce)
    client = shop.at(0)
    same(client.raw("GET", "foo"), b"-MOVED 12182 shop-2.example.net:7002\r\n")
    wanted = [("shop-%d.example.net" % place, 7000 + place) for place in EVERY]
    for read, args in (
        (topology.from_slots, ("CLUSTER", "SLOTS")),
        (topology.from_shards, ("CLUSTER", "SHARDS")),
        (topology.from_nodes, ("CLUSTER", "NODES")),
    ):
        same([who[1:] for _, _, who in read(client.ask(*args))], wanted, " ".join(args))


@test
def an_ipv6_address_is_announced_without_brackets(fresh):
    def announce(config):
        config["nodes"][2]["announce"] = "[::1]:7001"
        config["nodes"][1]["announce"] = "127.0.0.1:60000"

    shop = fresh(edit=announce)
    client = shop.at(0)
    same(client.raw("GET", "foo"), b"-MOVED 12182 ::1:7001\r\n")
    has(client.ask("CLUSTER", "NODES"), " ::1:7001@17001", " 127.0.0.1:60000@")
    topology.nodes_lines(client.ask("CLUSTER", "NODES"))
    same(topology.from_slots(client.ask("CLUSTER", "SLOTS"))[2][2][1:], ("::1", 7001))


@test
def a_node_without_slots_is_in_the_map_and_owns_nothing(fresh):
    nodes = [RedisServer() for _ in range(4)]

    def slots(config):
        for node, (first, last) in zip(config["nodes"], RANGES):
            node["slots"] = "%d-%d" % (first, last)

    try:
        shop = fresh(nodes=nodes, edit=slots)
        client = shop.at(3)
        same(client.raw("GET", "foo"), moved(shop, "foo"))
        lines = topology.nodes_lines(client.ask("CLUSTER", "NODES"))
        same(len(lines), 4)
        same([line.ranges for line in lines if "myself" in line.flags], [[]])
        topology.from_shards(client.ask("CLUSTER", "SHARDS"))
        fields = topology.info_fields(client.ask("CLUSTER", "INFO"))
        same((fields["cluster_known_nodes"], fields["cluster_size"]), ("4", "3"))
        same(client.raw("DBSIZE"), b":0\r\n")
    finally:
        for node in nodes:
            node.end()


@test
def the_state_stays_ok_while_a_node_is_down(fresh):
    shop = fresh()
    shop.node(2).kill()
    client = shop.client()
    eventually(
        lambda: client.raw("GET", "foo").startswith(b"-CLUSTERDOWN"), 5, "the node is seen as down"
    )
    at = shop.at(0)
    check(at.ask("CLUSTER", "INFO").startswith(b"cluster_state:ok\r\n"), "cluster_state:ok")
    same(at.raw("GET", "foo"), moved(shop, "foo"))
    error(shop.at(2).raw("GET", "foo"), "CLUSTERDOWN", shop.name(2), "12182")
    same(len(topology.from_slots(at.ask("CLUSTER", "SLOTS"))), 3)
    lines = topology.nodes_lines(at.ask("CLUSTER", "NODES"))
    same(len(lines), 3)


# Tools that follow redirects by themselves


@test(stock=True)
def redis_cli_c_follows_every_redirect(shop):
    script = "".join("SET key:%d %d\n" % (n, n) for n in range(60)) + "".join(
        "GET key:%d\n" % n for n in range(60)
    )
    got = processes.run(["redis-cli", "-c", "-p", str(shop.endpoint(0)[1])], stdin=script)
    same(got.returncode, 0, "redis-cli's exit status: " + got.stderr)
    lines = [line for line in got.stdout.splitlines() if not line.startswith("-> Redirected")]
    same(lines, ["OK"] * 60 + [str(n) for n in range(60)])


@test(stock=True)
def redis_cli_finds_the_cluster_consistent(shop):
    got = processes.run(["redis-cli", "--cluster", "check", "127.0.0.1:%d" % shop.endpoint(1)[1]])
    has(
        got.stdout,
        "[OK] All nodes agree about slots configuration.",
        "[OK] All 16384 slots covered.",
        what="redis-cli --cluster check",
    )
    same(got.returncode, 0, "its exit status, after " + got.stdout)
    got = processes.run(["redis-cli", "--cluster", "info", "127.0.0.1:%d" % shop.endpoint(1)[1]])
    has(got.stdout, "[OK] 0 keys in 3 masters.", what="redis-cli --cluster info")


@test(stock=True)
def redis_benchmark_runs_in_cluster_mode(shop):
    got = processes.run(
        [
            "redis-benchmark",
            "--cluster",
            "-p",
            str(shop.endpoint(0)[1]),
            "-t",
            "set,get,incr,lpush",
            "-n",
            "4000",
            "-c",
            "10",
            "-P",
            "4",
            "-q",
        ],
        timeout=25,
    )
    same(got.returncode, 0, "its exit status: " + got.stderr)
    output = got.stdout.replace("\r", "\n")
    for name in ("SET:", "GET:", "INCR:", "LPUSH:"):
        check(
            any(
                line.startswith(name) and "requests per second" in line
                for line in output.split("\n")
            ),
            "no result for %s in %r" % (name, output[-400:]),
        )
    lacks(output + got.stderr, "rror", what="its output")
    total = sum(shop.at(place).ask("DBSIZE") for place in EVERY)
    check(total > 0, "it left keys")


@test(stock=True)
def following_moved_ends_at_the_first_hop(shop):
    clients = {shop.endpoint(place)[1]: shop.at(place) for place in EVERY}
    for n in range(300):
        key, port = "hop:%d" % n, shop.endpoint(n % 3)[1]
        got = clients[port].raw("SET", key, n)
        if got.startswith(b"-MOVED"):
            target = int(got.rsplit(b":", 1)[1])
            check(target != port, "a redirect to the endpoint that was asked: %r" % got)
            got = clients[target].raw("SET", key, n)
        same(got, OK)
