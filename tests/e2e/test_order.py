"""Order: a client's replies come in the order of its requests, whatever the nodes do and however
commands travel."""
import random
import time

from harness.check import check, error, same
from harness.load import Crowd
from harness.resp import array, bulk, request
from harness.shop import key_on, keys_on
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"


@test(stock=True)
def commands_of_one_client_never_overtake_each_other(shop):
    client = shop.client()
    for start in range(0, 10000, 500):
        client.send(
            b"".join(
                request("SET", "a", n)
                + request("GET", "a")
                + request("APPEND", "a", "x")
                + request("GET", "a")
                for n in range(start, start + 500)
            )
        )
        wanted = []
        for n in range(start, start + 500):
            wanted += [OK, bulk(n), b":%d\r\n" % (len(str(n)) + 1), bulk("%dx" % n)]
        same(client.read_many(2000), wanted)


@test
def a_slow_node_delays_replies_and_never_reorders_them(fresh):
    shop = fresh(config={"timeouts": {"node_silent": "5s"}})
    client = shop.client()
    client.ask("MSET", A, 0, B, "b", C, "c")
    commands, wanted = [], []
    for n in range(1, 1001):
        commands += [("GET", C), ("INCR", A), ("GET", B), ("MGET", A, C, B), ("ECHO", n)]
        wanted += [
            bulk("c"),
            b":%d\r\n" % n,
            bulk("b"),
            array(bulk(n), bulk("c"), bulk("b")),
            bulk(n),
        ]
    shop.node(0).stop()
    try:
        client.send(b"".join(request(*command) for command in commands))
        same(client.read(), wanted[0], "the reply ahead of the first of the slow node")
        check(client.silent(0.2), "nothing overtakes the slow node's reply")
    finally:
        shop.node(0).go_on()
    same(client.read_many(len(wanted) - 1), wanted[1:])


@test
def a_slow_node_holds_nobody_up_who_does_not_ask_it(fresh):
    shop = fresh(config={"timeouts": {"node_silent": "5s"}})
    waiting, other = shop.client("waiting client"), shop.client("other client")
    waiting.ask("GET", A)  # Its connection to the node is there.
    shop.node(0).stop()
    try:
        waiting.send(request("GET", A))
        for n in range(300):
            same(
                other.pipeline(("SET", B, n), ("GET", B), ("MGET", B, C), ("PING",)),
                [OK, bulk(n), array(bulk(n), NULL), PONG],
            )
        check(waiting.silent(0), "the slow node has not answered")
    finally:
        shop.node(0).go_on()
    same(waiting.read(), NULL)


@test
def a_delayed_node_in_a_long_pipeline(fresh):
    shop = fresh(relays=(0,))
    client = shop.client()
    client.ask("SET", A, 0)
    shop.relays[0].delay = 0.02
    commands, wanted = [], []
    for n in range(1, 301):
        commands += [("GET", B), ("INCR", A), ("ECHO", n), ("EXISTS", A, B, C)]
        wanted += [NULL, b":%d\r\n" % n, bulk(n), b":1\r\n"]
    same(client.pipeline(*commands), wanted)


def script_of(seed, length):
    """Random commands over all nodes with their replies, worked out on a dict."""
    chance, store, commands, wanted = random.Random(seed), {}, [], []
    keys = (
        keys_on(0, 4, "o%d:" % seed) + keys_on(1, 4, "o%d:" % seed) + keys_on(2, 4, "o%d:" % seed)
    )
    for n in range(length):
        key, kind = chance.choice(keys), chance.randrange(12)
        text = "%d|%d|%s" % (seed, n, "x" * chance.choice((0, 1, 30, 500)))
        some = chance.sample(keys, chance.randint(1, 6))
        if kind <= 2:
            commands.append(("SET", key, text)), wanted.append(OK)
            store[key] = text
        elif kind <= 5:
            commands.append(("GET", key)), wanted.append(bulk(store[key]) if key in store else NULL)
        elif kind == 6:
            commands.append(("APPEND", key, "+"))
            store[key] = store.get(key, "") + "+"
            wanted.append(b":%d\r\n" % len(store[key]))
        elif kind == 7:
            commands.append(("MGET", *some))
            wanted.append(array(*[bulk(store[each]) if each in store else NULL for each in some]))
        elif kind == 8:
            commands.append(("MSET", *[part for each in some for part in (each, text)]))
            store.update((each, text) for each in some)
            wanted.append(OK)
        elif kind == 9:
            command = chance.choice(("DEL", "UNLINK", "EXISTS", "TOUCH"))
            commands.append((command, *some))
            wanted.append(b":%d\r\n" % sum(each in store for each in some))
            if command in ("DEL", "UNLINK"):
                for each in some:
                    store.pop(each, None)
        elif kind == 10:
            commands.append(chance.choice((("ECHO", text), ("PING", text)))), wanted.append(
                bulk(text)
            )
        else:
            commands.append(chance.choice((("GET",), ("NOSUCH", "x"), ("SET", key, "1", "BAD"))))
            wanted.append(
                {
                    1: b"-ERR wrong number of arguments for 'get' command\r\n",
                    2: b"-ERR unknown command 'NOSUCH', with args beginning with: 'x' \r\n",
                    4: b"-ERR syntax error\r\n",
                }[len(commands[-1])]
            )
    return commands, wanted


@test(stock=True)
def thousands_of_mixed_commands_give_the_replies_of_a_model(shop):
    for seed in range(20):
        commands, wanted = script_of(seed, 1000)
        got = shop.client("client of seed %d" % seed).pipeline(*commands)
        for n, (ours, theirs) in enumerate(zip(got, wanted)):
            same(ours, theirs, "seed %d: the reply to command %d, %s," % (seed, n, commands[n]))


@test(stock=True)
def many_pipelines_at_once_stay_apart(shop):
    plays = [
        (shop.client("client of seed %d" % seed), *script_of(seed, 600)) for seed in range(100, 130)
    ]
    for client, commands, _ in plays:
        client.send(b"".join(request(*command) for command in commands))
    for client, commands, wanted in plays:
        same(client.read_many(len(wanted)), wanted, "the replies of the %s" % client.name)


@test(stock=True)
def unique_values_are_never_foreign(shop):
    keys = keys_on(0, 20, "u") + keys_on(1, 20, "u") + keys_on(2, 20, "u")
    with Crowd(shop.forward, keys, pairs=8) as crowd:
        crowd.wait_for(60000, seconds=25)
        crowd.verdict()


@test(stock=True)
def endpoint_pipelines_keep_their_order_too(shop):
    client, foreign = shop.at(0), key_on(1)
    own = key_on(0)
    commands = [
        part for n in range(2000) for part in (("SET", own, n), ("GET", foreign), ("GET", own))
    ]
    got = client.pipeline(*commands)
    for n in range(2000):
        same(got[3 * n], OK)
        error(got[3 * n + 1], "MOVED")
        same(got[3 * n + 2], bulk(n))


@test(stock=True)
def replies_arrive_without_waiting_for_the_end_of_the_pipeline(shop):
    client = shop.client()
    client.send(request("SET", A, 1) + request("GET", A) + request("SET", B, 1)[:10])
    began = time.monotonic()
    same(client.read_many(2), [OK, bulk(1)])
    check(time.monotonic() - began < 1, "whole requests are answered while one is unfinished")
    client.send(request("SET", B, 1)[10:])
    same(client.read(), OK)
