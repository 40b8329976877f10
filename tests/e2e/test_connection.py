"""First contact with the forward port: what libraries and tools ask before and beside their
commands."""
import time

from harness import resp
from harness.check import check, error, has, lacks, same
from harness.resp import array, as_map, bulk
from harness.shop import key_on
from harness.tests import test
from harness.wire import timed

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.


@test(stock=True)
def hello_answers_what_clients_read(shop):
    client = shop.client()
    for args, version in (((), 2), (("2",), 2), (("3",), 3), ((), 3), (("2", "SETNAME", "me"), 2)):
        reply = client.ask("HELLO", *args)
        check(isinstance(reply, dict) == (version == 3), "RESP%d's shape" % version)
        fields = as_map(reply)
        same(
            list(fields),
            ["server", "version", "proto", "id", "mode", "role", "modules"],
            "the fields",
        )
        same(
            [fields[key] for key in ("server", "proto", "mode", "role", "modules")],
            [b"redis", version, b"standalone", b"master", []],
        )
        same(fields["id"], client.ask("CLIENT", "ID"))
        has(fields["version"], "7.0.15")
    same(client.raw("CLIENT", "GETNAME"), bulk("me"))
    same(client.raw("HELLO", "4"), b"-NOPROTO unsupported protocol version\r\n")
    same(client.raw("HELLO", "x"), b"-ERR Protocol version is not an integer or out of range\r\n")
    check(
        client.raw("HELLO", "2", "AUTH", "default", "any").startswith(b"*14\r\n"),
        "no password is set: any will do",
    )
    error(client.raw("HELLO", "3", "AUTH", "nobody", "any"), "WRONGPASS")
    error(client.raw("HELLO", "3", "SETNAME", "a b"), "ERR Client names cannot contain spaces")
    same(as_map(client.ask("HELLO"))["proto"], 2, "the version after failed HELLOs")


@test(stock=True)
def info_says_what_libraries_look_for(shop):
    client = shop.client()
    text = client.ask("INFO").decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    for field in (
        "redis_version",
        "redis_mode",
        "role",
        "loading",
        "connected_slaves",
        "master_replid",
        "master_repl_offset",
        "run_id",
        "tcp_port",
        "uptime_in_seconds",
        "connected_clients",
        "used_memory",
        "maxmemory_policy",
        "cluster_enabled",
        "total_commands_processed",
        "process_id",
    ):
        check(field in fields, "INFO lacks %s" % field)
    same(
        [
            fields[key]
            for key in ("redis_mode", "role", "loading", "cluster_enabled", "connected_slaves")
        ],
        ["standalone", "master", "0", "0", "0"],
    )
    has(fields["redis_version"], "7.0.15")
    same(fields["tcp_port"], str(shop.forward[1]))
    for line in text.split("\r\n"):
        check(not line or line.startswith("# ") or ":" in line, "a line of INFO is %r" % line)


@test(stock=True)
def a_named_section_of_info_comes_alone(shop):
    client = shop.client()
    client.ask("MSET", A, 1, B, 2, C, 3)
    for section, mark, field in (
        ("server", "# Server", "redis_version"),
        ("replication", "# Replication", "role:master"),
        ("clients", "# Clients", "connected_clients"),
        ("memory", "# Memory", "used_memory"),
        ("keyspace", "# Keyspace", "db0:keys=3"),
        ("cluster", "# Cluster", "cluster_enabled:0"),
        ("persistence", "# Persistence", "loading:0"),
        ("stats", "# Stats", "total_commands_processed"),
        ("cpu", "# CPU", "used_cpu_user"),
        ("KEYSPACE", "# Keyspace", "db0:keys=3"),
    ):
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


@test
def the_totals_of_info_are_those_of_all_workers(fresh):
    shop = fresh(workers=4)
    asking = shop.client("client that asks")

    def totals():
        text = asking.ask("INFO", "stats").decode()
        fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        return [
            int(fields[name])
            for name in (
                "total_connections_received",
                "total_commands_processed",
                "total_error_replies",
            )
        ]

    before = totals()
    for n in range(20):
        with shop.client("client %d" % n) as client:
            client.pipeline(("PING",), ("GET", A), ("NOSUCH",))
    same(
        [now - then for now, then in zip(totals(), before)],
        [20, 61, 20],
        "the connections, commands and errors that INFO has counted",
    )


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
        has(
            client.ask("CLIENT", "INFO"),
            "id=%d " % number,
            "name=%s " % name,
            "addr=127.0.0.1:%d " % port,
            "resp=2",
            "db=0 ",
        )
    listed = one.ask("CLIENT", "LIST").decode()
    same(
        len(
            [line for line in listed.split("\n") if "name=first " in line or "name=second " in line]
        ),
        2,
    )
    check(listed.endswith("\n"), "the list ends with a line end")
    has(one.ask("CLIENT", "LIST", "ID", second), "name=second ")
    lacks(one.ask("CLIENT", "LIST", "ID", second), "name=first ")
    same(one.raw("CLIENT", "NO-EVICT", "on"), OK)
    same(one.raw("CLIENT", "SETNAME", ""), OK)
    same(one.raw("CLIENT", "GETNAME"), NULL)


@test
def newer_client_commands_are_answered_too(shop):
    client = shop.client()
    same(
        client.pipeline(
            ("CLIENT", "SETINFO", "LIB-NAME", "tester"),
            ("CLIENT", "SETINFO", "LIB-VER", "1.0"),
            ("CLIENT", "NO-TOUCH", "on"),
            ("PING",),
        ),
        [OK, OK, OK, PONG],
    )
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
            same(
                killer.raw("CLIENT", "KILL", way.upper(), number if way == "id" else address),
                b":1\r\n",
            )
        same(victim.read_until_closed(), b"")
    same(killer.raw("CLIENT", "KILL", "ID", 999999999), b":0\r\n")
    same(killer.raw("CLIENT", "KILL", "127.0.0.1:1"), b"-ERR No such client\r\n")
    same(killer.raw("PING"), PONG)


@test(stock=True)
def client_reply_off_and_skip_leave_replies_out(shop):
    client = shop.client()
    client.send(
        b"".join(
            resp.request(*args)
            for args in (
                ("CLIENT", "REPLY", "SKIP"),
                ("SET", A, 1),
                ("GET", A),
                ("CLIENT", "REPLY", "OFF"),
                ("SET", B, 2),
                ("MSET", A, 3, C, 4),
                ("NOSUCH",),
                ("PING",),
                ("CLIENT", "REPLY", "ON"),
                ("MGET", A, B, C),
            )
        )
    )
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
    check(
        any(sub[0] == b"config|get" for sub in entries["config"][9]), "CONFIG has its subcommands"
    )
    check(
        set(entries) <= {name.decode() for name in client.ask("COMMAND", "LIST")},
        "COMMAND LIST names them all",
    )
    got = client.ask("COMMAND", "INFO", "get", "nosuch")
    same((got[0][0], got[1]), (b"get", None))
    documents = as_map(client.ask("COMMAND", "DOCS", "get", "nosuch"))
    same(list(documents), ["get"])
    has(as_map(documents["get"]), "summary", "since", "group", what="COMMAND DOCS get")
    same(client.ask("COMMAND", "GETKEYS", "mset", "a", 1, "b", 2), [b"a", b"b"])
    check(
        len(as_map(client.ask("COMMAND", "DOCS"))) >= count,
        "COMMAND DOCS without names tells of all",
    )


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
    for args in (
        ("CONFIG", "SET", "maxmemory", "1mb"),
        ("CONFIG", "SET", "requirepass", "x"),
        ("CONFIG", "REWRITE"),
        ("CONFIG", "RESETSTAT"),
    ):
        told = "one server" if args[1] == "REWRITE" else "allow_config: true"
        error(client.raw(*args), "ERR", told, what="the reply to %s" % (args,))
    for place in (0, 1, 2):
        same(shop.node(place).ask("CONFIG", "GET", "maxmemory"), [b"maxmemory", b"0"])


@test
def what_an_operator_does_is_refused_at_once_and_harms_nothing(shop):
    client = shop.client()
    for args in (
        ("SHUTDOWN",),
        ("SHUTDOWN", "NOSAVE"),
        ("REPLICAOF", "NO", "ONE"),
        ("SLAVEOF", "127.0.0.1", 1),
        ("SYNC",),
        ("PSYNC", "?", -1),
        ("REPLCONF", "x", "y"),
        ("FAILOVER",),
        ("DEBUG", "SLEEP", 3),
        ("DEBUG", "SEGFAULT"),
        ("MIGRATE", "127.0.0.1", 1, "k", 0, 100),
        ("ACL", "SETUSER", "x"),
        ("MODULE", "LOAD", "/x.so"),
    ):
        got, took = timed(lambda args=args: client.raw(*args))
        error(got, "", what="the reply to %s" % (args,))
        check(took < 0.5, "%s took %.3f s" % (args, took))
    same(
        client.pipeline(("PING",), ("SET", A, 1), ("SET", B, 1), ("SET", C, 1)), [PONG, OK, OK, OK]
    )
    for place in (0, 1, 2):
        same(shop.node(place).info("replication")["role"], "master")


@test(stock=True)
def it_looks_like_a_standalone_server_to_cluster_clients(shop):
    client = shop.client()
    disabled = b"-ERR This instance has cluster support disabled\r\n"
    for args in (
        ("INFO",),
        ("SLOTS",),
        ("NODES",),
        ("SHARDS",),
        ("MYID",),
        ("KEYSLOT", "a"),
        ("HELP",),
    ):
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
    entry = b"*10\r\n$8\r\nshop.get\r\n:2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n"

    def with_one_more(args, ask):
        reply = ask()
        if len(args) > 1 or reply[:1] != b"*":
            return reply
        head, rest = reply.split(b"\r\n", 1)
        return b"*%d\r\n" % (int(head[1:]) + 1) + entry + rest

    shop = fresh(relays=(0, 1, 2), start=False)
    for relay in shop.relays.values():
        relay.rules.append((lambda args: args[0].upper() == b"COMMAND", with_one_more))
        relay.rules.append(
            (lambda args: args[0].upper() == b"SHOP.GET", lambda args, ask: bulk(b"got " + args[1]))
        )
    shop.start()
    client = shop.client()
    for place in (0, 1, 2):
        key = key_on(place)
        same(client.raw("SHOP.GET", key), bulk("got " + key))
        check(
            [b"SHOP.GET", key.encode()] in shop.relays[place].seen,
            "%s went to node %d" % (key, place),
        )
    same(client.raw("SHOP.GET"), b"-ERR wrong number of arguments for 'shop.get' command\r\n")


@test
def slow_logs_and_latencies_are_those_of_all_nodes_or_of_the_endpoint_s(fresh):
    shop = fresh()
    client, resp3 = shop.client(), shop.client("RESP3").hello3()
    for place, key in enumerate((A, B, C)):
        node = shop.node(place)
        for _ in range(place + 1):
            client.ask("APPEND", key, place)
        node.ask("CONFIG", "SET", "slowlog-log-slower-than", 0)
        client.ask("GETDEL", key)
        node.ask("CONFIG", "SET", "slowlog-log-slower-than", -1)
    asked = [entry[3] for entry in client.ask("SLOWLOG", "GET", -1) if entry[3][0] == b"GETDEL"]
    same(sorted(asked), sorted([b"GETDEL", key.encode()] for key in (A, B, C)), "what was slow")
    ids = [entry[0] for entry in client.ask("SLOWLOG", "GET", "-1")]
    same((len(ids), len(set(ids))), (client.ask("SLOWLOG", "LEN"),) * 2, "entries, and different ids")
    same(len(client.ask("SLOWLOG", "GET", 2)), 2)
    check([b"GETDEL", C.encode()] not in [entry[3] for entry in shop.at(0).ask("SLOWLOG", "GET", -1)], "an endpoint shows its own node")
    error(client.raw("SLOWLOG", "GET", -2), "ERR count should be greater than or equal to -1")
    same(client.raw("SLOWLOG", "RESET"), OK)
    same([shop.node(place).ask("SLOWLOG", "LEN") for place in range(3)], [0, 0, 0])

    def calls(wire, *names):
        histograms = as_map(wire.ask("LATENCY", "HISTOGRAM", *names))
        return {name: as_map(histogram)["calls"] for name, histogram in histograms.items()}

    same(calls(client, "append", "getdel", "nosuch"), {"append": 6, "getdel": 3})
    same(calls(resp3, "append"), {"append": 6})
    same(calls(shop.at(1), "append"), {"append": 2})
    shop.node(2).ask("CONFIG", "SET", "latency-monitor-threshold", 1)
    client.ask("EVAL", "for i = 1, 300000 do redis.call('EXISTS', KEYS[1]) end", 1, C)
    events = {event[0]: event for event in client.ask("LATENCY", "LATEST")}
    check(events[b"command"][3] >= 1, "the longest command: %r" % events)
    check(client.ask("LATENCY", "HISTORY", "command"), "its history")
    has(client.ask("LATENCY", "DOCTOR"), "Node " + shop.name(2))
    has(client.ask("LATENCY", "GRAPH", "command"), "Node " + shop.name(2))
    check(client.ask("LATENCY", "RESET") >= 1, "events forgotten")
    same(client.ask("LATENCY", "LATEST"), [])
    error(client.raw("LATENCY", "GRAPH", "command"), "ERR No samples available for event 'command'")


@test
def with_allow_config_settings_go_to_all_nodes_and_are_theirs(fresh):
    shop = fresh(config={"allow_config": True})
    client = shop.client()
    name = "hash-max-listpack-entries"
    same(client.raw("CONFIG", "SET", name, "77", "maxmemory", "100mb"), b"+OK\r\n")
    for place in range(3):
        same(shop.node(place).ask("CONFIG", "GET", name), [name.encode(), b"77"])
    same(client.ask("CONFIG", "GET", name), [name.encode(), b"77"])
    same(client.ask("CONFIG", "GET", "maxmemory"), [b"maxmemory", b"104857600"])
    same(client.ask("CONFIG", "GET", "port"), [b"port", b"%d" % shop.forward[1]])
    check(len(as_map(client.hello3().ask("CONFIG", "GET", "*"))) > 100, "all settings of a node")
    for place in range(3):
        shop.node(place).ask("CONFIG", "SET", "masterauth", "of the nodes alone")
    for wire in (client, shop.client(), shop.at(1)):
        for pattern in ("masterauth", "MASTERAUTH", "*auth", "requirepass", "tls-key-file-pass"):
            check(b"alone" not in wire.raw("CONFIG", "GET", pattern) and not wire.ask("CONFIG", "GET", pattern), "no secret for %s" % pattern)
        check(b"of the nodes alone" not in wire.raw("CONFIG", "GET", "*"), "no secret among all settings")
    error(client.raw("CONFIG", "SET", "nosuchname", "1"), "ERR Unknown option")
    error(client.raw("CONFIG", "SET", "maxmemory", "many"), "ERR CONFIG SET failed")
    error(client.raw("CONFIG", "SET", "requirepass", "x"), "ERR", "cut the proxy off")
    # At an endpoint it is the node's own.
    same(shop.at(1).raw("CONFIG", "SET", name, "88"), b"+OK\r\n")
    same([shop.node(place).ask("CONFIG", "GET", name)[1] for place in range(3)], [b"77", b"88", b"77"])
    client.raw("GET", "nosuchkey")
    same(client.raw("CONFIG", "RESETSTAT"), b"+OK\r\n")
    for place in range(3):
        same(shop.node(place).info("stats")["keyspace_misses"], "0")
