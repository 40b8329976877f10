"""MONITOR: a stream of what clients ask of this proxy, on all of its ports and workers."""
import re
import threading

import redis

from harness import resp
from harness.check import Failure, error, eventually, has, lacks, same
from harness.resp import bulk, request
from harness.shop import HOST, key_on
from harness.tests import test

OK, QUEUED = b"+OK\r\n", b"+QUEUED\r\n"
A, B, C = (key_on(place) for place in (0, 1, 2))
LINE = re.compile(rb'^\+(\d{10})\.(\d{6}) \[0 ([^\]]+)\] (.*)\r\n$', re.S)

# What one client sends; the lines must be those of one redis-server, but for time and address.
TALK = [
    ("SET", "k", "v"), ("GET", "k"), ("set", "a b", "\n\r\t\a\b\\\"\x00\xff".encode("latin-1")),
    ("NOSUCH", "x"), ("GET",), ("PING",), ("ECHO", "x"), ("DEL", "k", "k"), ("EVAL", "return 1", 0),
    ("EVALSHA", "0" * 40, 0), ("CONFIG", "GET", "maxmemory"), ("CLIENT", "ID"), ("CLIENT", "LIST"),
    ("AUTH", "secret"), ("AUTH", "who", "secret"), ("HELLO", 2, "AUTH", "who", "secret"),
    ("HELLO", 2, "SETNAME", "me"), ("HELLO", 4), ("MULTI",), ("SET", "k", 1), ("PING",), ("NOSUCH",),
    ("EXEC",), ("MULTI",), ("SET", "k", 1), ("CLIENT", "ID"), ("GET", "k"), ("EXEC",), ("MULTI",), ("GET", "k"),
    ("DISCARD",), ("EXEC",), ("WATCH", "k"), ("UNWATCH",), ("SELECT", 0), ("PUBLISH", "ch", "m"),
    ("BLPOP", "nothing", 0.01), ("SUBSCRIBE", "ch"), ("UNSUBSCRIBE", "ch"), ("RESET",), ("MONITOR", "x"), ("QUIT",),
]


def monitor(shop, **more):
    wire = shop.client("monitor", **more)
    same(wire.raw("MONITOR"), OK)
    return wire


def words(raw):
    """A line without its time and its address."""
    found = LINE.match(raw)
    if not found:
        raise Failure("this is no line of MONITOR: %r" % raw)
    return found.group(4)


def lines_until(wire, mark):
    """What is shown until the mark, an argument of some command."""
    shown = []
    while True:
        line = words(wire.read())
        if resp.to_bytes(mark) in line:
            return shown
        shown.append(line)


def say(client, talk):
    for args in talk:
        client.raw(*args)


@test(stock=True)
def every_line_is_that_of_one_redis(shop, stock):
    shown = []
    for server in (shop, stock):
        with server.client("monitor") as wire, server.client() as client, server.client() as last:
            same(wire.raw("MONITOR"), OK)
            say(client, TALK)
            last.raw("ECHO", "mark")
            shown.append(lines_until(wire, "mark"))
    same(shown[0], shown[1], "what is shown")


@test
def what_clients_ask_is_shown_with_time_and_address_on_every_port_and_worker(shop):
    watching = [monitor(shop) for _ in range(4)]
    clients = [shop.client() for _ in range(8)] + [shop.at(place) for place in (0, 1, 2)]
    keys = [A] * 8 + [A, B, C]
    for n, (client, key) in enumerate(zip(clients, keys)):
        same(client.raw("SET", key, "value %d" % n), OK)
        for wire in watching:
            raw = wire.read()
            same(words(raw), b'"SET" "%s" "value %d"' % (key.encode(), n))
            same(LINE.match(raw).group(3), b"%s:%d" % tuple(
                part if isinstance(part, int) else part.encode() for part in client.socket.getsockname()))
    # Nothing was executed there: the client was sent elsewhere.
    error(clients[-1].raw("GET", A), "MOVED")
    clients[-1].raw("GET", C)
    same(words(watching[0].read()), b'"GET" "%s"' % C.encode())


@test
def a_transaction_is_shown_as_it_is_executed(shop):
    wire, client = monitor(shop), shop.client()
    for args in (("MULTI",), ("SET", A, 1), ("CLIENT", "ID"), ("GET", A), ("EXEC",)):
        client.raw(*args)
    for wanted in (b'"MULTI"', b'"SET" "%s" "1"', b'"CLIENT" "ID"', b'"GET" "%s"', b'"EXEC"'):
        same(words(wire.read()), wanted.replace(b"%s", A.encode()))


@test
def reset_and_the_end_of_the_connection_end_it(shop):
    client = shop.client()
    wire = monitor(shop)
    has(client.ask("CLIENT", "LIST"), "flags=O ")
    same(wire.raw("RESET")[-8:], b"+RESET\r\n"[-8:])
    lacks(client.ask("CLIENT", "LIST"), "flags=O ")
    client.ask("SET", A, 1)
    same(wire.raw("GET", A), bulk(1), "what one that does not monitor any more reads")
    wire = monitor(shop)
    same(wire.raw("QUIT"), OK)
    wire.read_until_closed()
    eventually(lambda: b"flags=O" not in client.ask("CLIENT", "LIST"), 5, "nobody monitors")


@test(stock=True)
def a_client_that_monitors_may_not_ask_for_keys(shop):
    wire = shop.client()
    same(wire.raw("MONITOR"), OK)
    error(wire.raw("GET", A), "ERR Replica can't interact with the keyspace")
    error(wire.raw("SET", A, 1), "ERR Replica can't interact with the keyspace")


@test(seconds=60)
def one_that_does_not_read_is_cut_and_nobody_else_notices(fresh):
    shop = fresh(config={"limits": {"unread_messages": "4MB"}})
    slow = monitor(shop, receive_buffer=4096)
    client = shop.client(timeout=20)
    value = "x" * 50_000
    for n in range(600):
        same(client.raw("SET", A, value), OK)
    eventually(lambda: "limits.unread_messages" in shop.proxy.log(), 10, "the slow one is cut")
    slow.read_until_closed()


@test
def large_requests_are_still_streamed_while_somebody_monitors(fresh):
    shop = fresh(config={"limits": {"buffered_request": "1MB"}})
    wire, client = monitor(shop), shop.client(timeout=20)
    value = b"x" * 3_000_000
    same(client.raw("SET", A, value), OK)
    same(words(wire.read()), b'"SET" "%s" "..."' % A.encode())
    same(client.raw("GET", A), bulk(value))
    same(words(wire.read()), b'"GET" "%s"' % A.encode())


@test
def pipelines_and_many_clients_are_shown_whole_and_in_each_ones_order(shop):
    wire = monitor(shop)
    count = 500

    def work(number):
        with shop.client("client %d" % number) as client:
            client.pipeline(*(("SET", "c%d:%d" % (number, n), n) for n in range(count)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    shown = [words(wire.read()) for _ in range(4 * count)]
    for thread in threads:
        thread.join()
    for number in range(4):
        mine = [line for line in shown if line.startswith(b'"SET" "c%d:' % number)]
        same(mine, [b'"SET" "c%d:%d" "%d"' % (number, n, n) for n in range(count)])


@test
def redis_py_monitors(shop):
    with redis.Redis(HOST, shop.forward_port).monitor() as watching:
        shop.client().ask("SET", A, "x y")
        got = watching.next_command()
        same((got["command"], got["db"]), ("SET %s x y" % A, 0))
