"""What is, and what should be: the map that survives, and a file that says otherwise."""
import os
import re

from harness import processes
from harness.check import check, has, lacks, same
from harness.proxy import yaml
from harness.resp import bulk
from harness.servers import RedisServer
from harness.shop import as_json
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.


def owner_port(shop, key):
    """The endpoint that MOVED names for the key, asked of every endpoint."""
    for place in range(len(shop.endpoint_ports)):
        got = shop.at(place).raw("GET", key)
        if got.startswith(b"-MOVED"):
            return int(got.rsplit(b":", 1)[1])
    return None


@test
def the_first_map_is_kept_and_a_file_that_says_otherwise_is_drift(fresh):
    shop = fresh()
    shop.client().raw("MSET", A, 1, B, 2, C, 3)
    same(shop.proxy.end(), None, "the end of the first proxy")
    ranges = ["0-99", "100-199", "200-16383"]
    for node, text in zip(shop.config["nodes"], ranges):
        node["slots"] = text
    shop.write_config()
    shop.start()
    client = shop.client()
    same(client.raw("MGET", A, B, C), b"*3\r\n" + bulk(1) + bulk(2) + bulk(3))
    same(owner_port(shop, A), shop.endpoint(0)[1], "the owner of a slot that the file gives away")
    got = shop.slotctl("status")
    same(got.returncode, 0, "slotctl status: " + got.stderr)
    has(got.stdout.lower(), "drift", what="slotctl status")
    lacks(got.stdout.lower(), "drift: none", "drift from shop.yaml: none", what="slotctl status")
    has(shop.proxy.log().lower(), "drift", what="the log")


@test
def without_drift_status_says_so(fresh):
    shop = fresh()
    same(shop.proxy.end(), None, "the end of the first proxy")
    shop.start()
    same(as_json(shop.slotctl("status", "--json"))["drift"], [])


@test
def a_removed_node_that_owns_slots_serves_on_and_a_new_one_owns_nothing(fresh):
    shop = fresh()
    shop.client().raw("MSET", A, 1, B, 2, C, 3)
    same(shop.proxy.end(), None, "the end of the first proxy")
    extra = RedisServer()
    try:
        removed = shop.config["nodes"].pop(2)
        shop.config["nodes"].append(
            {
                "name": "inv-new",
                "address": "127.0.0.1:%d" % extra.port,
                "endpoint": removed["endpoint"],
            }
        )
        for node in shop.config["nodes"]:
            node.pop("slots", None)
        shop.write_config()
        shop.start()
        same(shop.client().raw("MGET", A, B, C), b"*3\r\n" + bulk(1) + bulk(2) + bulk(3))
        same(
            extra.ask("DBSIZE") - len(extra.ask("KEYS", "__slotproxy:*")), 0, "keys at the new node"
        )
        has(shop.slotctl("status").stdout, "inv-gir", "inv-new", what="slotctl status")
        has(
            " ".join(as_json(shop.slotctl("status", "--json"))["drift"]),
            "inv-gir",
            what="the drift",
        )
    finally:
        extra.end()


@test
def the_state_survives_a_kill(fresh):
    shop = fresh()
    shop.client().raw("MSET", A, 1, B, 2, C, 3)
    shop.proxy.kill()
    for node in shop.config["nodes"]:
        node.pop("slots")
    shop.write_config()
    shop.start()
    same(shop.client().raw("MGET", A, B, C), b"*3\r\n" + bulk(1) + bulk(2) + bulk(3))
    same([owner_port(shop, key) for key in (A, B, C)], shop.endpoint_ports)


@test
def a_damaged_state_stops_the_start_and_is_not_written_over(fresh):
    shop = fresh()
    same(shop.proxy.end(), None, "the end of the first proxy")
    folder = shop.config["state_dir"]
    files = [
        name for name in os.listdir(folder) if os.path.getsize(os.path.join(folder, name)) > 20
    ]
    check(files, "the state has files")
    for name in files:
        with open(os.path.join(folder, name), "r+b") as file:
            file.seek(10)
            file.write(b"\xff\x00garbage")
    damaged = {name: open(os.path.join(folder, name), "rb").read() for name in files}
    got = processes.run([shop.binary, "--config", shop.config_path])
    check(
        got.returncode not in (0, -6, -11),
        "the exit status is %s: %s" % (got.returncode, got.stderr),
    )
    has(got.stdout + got.stderr, folder, what="the message")
    same(
        {name: open(os.path.join(folder, name), "rb").read() for name in files},
        damaged,
        "the files afterwards",
    )


@test
def a_second_daemon_on_the_same_state_is_refused(fresh):
    shop = fresh()
    other = dict(
        shop.config,
        listen={
            "forward": "127.0.0.1:%d" % processes.free_port(),
            "admin": shop.folder + "/other/admin.sock",
        },
    )
    other["nodes"] = [
        dict(node, endpoint="127.0.0.1:%d" % processes.free_port()) for node in shop.config["nodes"]
    ]
    path = os.path.join(shop.folder, "other.yaml")
    with open(path, "w") as file:
        file.write(yaml(other))
    got = processes.run([shop.binary, "--config", path])
    check(got.returncode not in (0, -6, -11), "the exit status is %s" % got.returncode)
    has(got.stdout + got.stderr, shop.config["state_dir"], what="the message")
    same(shop.client().raw("SET", A, 1), OK)


@test
def an_address_in_use_is_said_and_ends_with_2(fresh):
    shop = fresh()
    for taken in ("forward", "endpoint"):
        other = dict(
            shop.config,
            state_dir=os.path.join(shop.folder, "state-" + taken),
            listen={
                "forward": "127.0.0.1:%d"
                % (shop.forward_port if taken == "forward" else processes.free_port()),
                "admin": os.path.join(shop.folder, "other-" + taken, "admin.sock"),
            },
        )
        other["nodes"] = [
            dict(
                node,
                endpoint="127.0.0.1:%d"
                % (
                    shop.endpoint_ports[0]
                    if (taken, place) == ("endpoint", 0)
                    else processes.free_port()
                ),
            )
            for place, node in enumerate(shop.config["nodes"])
        ]
        path = os.path.join(shop.folder, taken + ".yaml")
        with open(path, "w") as file:
            file.write(yaml(other))
        got = processes.run([shop.binary, "--config", path])
        same(
            got.returncode,
            2,
            "the exit status with a taken %s address; it said %r"
            % (taken, got.stdout + got.stderr),
        )
        has(
            (got.stdout + got.stderr).lower(),
            "in use",
            str(shop.forward_port if taken == "forward" else shop.endpoint_ports[0]),
            what="the message",
        )
    same(shop.client().raw("SET", A, 1), OK)


@test
def a_proxy_that_is_killed_leaves_no_connections_that_block_its_successor(fresh):
    shop = fresh()
    shop.client().raw("MSET", A, 1, B, 2, C, 3)
    shop.proxy.kill()
    shop.start()
    same(shop.client().raw("MGET", A, B, C), b"*3\r\n" + bulk(1) + bulk(2) + bulk(3))
    for place in range(3):
        clients = shop.node(place).ask("CLIENT", "LIST").decode()
        names = {
            re.search(r" name=(\S*)", line).group(1)
            for line in clients.splitlines()
            if "name=slotproxy" in line
        }
        check(names, "the proxy's connections carry its name: %r" % clients)
