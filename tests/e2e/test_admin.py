"""slotctl and the admin port: what an operator asks of a running proxy."""
import json
import os

from harness import processes, resp
from harness.check import check, error, eventually, has, lacks, same
from harness.proxy import find_slotctl
from harness.resp import bulk
from harness.shop import NAMES, RANGES, as_json, key_on, keys_on
from harness.tests import test
from harness.wire import Wire

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"


def told(got, *parts):
    same(got.returncode, 0, "slotctl's exit status: " + got.stdout + got.stderr)
    has(got.stdout, *parts, what="what slotctl says")
    return got.stdout


@test
def status_shows_the_cluster_at_a_glance(shop):
    client = shop.client()
    client.ask("MSET", *[part for key in keys_on(0, 3) + keys_on(1, 2) for part in (key, 1)])
    told(
        shop.slotctl("status"), "shop", *NAMES, *["127.0.0.1:%d" % node.port for node in shop.nodes]
    )
    status = as_json(shop.slotctl("status", "--json"))
    same((status["cluster"], status["epoch"]), ("shop", 1))
    check(
        status["clients"] >= 1 and status["uptime_seconds"] >= 0 and status["commands"] >= 1,
        "totals: %r" % status,
    )
    same(len(status["workers"]), 2, "the number of workers")
    same(status["drift"], [])
    same([node["name"] for node in status["nodes"]], list(NAMES))
    for place, node in enumerate(status["nodes"]):
        first, last = RANGES[place]
        same(
            (node["state"], node["slots"], node["address"]),
            ("up", last - first + 1, "127.0.0.1:%d" % shop.node(place).port),
        )
        same(node["endpoint"], "127.0.0.1:%d" % shop.endpoint(place)[1])
        has(node["version"], "7.0.15")
    eventually(
        lambda: [node["keys"] for node in as_json(shop.slotctl("status", "--json"))["nodes"]]
        == [3, 2, 0],
        6,
        "the keys of the nodes are known",
    )


@test
def nodes_and_slots_say_who_owns_what(shop):
    told(shop.slotctl("nodes"), *NAMES)
    nodes = as_json(shop.slotctl("nodes", "--json"))["nodes"]
    same(
        [node["id"].encode() for node in nodes],
        [shop.at(place).ask("CLUSTER", "MYID") for place in (0, 1, 2)],
    )
    told(shop.slotctl("slots"), *NAMES, "0-5460", "5461-10922", "10923-16383")
    owners = as_json(shop.slotctl("slots", "--json"))["owners"]
    same(
        {owner["node"]: owner["ranges"] for owner in owners},
        {name: ["%d-%d" % r] for name, r in zip(NAMES, RANGES)},
    )


@test
def explain_tells_where_a_key_lives_and_why(shop):
    told(shop.slotctl("explain", C), "12182", "inv-gir")
    told(shop.slotctl("explain", "cart:{42}"), "42", "8000", "inv-vlc")
    keys = as_json(shop.slotctl("explain", "--json", A, B, C, "cart:{42}"))["keys"]
    same(
        [(key["key"], key["slot"], key["node"]) for key in keys],
        [
            (A, 5061, "inv-bcn"),
            (B, 7365, "inv-vlc"),
            (C, 12182, "inv-gir"),
            ("cart:{42}", 8000, "inv-vlc"),
        ],
    )
    same(keys[3]["hashed_part"], "42")


@test
def explain_tells_what_becomes_of_a_command(shop):
    def explained(*args):
        return as_json(shop.slotctl("explain", "--json", "--command", *args))

    report = explained("MGET", A, C)
    same(report["outcome"], "split")
    same(
        [(part["node"], part["keys"]) for part in report["parts"]],
        [("inv-bcn", [A]), ("inv-gir", [C])],
    )
    same(explained("GET", A)["outcome"], "one_node")
    same(explained("SINTER", A, C)["outcome"], "cross_slot")
    same(explained("DBSIZE")["outcome"], "all_nodes")
    same(explained("PING")["outcome"], "local")
    same(explained("SHUTDOWN")["outcome"], "refused")
    same(
        [
            key["slot"]
            for key in explained("XREADGROUP", "GROUP", "streams", "c", "STREAMS", "x", ">")["keys"]
        ],
        [16287],
    )
    for args in (("MGET", A, C), ("SINTER", A, C), ("SHUTDOWN",)):
        check(explained(*args)["why"], "there is a reason for %s" % (args,))
    told(shop.slotctl("explain", "--command", "MGET", A, C), "inv-bcn", "inv-gir", "split")


@test
def strays_are_counted_exactly_and_listed(shop):
    for key in keys_on(2, 12, "stray"):
        shop.node(0).ask("SET", key, 1)
    for key in keys_on(0, 8, "home"):
        shop.node(0).ask("SET", key, 1)
    report = as_json(shop.slotctl("strays", "--json"))
    same(
        {node["node"]: node["strays"] for node in report["nodes"]},
        {"inv-bcn": 12, "inv-vlc": 0, "inv-gir": 0},
    )
    same([node["exact"] for node in report["nodes"]], [True] * 3)
    told(shop.slotctl("strays"), "inv-bcn", "12")
    report = as_json(shop.slotctl("strays", "--list", "--json"))
    same(sorted(report["nodes"][0]["names"]), sorted(keys_on(2, 12, "stray")))
    told(shop.slotctl("strays", "--list"), keys_on(2, 1, "stray")[0])


@test
def a_clean_cluster_has_no_strays(shop):
    shop.client().ask("MSET", A, 1, B, 2, C, 3)
    report = as_json(shop.slotctl("strays", "--json"))
    same([node["strays"] for node in report["nodes"]], [0, 0, 0])


@test
def a_node_that_is_down_is_shown_with_its_reason(fresh):
    shop = fresh()
    same(
        shop.slotctl("health").returncode, 0, "the exit status of slotctl health with all nodes up"
    )
    shop.node(2).kill()
    client = shop.client()
    eventually(lambda: client.raw("GET", C).startswith(b"-CLUSTERDOWN"), 5, "the node is down")
    eventually(lambda: "down" in shop.slotctl("status").stdout, 5, "slotctl status says so")
    eventually(
        lambda: "down" in shop.slotctl("status").stdout, 3, "slotctl status shows it as down"
    )
    node = as_json(shop.slotctl("nodes", "--json"))["nodes"][2]
    same(node["state"], "down")
    check(node["reason"], "there is a reason")
    got = shop.slotctl("health")
    check(got.returncode != 0, "slotctl health ended with 0 while a node is down")
    with Wire(shop.admin, "admin") as admin:
        report = json.loads(admin.ask("HEALTH"))
        same(
            (report["health"], report["nodes"], report["nodes_up"], report["slots_served"]),
            ("degraded", 3, 2, 10923),
        )
    shop.node(2).start()
    eventually(lambda: shop.slotctl("health").returncode == 0, 5, "the health is ok again")


@test
def redis_cli_can_talk_to_the_admin_port(shop):
    got = processes.run(["redis-cli", "-s", shop.admin, "PING"])
    same(got.stdout.strip(), "PONG")
    got = processes.run(["redis-cli", "-s", shop.admin, "STATUS"])
    same(json.loads(got.stdout)["cluster"], "shop")
    with Wire(shop.admin, "admin") as admin:
        same(admin.raw("PING"), PONG)
        error(admin.raw("NOSUCH"), "ERR")
        error(admin.raw("SET", "a", 1), "ERR")
        admin.send(b"PING\r\n")
        same(admin.read(), PONG)
        same(json.loads(admin.ask("HEALTH"))["health"], "ok")
        check(isinstance(json.loads(admin.ask("HELP")), dict), "HELP")


@test
def clients_cannot_reach_admin_commands(shop):
    client = shop.client()
    for verb in ("STATUS", "NODES", "SLOTS", "EXPLAIN", "STRAYS", "RELOAD", "HEALTH", "HELP"):
        error(client.raw(verb), "ERR unknown command")


@test
def slotctl_finds_the_proxy_by_its_environment(shop):
    got = shop.slotctl("status", admin=False, env=dict(os.environ, SLOTPROXY_ADMIN=shop.admin))
    told(got, "shop")


@test
def slotctl_says_what_is_wrong_and_what_to_do(shop, binary, folder):
    program = find_slotctl(binary)
    got = processes.run([program, "status", "--admin", folder + "/nosuch.sock"])
    check(got.returncode not in (0, 1), "the exit status without a proxy is %d" % got.returncode)
    has(got.stderr + got.stdout, "nosuch.sock", what="the message")
    for args in ((), ("nosuch",), ("explain",), ("status", "--nosuch")):
        got = processes.run([program, *args])
        check(
            got.returncode not in (0, 1),
            "slotctl %s ended with %d" % (" ".join(args), got.returncode),
        )
    same(processes.run([program, "--help"]).returncode, 0, "slotctl --help")
    same(processes.run([program, "--version"]).returncode, 0, "slotctl --version")


@test
def an_admin_port_over_tcp_wants_its_password(fresh):
    port = processes.free_port()
    shop = fresh(
        config={"listen": {"admin": "127.0.0.1:%d" % port, "admin_password": "opensesame"}}
    )
    shop.admin = "127.0.0.1:%d" % port
    with Wire(("127.0.0.1", port), "admin") as admin:
        same(admin.raw("PING"), PONG)
        error(admin.raw("STATUS"), "NOAUTH")
        error(admin.raw("AUTH", "wrong"), "WRONGPASS")
        error(admin.raw("STATUS"), "NOAUTH")
        same(admin.raw("AUTH", "opensesame"), OK)
        same(json.loads(admin.ask("STATUS"))["cluster"], "shop")
    check(shop.slotctl("status").returncode != 0, "slotctl without the password is refused")
    told(
        shop.slotctl("status", env=dict(os.environ, SLOTPROXY_ADMIN_PASSWORD="opensesame")), "shop"
    )
    lacks(shop.proxy.log(), "opensesame", what="the log")


@test
def answers_are_json_on_one_line_and_plain_text_without_a_terminal(shop):
    for args in (
        ("status",),
        ("nodes",),
        ("slots",),
        ("explain", A),
        ("strays",),
        ("reload",),
        ("health",),
    ):
        got = shop.slotctl(*args, "--json")
        same(got.returncode, 0, "slotctl %s --json: %s" % (" ".join(args), got.stdout + got.stderr))
        check(isinstance(json.loads(got.stdout), dict), "slotctl %s --json is an object" % args[0])
        lacks(shop.slotctl(*args).stdout, "\x1b", what="slotctl %s without a terminal" % args[0])


@test
def keys_of_any_bytes_can_be_explained(shop):
    with Wire(shop.admin, "admin") as admin:
        for key in (b"", b"\0", b"\x00\xff\r\n", "ключ".encode()):
            report = json.loads(admin.ask("EXPLAIN", key))
            same(report["keys"][0]["slot"], resp.slot_of(key), "the slot of %r" % key)


@test
def simulate_needs_no_proxy_and_prints_the_reference_figures(binary):
    nodes = [
        part for name in ("inv-bcn", "inv-vlc", "inv-gir", "inv-lle") for part in ("--node", name)
    ]

    def simulated(*more):
        got = processes.run(
            [
                find_slotctl(binary),
                "simulate",
                "--placement",
                "ring",
                *nodes,
                "--vnodes",
                "150",
                *more,
                "--key-pattern",
                "P-2026-%06d",
                "--keys",
                "100000",
                "--json",
            ],
            timeout=30,
        )
        return as_json(got)["placements"][0]["keys"]

    keys = simulated()
    same(
        keys["per_node"],
        {"inv-bcn": 24275, "inv-gir": 27571, "inv-vlc": 24835, "inv-lle": 23319},
        "the keys per node",
    )
    same(round(keys["deviation_percent"], 2), 6.32, "the deviation")
    same(round(simulated("--add", "inv-tar")["moved_percent"], 2), 19.19, "the keys that move")


@test
def traffic_shows_in_the_figures(shop):
    before = as_json(shop.slotctl("status", "--json"))
    client = shop.client()
    client.pipeline(*[("SET", key_on(n % 3), n) for n in range(300)], ("NOSUCH",))
    after = as_json(shop.slotctl("status", "--json"))
    check(
        after["commands"] - before["commands"] >= 301,
        "commands grew by %d" % (after["commands"] - before["commands"]),
    )
    check(after["errors"] > before["errors"], "an error reply was counted")
    check(
        after["bytes_in"] > before["bytes_in"] and after["bytes_out"] > before["bytes_out"],
        "bytes were counted",
    )
    same(client.raw("GET", key_on(0)), bulk(297))
