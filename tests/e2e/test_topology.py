"""The map at the endpoints: CLUSTER SLOTS, SHARDS, NODES and the rest, consistent everywhere."""
import topology

from harness.check import check, error, same
from harness.resp import slot_of
from harness.shop import RANGES, key_on, keys_on
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
EVERY = (0, 1, 2)


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
