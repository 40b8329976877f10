"""Nodes that die, stop, lie or stammer: whose slots suffer, what they are told, and that nobody
reads another's reply."""
import random
import time

from downtime import UNKNOWN, down, of_downtime, wait_back, wait_down

from harness.check import check, eventually, error, same
from harness.load import Crowd
from harness.relay import Cut
from harness.resp import array, bulk, request
from harness.servers import RedisServer
from harness.shop import keys_on
from harness.tests import test
from harness.wire import timed

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"


# A node that is gone


@test
def a_dead_node_s_slots_answer_at_once_and_the_others_go_on(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("MSET", A, 1, B, 2, C, 3)
    shop.node(2).ask("SAVE")
    with Crowd(shop.forward, keys_on(0, 5, "w") + keys_on(1, 5, "w")) as crowd:
        shop.node(2).kill()
        wait_down(client, C)
        for args in (
            ("GET", C),
            ("SET", C, "lost"),
            ("INCR", C),
            ("EVAL", "return 1", 1, C),
            ("DEL", C),
            ("EXISTS", C),
        ):
            reply, took = timed(lambda args=args: client.raw(*args))
            down(reply, shop, 2, C)
            check(took < 0.2, "%s took %.3f s although the node is known to be down" % (args, took))
        same(client.pipeline(("GET", A), ("GET", C), ("GET", B))[::2], [bulk(1), bulk(2)])
        same(client.raw("MGET", A, B), array(bulk(1), bulk(2)))
        down(client.raw("MGET", A, C, B), shop, 2, C)
        crowd.wait_for(500)
        for place in (0, 1):
            same(shop.node(place).ask("EXISTS", C), 0, "the dead node's key at node %d" % place)
        shop.node(2).start()
        wait_back(client, C, bulk(3))
        crowd.wait_for(500)
        crowd.verdict()
    same(client.raw("MGET", A, C, B), array(bulk(1), bulk(3), bulk(2)))


@test
def a_node_that_is_not_there_at_the_start_does_not_stop_the_start(fresh):
    shop = fresh(start=False)
    shop.node(1).kill()
    shop.start(wait_nodes=False)
    client = shop.client()
    eventually(
        lambda: client.raw("SET", A, 1) == OK and client.raw("SET", C, 3) == OK,
        5,
        "the other nodes serve",
    )
    wait_down(client, B)
    down(client.raw("GET", B), shop, 1, B)
    down(shop.at(1).raw("GET", B), shop, 1, B)
    shop.node(1).start()
    wait_back(client, B, NULL)
    same(client.raw("SET", B, 2), OK)


@test
def a_name_that_does_not_resolve_costs_only_its_own_slots(fresh):
    def unknown_host(config):
        config["nodes"][1]["address"] = "no-such-host.invalid:7002"

    shop = fresh(start=False, edit=unknown_host)
    shop.start(wait_nodes=False)
    client = shop.client()
    eventually(
        lambda: client.raw("SET", A, 1) == OK and client.raw("SET", C, 3) == OK,
        5,
        "the other nodes serve",
    )
    wait_down(client, B)
    down(client.raw("GET", B), shop, 1, B)


@test
def a_node_by_name_is_served(fresh):
    def by_name(config):
        for node in config["nodes"]:
            node["address"] = "localhost:%s" % node["address"].rsplit(":", 1)[1]

    shop = fresh(edit=by_name)
    same(shop.client().raw("MSET", A, 1, B, 2, C, 3), OK)


@test
def a_node_that_lost_its_data_serves_again(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("SET", C, 3)
    shop.node(2).restart()  # Nothing was saved: an ordinary cache server after a crash.
    eventually(lambda: client.raw("GET", C) == NULL, 3, "the emptied node serves")
    same(client.raw("SET", C, 4), OK)


@test
def requests_that_were_under_way_at_a_kill_end_with_outcome_unknown(fresh):
    shop = fresh(config={"timeouts": {"node_silent": "5s"}})
    clients = [shop.client("client %d" % n) for n in range(4)]
    for (
        client
    ) in clients:  # Every worker has its connection to the node: what it is asked next is sent.
        client.raw("GET", C)
    for client in clients:
        client.ask("GET", C)  # Its connection to the node is there.
    shop.node(2).stop()
    for n, client in enumerate(clients):
        client.send(request("ECHO", n) + request("INCR", C) + request("GET", A) + request("GET", C))
        same(client.read(), bulk(n))
    shop.node(2).kill()
    for n, client in enumerate(clients):
        got = client.read_many(3)
        error(got[0], "", UNKNOWN.decode(), shop.name(2), what="the reply to INCR")
        same(got[1], NULL)
        check(of_downtime(got[2]), "the reply to GET is %r" % got[2])
        same(
            client.raw("ECHO", "after %d" % n),
            bulk("after %d" % n),
            "the next reply (nothing was answered twice)",
        )
        check(client.silent(0.02), "nothing else arrives")


@test
def a_counter_never_counts_twice_when_a_node_dies(fresh):
    shop = fresh(node_args=("--appendonly", "yes", "--appendfsync", "always"))
    client = shop.client(timeout=10)
    sure, unsure = 0, 0
    for _ in range(4):
        client.send(b"".join(request("INCR", C) for _ in range(3000)))
        client.read()
        shop.node(2).kill()
        got = client.read_many(2999)
        sure += 1 + sum(reply.startswith(b":") for reply in got)
        unsure += sum(UNKNOWN in reply for reply in got)
        for reply in got:
            check(reply[:1] == b":" or of_downtime(reply), "a reply is %r" % reply)
        shop.node(2).start()
        eventually(lambda: client.raw("GET", C).startswith(b"$"), 10, "the node is back")
    total = int(client.ask("GET", C))
    check(
        sure <= total <= sure + unsure,
        "acknowledged %d, unsure %d, counted %d" % (sure, unsure, total),
    )


@test
def a_restarted_node_is_not_stormed(fresh):
    shop = fresh()
    clients = [shop.client("client %d" % n) for n in range(100)]
    for client in clients:
        client.ask("SET", C, 1)
    shop.node(2).kill()
    for client in clients:
        client.raw("GET", C)
    shop.node(2).start()
    # Each worker finds out by itself, when its own back-off is over.
    eventually(
        lambda: all(client.raw("GET", C) == NULL for client in clients), 3, "the node is back for all"
    )
    for client in clients:
        same(client.raw("GET", C), NULL)
    count = int(shop.node(2).info("stats")["total_connections_received"])
    check(count < 40, "100 clients made the proxy open %d connections" % count)


@test
def a_node_that_hangs_up_at_once_is_tried_with_back_off(fresh):
    shop = fresh(relays=(2,))
    relay, client = shop.relays[2], shop.client()

    def hang_up(args, ask):
        raise Cut()

    relay.on_any(hang_up)
    relay.cut()
    wait_down(client, C)
    before = relay.opened
    began = time.monotonic()
    while time.monotonic() - began < 2.0:
        check(client.raw("GET", C)[:1] == b"-", "the node cannot have answered")
        time.sleep(0.005)
    tried = relay.opened - before
    check(1 <= tried < 60, "%d connections within two seconds" % tried)
    relay.rules.clear()
    wait_back(client, C, NULL)


# A node that is there and silent


@test
def a_stopped_node_is_found_out_and_used_again_when_it_goes_on(fresh):
    shop = fresh()
    client, other = shop.client(), shop.client("other client")
    client.ask("MSET", A, 1, C, 3)
    with Crowd(shop.forward, keys_on(0, 5, "w") + keys_on(1, 5, "w")) as crowd:
        shop.node(2).stop()
        try:
            reply, took = timed(lambda: client.raw("GET", C))
            check(of_downtime(reply), "the reply of a stopped node is %r" % reply)
            check(took < 3, "it took %.1f s with node_silent at 0.7 s" % took)
            wait_down(other, C)
            down(other.raw("SET", C, "lost"), shop, 2, C)
            same(other.raw("GET", A), bulk(1))
            crowd.wait_for(500)
        finally:
            shop.node(2).go_on()
        wait_back(client, C, bulk(3))
        crowd.verdict()


@test
def a_late_reply_of_a_stopped_node_reaches_nobody(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("GET", C)  # Its connection to the node is there.
    shop.node(2).stop()
    client.send(request("EVAL", "return 'late'", 1, C))
    eventually(
        lambda: shop.client().raw("GET", C).startswith(b"-CLUSTERDOWN"), 5, "the node is down"
    )
    shop.node(2).go_on()
    error(client.read(), "", UNKNOWN.decode(), shop.name(2))
    for n in range(50):
        mine = "mine%d" % n
        got = client.pipeline(("ECHO", mine), ("GET", A))
        same(got, [bulk(mine), NULL])
    eventually(lambda: client.raw("SET", C, "x") == OK, 2, "the node is back")
    same(client.raw("GET", C), bulk("x"))


@test
def a_host_that_lost_its_power_is_given_up(fresh):
    shop = fresh(relays=(1,))
    client = shop.client()
    client.ask("MSET", A, 1, B, 2)
    shop.relays[1].swallow = True
    reply, took = timed(lambda: client.raw("GET", B))
    check(of_downtime(reply), "the reply is %r" % reply)
    check(took < 3, "it took %.1f s with node_silent at 0.7 s" % took)
    wait_down(client, B)
    same(client.raw("GET", A), bulk(1))
    shop.relays[1].swallow = False
    wait_back(client, B, bulk(2))


@test
def half_a_reply_and_then_silence_ends_as_unknown(fresh):
    shop = fresh(relays=(2,))
    relay, client = shop.relays[2], shop.client()
    relay.on("GET", C, b"$100\r\nthe first half")
    client.send(request("GET", C))
    eventually(lambda: relay.seen, 3, "the request reached the node")
    relay.swallow = True  # The half reply is out; from here on the node says nothing to anybody.
    reply, took = timed(client.read)
    error(reply, "", UNKNOWN.decode(), shop.name(2))
    check(took < 4, "it took %.1f s" % took)
    relay.rules.clear()
    relay.swallow = False
    wait_back(client, C, NULL, seconds=3)


# A node that is busy or loads


@test
def a_node_that_loads_says_so_and_is_not_down(fresh):
    shop = fresh()
    client = shop.client()
    for start in range(0, 3000, 500):
        client.pipeline(
            *[("SET", "{%s}%d" % (C, n), "x" * 1000) for n in range(start, start + 500)]
        )
    client.ask("SET", C, 3)
    shop.node(2).ask("SAVE")
    shop.node(2).kill()
    wait_down(client, C)
    # About two seconds of loading, during which it answers now and then.
    shop.node(2).start("--key-load-delay", "600", "--loading-process-events-interval-bytes", "4096")
    eventually(
        lambda: client.raw("GET", C).startswith(b"-LOADING"),
        3,
        "the node's own -LOADING comes through",
    )
    same(client.raw("SET", A, 1), OK)
    eventually(lambda: client.raw("GET", C) == bulk(3), 15, "it serves once it has loaded")


def start_endless_script(shop, client):
    """On the third node; returns once that node answers BUSY."""
    client.send(request("EVAL", "while true do end", 1, C))
    eventually(lambda: str(shop.node(2).ask("GET", C)).startswith("BUSY"), 3, "the node is busy")


@test
def a_node_with_a_long_script_is_busy_and_not_down(fresh):
    shop = fresh(node_args=("--busy-reply-threshold", "200"))
    client = shop.client("client with the script", timeout=10)
    others = [shop.client("other client %d" % n, timeout=10) for n in range(6)]
    start_endless_script(shop, client)
    for other in others:
        other.send(request("GET", C))
    calm = shop.client("client of another node")
    time_up = time.monotonic() + 2.0  # Well beyond node_silent: 0.7 s.
    while time.monotonic() < time_up:
        same(calm.raw("SET", A, 1), OK)
    same(shop.node(2).ask("SCRIPT", "KILL"), "OK")
    error(client.read(), "ERR", "Script killed by user")
    # Behind the script on its connection they waited, on another one the node told them.
    for other in others:
        got = other.read()
        check(got == NULL or got.startswith(b"-BUSY"), "%s got %r" % (other.name, got))
        same(other.raw("GET", C), NULL)


@test
def who_comes_while_a_long_script_runs_reads_busy_and_does_not_wait(fresh):
    shop = fresh(node_args=("--busy-reply-threshold", "200"), workers=1)
    client = shop.client("client with the script", timeout=10)
    start_endless_script(shop, client)
    waiting = []

    def reads_busy():
        """A client that asks too early waits behind the script on its connection."""
        waiting.append(shop.client("client %d" % len(waiting), timeout=10))
        waiting[-1].send(request("GET", C))
        return not waiting[-1].silent(0.1) and waiting.pop().read().startswith(b"-BUSY ")

    eventually(reads_busy, 5, "a client that asks the busy node reads BUSY")
    other = shop.client("other client")
    error(other.raw("GET", C), "BUSY")
    error(other.raw("MGET", A, C), "BUSY", shop.name(2))
    error(other.raw("DBSIZE"), "BUSY", shop.name(2))
    same(other.raw("GET", A), NULL, "the reply of a node that is not busy")
    same(other.raw("SCRIPT", "KILL"), OK)
    error(client.read(), "ERR", "Script killed by user")
    for early in waiting:
        same(early.read(), NULL, "what waited behind the script")
    eventually(lambda: other.raw("GET", C) == NULL, 3, "it serves again")


@test
def with_ping_nodes_a_ping_says_why_a_node_can_not_serve(fresh):
    shop = fresh(config={"ping_nodes": True}, node_args=("--busy-reply-threshold", "200"), workers=1)
    client, other = shop.client("client with the script", timeout=10), shop.client("client that asks", timeout=10)
    for wire in (other, shop.at(0)):
        same([wire.raw("PING"), wire.raw("PING", "hello")], [PONG, bulk("hello")])
        error(wire.raw("PING", "a", "b"), "ERR wrong number of arguments for 'ping' command")
    start_endless_script(shop, client)
    client.send(request("PING"))  # Waits for what was asked before it.
    error(other.raw("PING"), "BUSY")
    same(shop.at(0).raw("PING"), PONG, "an endpoint speaks for its own node")
    error(shop.at(2).raw("PING"), "BUSY")
    same(other.raw("SCRIPT", "KILL"), OK)
    error(client.read(), "ERR", "Script killed by user")
    same(client.read(), PONG, "the PING behind the script")
    eventually(lambda: other.raw("PING") == PONG, 3, "all nodes serve again")
    shop.node(1).kill()
    wait_down(other, B)
    error(other.raw("PING"), "CLUSTERDOWN", shop.name(1))
    same([shop.at(0).raw("PING"), other.raw("GET", A)], [PONG, NULL], "what the others serve")


@test
def script_kill_reaches_the_busy_node_through_the_proxy(fresh):
    shop = fresh(node_args=("--busy-reply-threshold", "200"), workers=1)
    client, other = shop.client(timeout=10), shop.client("other client", timeout=10)
    start_endless_script(shop, client)
    same(other.raw("SCRIPT", "KILL"), OK)
    error(client.read(), "ERR", "Script killed by user")
    same(other.raw("SCRIPT", "KILL"), b"-NOTBUSY No scripts in execution right now.\r\n")


@test
def a_wrong_password_at_a_node_is_no_fault_of_the_client_s(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("SET", C, 3)
    node = shop.node(2)
    with node.client() as direct:
        direct.ask("CONFIG", "SET", "requirepass", "secret")
        direct.ask("AUTH", "secret")
        direct.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    reply = eventually(
        lambda: next((r for r in [client.raw("GET", C)] if r[:1] == b"-"), None), 3, "it fails"
    )
    check(
        not reply.startswith((b"-NOAUTH", b"-WRONGPASS")),
        "the node's own words came through: %r" % reply,
    )
    wait_down(client, C)
    down(client.raw("GET", C), shop, 2, C)
    same(client.raw("SET", A, 1), OK)
    shop.config["nodes"][2]["password"] = "secret"
    shop.write_config()
    got = shop.slotctl("reload")
    same(got.returncode, 0, "slotctl reload: " + got.stdout + got.stderr)
    wait_back(client, C, bulk(3), seconds=5)


# Everything at once


@test
def keys_of_a_failed_write_never_land_elsewhere(fresh):
    shop = fresh()
    client = shop.client()
    keys = keys_on(2, 200, "lost")
    shop.node(2).kill()
    client.pipeline(*[("SET", key, 1) for key in keys])
    got = client.raw("MSET", *[part for key in keys + keys_on(0, 50, "kept") for part in (key, 1)])
    error(got, "CLUSTERDOWN", shop.name(2))
    for place in (0, 1):
        with shop.node(place).client() as direct:
            same(direct.ask("EXISTS", *keys), 0, "keys of the dead node at node %d" % place)


@test(long=True, seconds=60)
def nodes_that_come_and_go_hurt_only_their_own_slots_and_mix_nothing_up(fresh):
    shop = fresh(node_args=("--appendonly", "yes", "--appendfsync", "always"))
    chance = random.Random(5)
    keys = keys_on(0, 6, "w") + keys_on(1, 6, "w") + keys_on(2, 6, "w")
    with Crowd(shop.forward, keys, allowed=of_downtime) as crowd, Crowd(
        shop.forward, keys_on(0, 6, "calm")
    ) as calm:
        began = time.monotonic()
        while time.monotonic() - began < 8 and not crowd.complaints and not calm.complaints:
            place = chance.choice((1, 2))
            if chance.random() < 0.5:
                shop.node(place).restart()
            else:
                shop.node(place).stop()
                time.sleep(
                    chance.uniform(0.05, 1.2)
                )  # Some shorter and some longer than node_silent.
                shop.node(place).go_on()
            shop.client().raw("MGET", A, B, C)
            calm.wait_for(100)
        client = shop.client()
        for key, place in ((A, 0), (B, 1), (C, 2)):
            eventually(
                lambda key=key: client.raw("GET", key)[:1] == b"$",
                5,
                "node %d serves at the end" % place,
            )
        crowd.wait_for(500)
        calm.verdict(500)
        crowd.verdict(500)


@test
def a_second_server_on_the_port_of_a_node_is_not_taken_for_it(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("SET", C, 3)
    stranger = RedisServer()
    try:
        stranger.ask("SET", C, "foreign")
        # The stranger carries the identity of another node of this very cluster.
        for key in shop.node(1).ask("KEYS", "__slotproxy:*"):
            stranger.ask("RESTORE", key, 0, shop.node(1).ask("DUMP", key))
        stranger.ask("SAVE")
        port, shop.node(2).port = shop.node(2).port, None
        shop.node(2).kill()
        stranger.kill()
        stranger.port = port
        stranger.start()
        time_up = time.monotonic() + 2.5
        while time.monotonic() < time_up:
            reply = client.raw("GET", C)
            check(reply[:1] == b"-", "the stranger's value came through: %r" % reply)
            time.sleep(0.02)
        error(reply, "CLUSTERDOWN", shop.name(2), "identity")
    finally:
        stranger.end()
