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


# The map


@test(stock=True)
def cluster_slots_is_well_formed_and_complete(shop):
    reply = shop.at(0).ask("CLUSTER", "SLOTS")
    ranges = topology.from_slots(reply)
    same(
        [(first, last, port) for first, last, (_, _, port) in ranges],
        [(*RANGES[place], shop.endpoint(place)[1]) for place in EVERY],
    )
    for entry in reply:
        for node in entry[2:]:
            same(len(node), 4, "host, port, id, metadata")
            same(node[3], [], "the metadata in RESP2")


@test(stock=True)
def slots_shards_and_nodes_say_the_same_in_both_protocols_at_every_endpoint(shop):
    seen = []
    for place in EVERY:
        for version in ("2", "3"):
            client = shop.at(place)
            client.ask("HELLO", version)
            for read, args in (
                (topology.from_slots, ("CLUSTER", "SLOTS")),
                (topology.from_shards, ("CLUSTER", "SHARDS")),
                (topology.from_nodes, ("CLUSTER", "NODES")),
            ):
                seen.append((read(client.ask(*args)), " ".join(args), place, version))
    for ranges, what, place, version in seen:
        same(
            ranges,
            seen[0][0],
            "%s of node %d in RESP%s, against CLUSTER SLOTS of node 0," % (what, place, version),
        )


@test
def the_map_is_the_same_bytes_at_every_endpoint(shop):
    clients = [shop.at(place) for place in EVERY]
    for version in ("2", "3"):
        for client in clients:
            client.ask("HELLO", version)
        for args in (("CLUSTER", "SLOTS"), ("CLUSTER", "SHARDS")):
            answers = {client.raw(*args) for client in clients}
            same(len(answers), 1, "different answers to %s in RESP%s" % (args, version))


@test(stock=True)
def cluster_nodes_names_the_endpoint_that_was_asked(shop):
    everywhere = []
    for place in EVERY:
        client = shop.at(place)
        lines = topology.nodes_lines(client.ask("CLUSTER", "NODES"))
        same(len(lines), 3, "the number of nodes")
        me = next(line for line in lines if "myself" in line.flags)
        same((me.host, me.port), shop.endpoint(place), "`myself`")
        same(client.ask("CLUSTER", "MYID"), me.id.encode(), "MYID")
        check(all(line.connected for line in lines), "all are connected")
        check(all("fail" not in line.flags for line in lines), "none is failed")
        everywhere.append(sorted((line.who, tuple(line.ranges)) for line in lines))
    same(everywhere[1], everywhere[0])
    same(everywhere[2], everywhere[0])


@test(stock=True)
def cluster_info_says_that_all_is_well(shop):
    for place in EVERY:
        text = shop.at(place).ask("CLUSTER", "INFO")
        check(text.startswith(b"cluster_state:ok\r\n"), "CLUSTER INFO begins with cluster_state:ok")
        fields = topology.info_fields(text)
        for field, wanted in (
            ("cluster_slots_assigned", "16384"),
            ("cluster_slots_ok", "16384"),
            ("cluster_slots_pfail", "0"),
            ("cluster_slots_fail", "0"),
            ("cluster_known_nodes", "3"),
            ("cluster_size", "3"),
        ):
            same(fields[field], wanted, field)
        for field in (
            "cluster_current_epoch",
            "cluster_my_epoch",
            "cluster_stats_messages_sent",
            "cluster_stats_messages_received",
        ):
            check(fields[field].isdigit(), "%s is a number" % field)
    check(shop.at(0).hello3().raw("CLUSTER", "INFO").startswith(b"="), "RESP3: a verbatim string")
    check(shop.at(0).hello3().raw("CLUSTER", "NODES").startswith(b"="), "RESP3: a verbatim string")


@test
def ids_stay_the_same_over_a_restart(fresh):
    shop = fresh()
    before = [shop.at(place).ask("CLUSTER", "MYID") for place in EVERY]
    same(len(set(before)), 3, "different ids")
    same(shop.proxy.end(), None, "the end of the first proxy")
    shop.start()
    same([shop.at(place).ask("CLUSTER", "MYID") for place in EVERY], before)


@test
def myshardid_is_answered_and_differs_per_node(shop):
    ids = [shop.at(place).ask("CLUSTER", "MYSHARDID") for place in EVERY]
    for text in ids:
        topology.good_id(text.decode())
    same(len(set(ids)), 3, "different shard ids")


@test(stock=True)
def the_smaller_cluster_commands_are_answered(shop):
    client = shop.at(0)
    mine = client.ask("CLUSTER", "MYID")
    same(client.raw("CLUSTER", "COUNT-FAILURE-REPORTS", mine), b":0\r\n")
    error(client.raw("CLUSTER", "COUNT-FAILURE-REPORTS", "nosuch"), "ERR Unknown node nosuch")
    check(isinstance(client.ask("CLUSTER", "LINKS"), list), "CLUSTER LINKS is a list")
    check(len(client.ask("CLUSTER", "HELP")) > 10, "CLUSTER HELP has lines")
    same(client.raw("CLUSTER", "REPLICAS", mine), b"*0\r\n")
    same(client.raw("CLUSTER", "SLAVES", mine), b"*0\r\n")
    same(
        client.raw("CLUSTER", "NOSUCH"), b"-ERR unknown subcommand 'NOSUCH'. Try CLUSTER HELP.\r\n"
    )
    same(client.raw("CLUSTER"), b"-ERR wrong number of arguments for 'cluster' command\r\n")
    same(
        client.raw("CLUSTER", "SLOTS", "x"),
        b"-ERR wrong number of arguments for 'cluster|slots' command\r\n",
    )
    same(
        client.raw("CLUSTER", "KEYSLOT"),
        b"-ERR wrong number of arguments for 'cluster|keyslot' command\r\n",
    )
    same(client.raw("cluster", "keyslot", "foo"), b":12182\r\n")


@test(stock=True)
def keys_in_a_slot_are_counted_and_listed(shop):
    key = key_on(0)
    slot = slot_of(key)
    names = ["{%s}%d" % (key, n) for n in range(20)]
    client = shop.at(0)
    same(client.raw("CLUSTER", "COUNTKEYSINSLOT", slot), b":0\r\n")
    same(client.raw("CLUSTER", "GETKEYSINSLOT", slot, 10), b"*0\r\n")
    for name in names:
        client.ask("SET", name, 1)
    client.ask(
        "MSET", *[part for n in range(50) for part in ("{%s}x%d" % (key_on(0, skip=1), n), 1)]
    )
    same(client.raw("CLUSTER", "COUNTKEYSINSLOT", slot), b":20\r\n")
    same(
        sorted(client.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)),
        sorted(name.encode() for name in names),
    )
    same(len(client.ask("CLUSTER", "GETKEYSINSLOT", slot, 7)), 7)
    same(client.raw("CLUSTER", "COUNTKEYSINSLOT", 16384), b"-ERR Invalid slot\r\n")
    same(client.raw("CLUSTER", "COUNTKEYSINSLOT", -1), b"-ERR Invalid slot\r\n")
    error(client.raw("CLUSTER", "COUNTKEYSINSLOT", "x"), "ERR")
    error(client.raw("CLUSTER", "GETKEYSINSLOT", slot, -1), "ERR")
    same(
        client.pipeline(("CLUSTER", "COUNTKEYSINSLOT", slot), ("PING",), ("SET", key, 1)),
        [b":20\r\n", PONG, OK],
    )


@test
def counting_the_keys_of_a_slot_is_refused_on_a_huge_node(fresh):
    shop = fresh(config={"limits": {"slot_scan_keys": 50}})
    client = shop.at(0)
    for key in keys_on(0, 100):
        client.ask("SET", key, 1)
    error(client.raw("CLUSTER", "COUNTKEYSINSLOT", 100), "ERR", "slot_scan_keys")
    error(client.raw("CLUSTER", "GETKEYSINSLOT", 100, 10), "ERR", "slot_scan_keys")
    same(client.raw("PING"), PONG)


@test
def the_writing_half_of_cluster_is_refused_with_the_way_to_do_it(shop):
    client = shop.at(0)
    before = client.raw("CLUSTER", "SLOTS")
    for args in (
        ("ADDSLOTS", 1),
        ("ADDSLOTSRANGE", 1, 2),
        ("DELSLOTS", 1),
        ("DELSLOTSRANGE", 1, 2),
        ("FLUSHSLOTS",),
        ("SETSLOT", 1, "NODE", "f" * 40),
        ("MEET", "127.0.0.1", 1),
        ("FORGET", "f" * 40),
        ("FAILOVER",),
        ("REPLICATE", "f" * 40),
        ("RESET",),
        ("RESET", "HARD"),
        ("BUMPEPOCH",),
        ("SAVECONFIG",),
        ("SET-CONFIG-EPOCH", 1),
    ):
        got = client.raw("CLUSTER", *args)
        error(got, "ERR", "slotctl", what="the reply to CLUSTER %s" % (args,))
    same(client.raw("CLUSTER", "SLOTS"), before)


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
