"""Requests that block: as at one redis-server, in nobody's way, and without a lost element."""
import collections
import os
import signal
import socket
import struct
import threading
import time

import redis

from harness import plans, resp
from harness.check import check, error, eventually, same, shown
from harness.resp import array, bulk
from harness.servers import RedisServer
from harness.shop import HOST
from harness.tests import test
from harness.wire import timed

OK, PONG = b"+OK\r\n", b"+PONG\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.
QUEUE = "queue"  # Slot 13011, on the third.
UNBLOCKED = b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
GONE_SOON = b"-UNBLOCKED the proxy is shutting down"
NULL = {2: b"*-1\r\n", 3: b"_\r\n"}

# What each blocks on, how it is said (with its time), and what ends it.
CALLS = {
    "BLPOP": ("", "BLPOP {t}a {t}b %s", "RPUSH {t}b x y"),
    "BRPOP": ("", "BRPOP {t}a {t}b %s", "RPUSH {t}a x y"),
    "BLMOVE": ("RPUSH {t}d z", "BLMOVE {t}a {t}d LEFT RIGHT %s", "RPUSH {t}a x y"),
    "BRPOPLPUSH": ("", "BRPOPLPUSH {t}a {t}d %s", "LPUSH {t}a x y"),
    "BLMPOP": ("", "BLMPOP %s 2 {t}a {t}b LEFT COUNT 2", "RPUSH {t}b x y z"),
    "BZPOPMIN": ("", "BZPOPMIN {t}z %s", "ZADD {t}z 1 a 2.5 b"),
    "BZPOPMAX": ("", "BZPOPMAX {t}y {t}z %s", "ZADD {t}z 1 a 2.5 b"),
    "BZMPOP": ("", "BZMPOP %s 2 {t}y {t}z MIN COUNT 2", "ZADD {t}z 1 a 2.5 b 3 c"),
    "XREAD": ("XADD {t}x 1-1 f old", "XREAD COUNT 2 BLOCK %s STREAMS {t}x $", "XADD {t}x 2-1 f v"),
    "XREAD from an id": ("", "XREAD BLOCK %s STREAMS {t}w {t}x 1-1 1-1", "XADD {t}x 2-1 f v"),
    "XREADGROUP": (
        "XGROUP CREATE {t}x g $ MKSTREAM", "XREADGROUP GROUP g c BLOCK %s STREAMS {t}x >", "XADD {t}x 2-1 f v",
    ),
}
WRONG = (
    "BLPOP {t}a x|BLPOP {t}a -1|BLPOP {t}a|BLPOP|BRPOP {t}a {t}1 x|BLMOVE {t}a {t}b UP LEFT 0|BLMOVE {t}a {t}b 0"
    "|BRPOPLPUSH {t}a 0|BLMPOP 0 0 {t}a LEFT|BLMPOP 0 x {t}a LEFT|BLMPOP 0 1 {t}a|BLMPOP x 1 {t}a LEFT"
    "|BZPOPMIN {t}a -1|BZMPOP 0 1 {t}a UP|XREAD BLOCK x STREAMS {t}a 0|XREAD BLOCK -1 STREAMS {t}a 0"
    "|XREAD BLOCK 0 STREAMS {t}a|XREADGROUP GROUP g c BLOCK 0 STREAMS {t}nosuch >|SET {t}s 1|BLPOP {t}s 0"
    "|BZPOPMIN {t}s 0|WAIT x 0|WAIT 0 -1|WAIT 0|CLIENT UNBLOCK x|CLIENT UNBLOCK 1 x|CLIENT UNBLOCK 1 error x"
    "|CLIENT UNBLOCK|CLIENT UNBLOCK 99999999|WAIT 0 0|WAIT 0 10|WAIT 1 10"
)


def seconds_or_ms(name, seconds):
    return str(int(seconds * 1000)) if name.startswith("X") else "%g" % seconds


def info(shop, field="blocked_clients"):
    with shop.client("observer") as observer:
        text = observer.ask("INFO", "clients")
    if isinstance(text, bytes):
        text = text.decode()
    return int(dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)[field])


def wait_blocked(shop, count=1, seconds=5):
    eventually(lambda: info(shop) == count, seconds, lambda: "%d are blocked, not %d" % (count, info(shop)))


def block(shop, client, *args, blocked=1):
    client.send(resp.request(*args))
    wait_blocked(shop, blocked)


def words(text):
    return text.split(" ")


def both(shop, stock, say, what):
    """What `say(where, client, other)` returns must be the same at the proxy and at one redis-server."""
    for version in (2, 3):
        got = []
        for where in (shop, stock):
            where.empty()
            with where.client("client") as client, where.client("other") as other:
                if version == 3:
                    client.hello3()
                got.append(say(where, client, other))
        check(
            got[0] == got[1],
            "%s differs (RESP%d)\n     proxy %s\n     redis %s" % (what, version, shown(got[0]), shown(got[1])),
        )


class Stock:
    """A redis-server with a shop's words."""

    def __init__(self, server):
        self.server = server
        self.client = server.client
        self.empty = server.empty


@test(seconds=90)
def every_blocking_command_answers_as_one_redis(shop, stock):
    judge = Stock(stock)
    for name, (setup, call, wake) in CALLS.items():
        def begin(other):
            if setup:
                other.raw(*words(setup))

        def at_once(where, client, other):
            begin(other)
            if name == "XREAD":
                return []  # "$" never finds anything at once.
            other.raw(*words(wake))
            return [client.raw(*words(call % seconds_or_ms(name, 5)))]

        def woken(where, client, other):
            begin(other)
            block(where, client, *words(call % seconds_or_ms(name, 5)))
            return [other.raw(*words(wake)), client.read(), client.raw("PING"), info(where)]

        def in_vain(where, client, other):
            begin(other)
            got, took = timed(lambda: client.raw(*words(call % seconds_or_ms(name, 0.05))))
            check(0.04 < took < 3, "%s waited %.3f s, not 0.05" % (name, took))
            return [got, client.raw("PING")]

        def unblocked(where, client, other):
            begin(other)
            number, got = client.ask("CLIENT", "ID"), []
            for how in ((), ("TIMEOUT",), ("error",)):
                block(where, client, *words(call % "0"))
                got += [other.raw("CLIENT", "UNBLOCK", number, *how), client.read()]
            return got + [other.raw("CLIENT", "UNBLOCK", number), client.raw("PING")]

        def in_a_pipeline(where, client, other):
            begin(other)
            client.send(
                b"".join(
                    resp.request(*words(line))
                    for line in ("SET {t}s 1", call % seconds_or_ms(name, 5), "GET {t}s", "INCR {t}s", "PING")
                )
            )
            wait_blocked(where)
            return [other.raw(*words(wake))] + client.read_many(5)

        for say in (at_once, woken, in_vain, unblocked, in_a_pipeline):
            both(shop, judge, say, "%s, %s" % (name, say.__name__.replace("_", " ")))


@test(seconds=60)
def wrong_requests_are_refused_in_the_words_of_one_redis(shop, stock):
    def say(where, client, other):
        return [(line, client.raw(*words(line))) for line in WRONG.split("|")]

    both(shop, Stock(stock), say, "what is wrong")


@test(seconds=60)
def nothing_blocks_in_transactions_and_scripts(shop, stock):
    script = "return redis.pcall(unpack(ARGV))"

    def say(where, client, other):
        got = []
        for name, (setup, call, _) in CALLS.items():
            if setup:
                other.raw(*words(setup))
            request = words(call % "0")
            got += [name, client.raw("MULTI"), client.raw(*request), client.raw("EXEC")]
            got += [client.raw("EVAL", script, 1, "{t}a", *request)]
            other.raw("DEL", "{t}x", "{t}d")
        return got + client.pipeline(("MULTI",), ("WAIT", 0, 0), ("WAIT", 1, 0), ("EXEC",))

    both(shop, Stock(stock), say, "a transaction or script")


@test
def keys_of_several_slots_are_refused(shop):
    client = shop.client()
    crossslot = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
    for request in (
        ("BLPOP", "a", "bar", 1), ("BLMOVE", A, B, "LEFT", "LEFT", 1), ("BRPOPLPUSH", A, B, 1),
        ("BLMPOP", 1, 2, A, B, "LEFT"), ("BZMPOP", 1, 2, A, B, "MIN"), ("BZPOPMIN", A, B, 1),
        ("XREAD", "BLOCK", 1000, "STREAMS", A, B, "$", "$"),
    ):
        same(client.raw(*request), crossslot, "the reply to %s" % (request,))
    error(client.raw("BLPOP", "__slotproxy:identity", 0), "ERR", "reserved")
    same(client.raw("RPUSH", "{a}2", "x"), b":1\r\n")
    same(client.raw("BLPOP", "{a}1", "{a}2", 1), array(bulk("{a}2"), bulk("x")))


@test
def an_endpoint_redirects_what_blocks_elsewhere(shop):
    client = shop.at(0)
    error(client.raw("BLPOP", C, 0), "MOVED 12182")
    error(client.raw("XREAD", "BLOCK", 0, "STREAMS", C, "$"), "MOVED 12182")
    block(shop, client, "BLPOP", A, 0)
    same(shop.at(0).raw("RPUSH", A, "x"), b":1\r\n")
    same(client.read(), array(bulk(A), bulk("x")))


@test
def clients_are_served_in_the_order_in_which_they_blocked(shop):
    clients = [shop.client("client %d" % n) for n in range(5)]
    for n, client in enumerate(clients):
        block(shop, client, "BLPOP", QUEUE, 0, blocked=n + 1)
    shop.client().raw("RPUSH", QUEUE, *range(5))
    same([client.read() for client in clients], [array(bulk(QUEUE), bulk(n)) for n in range(5)])
    same(info(shop), 0, "blocked_clients")


@test(seconds=60)
def one_that_blocks_holds_up_nobody_else(fresh):
    shop = fresh(workers=1)
    blocked = shop.client("blocked")
    block(shop, blocked, "BLPOP", QUEUE, 0)
    others = [shop.client("client %d" % n) for n in range(100)]
    for round_ in range(20):
        for client in others:
            client.send(resp.request("SET", C, round_) + resp.request("GET", QUEUE + "{queue}"))
        for client in others:
            same(client.read_many(2), [OK, b"$-1\r\n"])
    check(blocked.silent(0.01), "the blocked one still waits")
    others[0].raw("RPUSH", QUEUE, "x")
    same(blocked.read(), array(bulk(QUEUE), bulk("x")))


@test(seconds=60)
def consumers_open_no_connection_for_each_request(fresh):
    shop = fresh(workers=1)
    consumer, producer = shop.client(), shop.client()

    def connections():
        return int(shop.node(2).info("stats")["total_connections_received"])

    producer.raw("RPUSH", QUEUE, "first")
    consumer.raw("BLPOP", QUEUE, 0)
    before = connections()
    for n in range(300):
        if n % 2:
            producer.raw("RPUSH", QUEUE, n)
        consumer.send(resp.request("BLPOP", QUEUE, 5))
        if not n % 2:
            producer.raw("RPUSH", QUEUE, n)
        same(consumer.read(), array(bulk(QUEUE), bulk(n)))
    check(connections() - before <= 2, "%d connections were opened" % (connections() - before))


# Clients that leave


def vanish(client, how):
    if how == "reset":
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@test(seconds=60)
def an_element_that_comes_after_a_client_has_left_is_not_lost(fresh):
    shop = fresh()
    observer = shop.client("observer")
    observer.raw("SET", QUEUE, 1), observer.raw("DEL", QUEUE)
    for n, how in enumerate(("closed", "reset", "closed with requests behind", "reset with requests behind") * 5):
        leaver = shop.client("leaver")
        if n % 3 == 1:
            leaver.hello3()
        leaver.send(resp.request("BLPOP", QUEUE, 0))
        if n % 4 > 1:
            leaver.send(resp.request("GET", A) * 3)
        wait_blocked(shop)
        vanish(leaver, how.split()[0])
        wait_blocked(shop, 0)
        eventually(lambda: shop.node(2).info("clients")["blocked_clients"] == "0", 5, "nobody waits at the node")
        same(observer.raw("RPUSH", QUEUE, n), b":1\r\n", "the reply to RPUSH after the client was %s" % how)
        same(observer.raw("LLEN", QUEUE), b":1\r\n", "elements after the client was %s" % how)
        same(shop.client().raw("BLPOP", QUEUE, 0), array(bulk(QUEUE), bulk(n)))


@test(seconds=60)
def of_many_clients_that_leave_while_elements_come_none_pops_afterwards(fresh):
    shop = fresh()
    producer = shop.client("producer")
    for round_ in range(10):
        leavers = [shop.client("leaver %d" % n) for n in range(30)]
        for leaver in leavers:
            leaver.send(resp.request("BLPOP", QUEUE, 0))
        wait_blocked(shop, 30)
        for leaver in leavers:
            vanish(leaver, "reset" if round_ % 2 else "closed")
        # Once the proxy has seen them go and the node has answered, nothing is popped any more.
        eventually(lambda: shop.node(2).info("clients")["blocked_clients"] == "0", 5, "nobody waits at the node")
        for n in range(30):
            producer.raw("RPUSH", QUEUE, n)
        same(producer.ask("LLEN", QUEUE), 30, "elements in the list")
        producer.raw("DEL", QUEUE)


@test
def a_client_that_is_killed_leaves_nothing_behind(shop):
    victim, killer = shop.client("victim"), shop.client("killer")
    number = victim.ask("CLIENT", "ID")
    block(shop, victim, "BLMOVE", QUEUE, QUEUE, "LEFT", "RIGHT", 0)
    line = killer.ask("CLIENT", "LIST", "ID", number).decode()
    check(" flags=b " in line and " cmd=blmove " in line, "CLIENT LIST says that it is blocked: %s" % line)
    same(killer.raw("CLIENT", "KILL", "ID", number), b":1\r\n")
    same(victim.read_until_closed(), b"")
    wait_blocked(shop, 0)
    eventually(lambda: shop.node(2).info("clients")["blocked_clients"] == "0", 5, "nobody waits at the node")
    same(killer.raw("RPUSH", QUEUE, "x"), b":1\r\n")
    same(killer.raw("LLEN", QUEUE), b":1\r\n")


@test
def clients_of_all_workers_can_be_unblocked(fresh):
    shop = fresh(workers=4)
    clients = [shop.client("client %d" % n) for n in range(12)]
    numbers = [client.ask("CLIENT", "ID") for client in clients]
    for client in clients:
        client.send(resp.request("BLPOP", QUEUE, 0))
    wait_blocked(shop, 12)
    other = shop.client("other")
    for n, (client, number) in enumerate(zip(clients, numbers)):
        same(other.raw("CLIENT", "UNBLOCK", number, *(("ERROR",) if n % 2 else ())), b":1\r\n")
        same(client.read(), UNBLOCKED if n % 2 else NULL[2])
        same(other.raw("CLIENT", "UNBLOCK", number), b":0\r\n")
    same(info(shop), 0, "blocked_clients")


@test
def a_client_that_says_nothing_is_kept_alive(shop):
    client = shop.client()
    block(shop, client, "BLPOP", QUEUE, 0)
    there, here = ("%04X" % shop.forward[1], "%04X" % client.socket.getsockname()[1])
    with open("/proc/net/tcp") as sockets:
        lines = [line.split() for line in sockets]
    timers = [line[5] for line in lines if line[1].endswith(there) and line[2].endswith(here)]
    same([timer[:2] for timer in timers], ["02"], "the kernel's timer of the proxy's socket (02: keepalive)")


# Limits


@test(seconds=60)
def beyond_the_limit_clients_are_told_at_once(fresh):
    shop = fresh(workers=1, config={"limits": {"blocking_connections": 3}})
    clients = [shop.client("client %d" % n) for n in range(4)]
    for n, client in enumerate(clients[:3]):
        block(shop, client, "BLPOP", QUEUE, 0, blocked=n + 1)
    got, took = timed(lambda: clients[3].raw("BLPOP", QUEUE, 0))
    error(got, "ERR", "limits.blocking_connections", "inv-gir")
    check(took < 2, "the error took %.1f s" % took)
    same(clients[3].raw("GET", C), b"$-1\r\n")
    clients[3].send(resp.request("BLPOP", A, 0))  # Another node.
    wait_blocked(shop, 4)
    clients[0].close()
    late = shop.client("late")
    eventually(lambda: late.raw("BLPOP", QUEUE, 0.01) == NULL[2], 5, "a connection is free again")
    same(late.raw("RPUSH", QUEUE, "x"), b":1\r\n")
    same(clients[1].read(), array(bulk(QUEUE), bulk("x")))


@test(seconds=90, long=True)
def of_5000_clients_1000_wait_and_the_others_are_told(fresh):
    shop = fresh(workers=1, config={"limits": {"blocking_connections": 1000}})
    descriptors = lambda: len(os.listdir("/proc/%d/fd" % shop.proxy.process.pid))
    shop.client("warm").raw("SET", C, 1)
    before = descriptors()
    clients = []
    for _ in range(5000):
        client = socket.create_connection(shop.forward)
        client.sendall(resp.request("BLPOP", QUEUE, 0))
        clients.append(client)
    wait_blocked(shop, 1000, 30)
    refused = 0
    deadline = time.monotonic() + 30
    pending = set(clients)
    while refused < 4000 and time.monotonic() < deadline:
        for client in list(pending):
            client.setblocking(False)
            try:
                got = client.recv(4096)
            except BlockingIOError:
                continue
            check(b"limits.blocking_connections" in got, "a refused client reads %r" % got)
            pending.discard(client)
            refused += 1
    same((refused, len(pending)), (4000, 1000), "clients refused, and clients that wait")
    check(descriptors() - before < 6100, "%d descriptors are open" % descriptors())
    other = shop.client("other")
    same(other.raw("GET", C), bulk(1))
    for client in clients:
        client.close()
    wait_blocked(shop, 0, 30)
    eventually(lambda: descriptors() - before < 200, 30, lambda: "%d descriptors stay" % (descriptors() - before))
    same(other.raw("RPUSH", QUEUE, "x"), b":1\r\n")
    same(other.raw("LLEN", QUEUE), b":1\r\n")


# Nodes and the proxy that end


@test(seconds=60)
def a_node_that_dies_ends_what_waits_there_at_once(fresh):
    shop = fresh()
    client, elsewhere = shop.client(), shop.client()
    block(shop, client, "BLPOP", QUEUE, 0)
    block(shop, elsewhere, "BLPOP", A, 0, blocked=2)
    shop.node(2).kill()
    got, took = timed(client.read)
    check(got.startswith(b"-") and b"inv-gir" in got, "the reply names the node: %s" % shown(got))
    check(took < 2, "it took %.1f s" % took)
    eventually(lambda: client.raw("BLPOP", QUEUE, 0).startswith(b"-CLUSTERDOWN"), 5, "the node is known to be down")
    shop.node(2).start()
    eventually(lambda: client.raw("BLPOP", QUEUE, 0.01) == NULL[2], 10, "it is back")
    check(elsewhere.silent(0.01), "the other node's client still waits")
    same(client.raw("RPUSH", A, "x"), b":1\r\n")
    same(elsewhere.read(), array(bulk(A), bulk("x")))


@test(seconds=60)
def a_time_limit_for_nodes_does_not_end_what_a_client_lets_wait(fresh):
    shop = fresh(config={"timeouts": {"request": "200ms", "node_silent": "500ms"}})
    client = shop.client()
    block(shop, client, "BLPOP", QUEUE, 0)
    got, took = timed(lambda: shop.client().raw("BLPOP", B, 1.2))
    same(got, NULL[2])
    check(took > 1.1, "it took %.2f s" % took)
    check(client.silent(0.01), "it still waits")
    same(shop.client().raw("RPUSH", QUEUE, "x"), b":1\r\n")
    same(client.read(), array(bulk(QUEUE), bulk("x")))


@test(seconds=60)
def the_proxys_end_takes_waiting_requests_back(fresh):
    shop = fresh()
    clients = [shop.client("client %d" % n) for n in range(6)]
    for client in clients:
        client.send(resp.request("BLPOP", QUEUE, 0) + resp.request("PING"))
    wait_blocked(shop, 6)
    began = time.monotonic()
    shop.proxy.process.send_signal(signal.SIGTERM)
    for client in clients:
        got = client.read()
        check(got.startswith(GONE_SOON), "the reply at the end: %s" % shown(got))
        same(client.read(), PONG)
        same(client.read_until_closed(), b"")
    check(time.monotonic() - began < 2.5, "the end took %.1f s" % (time.monotonic() - began))
    with shop.node(2).client() as node:
        same(node.raw("RPUSH", QUEUE, "x"), b":1\r\n")
        same(node.raw("LLEN", QUEUE), b":1\r\n")
    eventually(lambda: shop.proxy.process.poll() is not None, 5, "the proxy has ended")


# WAIT


@test(seconds=60)
def wait_answers_how_many_replicas_have_what_the_client_wrote(fresh):
    shop = fresh()
    client = shop.client()
    same(client.pipeline(("SET", A, 1), ("WAIT", 1, 50)), [OK, b":0\r\n"])
    same(client.raw("WAIT", 0, 0), b":0\r\n")
    replicas = [RedisServer("--replicaof", HOST, str(shop.node(n).port)) for n in range(3)]
    try:
        for n in range(3):
            shop.node(n).ask("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        for replica in replicas:
            eventually(lambda: replica.info("replication")["master_link_status"] == "up", 20, "the replica is in step")
        for n in range(20):
            for key in (A, B, C):
                got, took = timed(lambda: client.pipeline(("SET", key, n), ("WAIT", 1, 5000)))
                same(got, [OK, b":1\r\n"])
                check(took < 4, "WAIT took %.1f s" % took)
                same(replicas[(A, B, C).index(key)].ask("GET", key), b"%d" % n, "what the replica has")
        other = shop.client("other")
        client.send(resp.request("SET", A, "x") + resp.request("WAIT", 2, 1000) + resp.request("PING"))
        same(client.read(), OK)
        wait_blocked(shop)
        same(other.raw("SET", A, 2), OK)
        same(client.read_many(2), [b":1\r\n", PONG])
        same(shop.at(0).pipeline(("SET", A, 3), ("WAIT", 1, 5000)), [OK, b":1\r\n"])
        replicas[1].kill()
        eventually(lambda: shop.node(1).info("replication")["connected_slaves"] == "0", 10, "one replica is gone")
        same(client.pipeline(("SET", A, 1), ("WAIT", 1, 100)), [OK, b":0\r\n"], "the smallest number of all nodes")
        number = client.ask("CLIENT", "ID")
        block(shop, client, "WAIT", 1, 0)
        same(other.raw("CLIENT", "UNBLOCK", number), b":1\r\n")
        same(client.read(), b":0\r\n")
        block(shop, client, "WAIT", 1, 0)
        same(other.raw("CLIENT", "UNBLOCK", number, "ERROR"), b":1\r\n")
        same(client.read(), UNBLOCKED)
    finally:
        for replica in replicas:
            replica.end()


# While slots move


def move(shop, key, target):
    slot = resp.slot_of(key)
    return plans.run(shop, "--move", "%d-%d:%s" % (max(slot - 3, 0), slot + 3, target))


FAST = {"rebalance": {"grace": "100ms"}}


@test(seconds=120)
def a_client_that_is_blocked_goes_on_where_its_slot_has_moved(fresh):
    shop = fresh(config=FAST)
    for version in (2, 3):
        for name, (setup, call, wake) in CALLS.items():
            client, other = shop.client(), shop.client()
            if version == 3:
                client.hello3()
            shop.empty()
            if setup:
                other.raw(*words(setup))
            block(shop, client, *words(call % "0"))
            target = "inv-vlc" if plans.owners(shop)["inv-vlc"].isdisjoint({resp.slot_of("{t}")}) else "inv-bcn"
            if name in ("BLPOP", "XREAD", "XREADGROUP", "BLMOVE", "BZMPOP"):
                move(shop, "{t}", target)
            same(info(shop), 1, "blocked_clients while %s waits" % name)
            other.raw(*words(wake))
            got = client.read()
            check(not got.startswith((b"-", NULL[version])), "%s after the move: %s" % (name, shown(got)))
            same(client.raw("PING"), PONG)


@test(seconds=60)
def a_blocked_client_of_an_endpoint_is_told_where_its_slot_has_moved(fresh):
    shop = fresh(config=FAST)
    plain, aware = shop.client("plain"), shop.at(2, "aware")
    block(shop, plain, "BLPOP", QUEUE, 0)
    block(shop, aware, "BLPOP", QUEUE, 0, blocked=2)
    move(shop, QUEUE, "inv-bcn")
    error(aware.read(), "MOVED 13011", str(shop.endpoint_ports[0]))
    same(aware.raw("PING"), PONG)
    again = shop.at(0, "aware again")
    block(shop, again, "BLPOP", QUEUE, 0, blocked=2)
    same(shop.client().raw("RPUSH", QUEUE, "v1", "v2"), b":2\r\n")
    same([plain.read(), again.read()], [array(bulk(QUEUE), bulk(v)) for v in ("v1", "v2")])


@test(seconds=60)
def the_time_of_a_blocked_client_is_the_same_over_moves(fresh):
    shop = fresh(config=FAST)
    clients = [shop.client("client %d" % n) for n in range(3)]
    began = time.monotonic()
    clients[0].send(resp.request("BLPOP", QUEUE, 6))
    clients[1].send(resp.request("XREAD", "BLOCK", 6000, "STREAMS", "{queue}x", "$"))
    clients[2].send(resp.request("BZMPOP", 6, 1, "{queue}z", "MIN"))
    wait_blocked(shop, 3)
    for target in ("inv-bcn", "inv-vlc", "inv-gir"):
        move(shop, QUEUE, target)
    check(time.monotonic() - began < 5.9, "the moves took too long to see anything")
    for client in clients:
        client.timeout = 10
        same(client.read(), NULL[2])
        took = time.monotonic() - began
        check(5.95 < took < 7.5, "it waited %.2f s, not 6" % took)


class Worker(threading.Thread):
    """Runs `step` until it is over; what it delivered is in `got`."""

    def __init__(self, step):
        super().__init__(daemon=True)
        self.step, self.got, self.problem, self.over = step, [], None, threading.Event()
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                self.got += self.step() or []
        except Exception as problem:  # Told by whoever joins.
            self.problem = "%s: %s" % (type(problem).__name__, problem)

    def end(self):
        self.over.set()
        self.join(15)
        check(self.problem is None, "a worker ran into %s" % self.problem)
        check(not self.is_alive(), "a worker is stuck")


def consumers_of(shop):
    """What takes elements of the queue in each way that blocks, as threads; each gives a list."""

    def popping(way):
        client = redis.Redis(HOST, shop.forward[1])

        def step():
            if way == "blpop":
                found = client.blpop(["{queue}other", QUEUE], timeout=1)
                return [found[1]] if found else []
            if way == "blmove":
                # Into a list of its own, from which it is then taken.
                mine = "{queue}mine:%d" % id(client)
                found = client.execute_command("BLMOVE", QUEUE, mine, "LEFT", "RIGHT", 1)
                return [client.lpop(mine)] if found else []
            if way == "blmpop":
                found = client.execute_command("BLMPOP", 1, 1, QUEUE, "RIGHT", "COUNT", 3)
                return list(found[1]) if found else []
            found = client.execute_command("BZPOPMIN", "{queue}z", 1)
            return [found[1]] if found else []

        return Worker(step)

    def reading(consumer):
        client = redis.Redis(HOST, shop.forward[1])

        def step():
            found = client.xreadgroup("g", consumer, {"{queue}x": ">"}, count=5, block=1000, noack=True)
            return [fields[b"n"] for _, entries in found for _, fields in entries]

        return Worker(step)

    def following():
        client = redis.Redis(HOST, shop.forward[1])
        last = ["$"]

        def step():
            # From "$" on it waits for the first one, whatever comes between two calls would be lost.
            found = client.xread({"{queue}log": last[0]}, block=60_000 if last[0] == "$" else 1000)
            got = []
            for _, entries in found or []:
                for entry, fields in entries:
                    last[0] = entry
                    got.append(fields[b"n"])
            return got

        return Worker(step)

    ways = ["blpop", "blpop", "blmove", "blmpop", "bzpopmin", "bzpopmin"]
    return [popping(way) for way in ways], [reading("c1"), reading("c2")], [following(), following()]


@test(seconds=120)
def every_element_is_delivered_once_while_its_slot_moves_to_and_fro(fresh):
    shop = fresh(config=FAST)
    redis.Redis(HOST, shop.forward[1]).xgroup_create("{queue}x", "g", mkstream=True)
    poppers, readers, followers = consumers_of(shop)
    produced = {"queue": [], "x": [], "log": []}
    client = redis.Redis(HOST, shop.forward[1])
    numbers = iter(range(1_000_000))
    # A follower begins at "$": it must be waiting before anything is written.
    wait_blocked(shop, 10, 10)

    def produce():
        for _ in range(5):
            n = next(numbers)
            value = b"%d" % n
            if n % 3 == 0:
                client.zadd("{queue}z", {value: n})
            else:
                client.rpush(QUEUE, value)
            produced["queue"].append(value)
            client.xadd("{queue}x", {"n": value})
            produced["x"].append(value)
            client.xadd("{queue}log", {"n": value})
            produced["log"].append(value)
        time.sleep(0.03)

    producer = Worker(produce)
    for n in range(6):
        target = ("inv-bcn", "inv-vlc", "inv-gir")[n % 3]
        before = len(produced["queue"])
        move(shop, QUEUE, target)
        eventually(lambda: len(produced["queue"]) > before + 20, 20, "production goes on")
    producer.end()

    def count(workers):
        return sum(len(worker.got) for worker in workers)

    eventually(lambda: count(poppers) >= len(produced["queue"]), 10, "all were popped")
    eventually(lambda: count(readers) >= len(produced["x"]), 10, "all were read by the group")
    for follower in followers:
        eventually(lambda: len(follower.got) >= len(produced["log"]), 10, "all were followed")
    for worker in poppers + readers + followers:
        worker.end()

    def all_of(workers):
        return sorted((value for worker in workers for value in worker.got), key=int)

    def compare(got, wanted, what):
        extra = collections.Counter(got)
        extra.subtract(wanted)
        wrong = {value: times for value, times in extra.items() if times}
        check(not wrong, "%s: delivered too often (or -1: never): %s" % (what, shown(wrong)))

    compare(all_of(poppers), produced["queue"], "popped")
    compare(all_of(readers), produced["x"], "read by the group")
    for follower in followers:
        same(follower.got, produced["log"], "what a follower has read")


@test(seconds=60)
def clients_that_leave_while_their_slot_moves_take_nothing_with_them(fresh):
    shop = fresh(config=FAST)
    for n in range(4):
        leavers = [shop.client("leaver %d" % k) for k in range(20)]
        for leaver in leavers:
            leaver.send(resp.request("BLPOP", QUEUE, 0))
        wait_blocked(shop, 20)
        plan = plans.propose(shop, "--move", "13008-13014:%s" % ("inv-bcn", "inv-vlc", "inv-gir")[n % 3])
        plans.approve(shop, plan)
        for leaver in leavers:
            leaver.close()
        plans.wait(shop, plan, "done")
        wait_blocked(shop, 0)
        for node in range(3):
            eventually(lambda: shop.node(node).info("clients")["blocked_clients"] == "0", 5, "nobody waits at a node")
        same(shop.client().raw("RPUSH", QUEUE, n), b":1\r\n")
        same(shop.client().raw("LPOP", QUEUE), bulk(n))
