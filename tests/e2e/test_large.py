"""Large values: they pass through whole, in little memory, and nobody else waits for them."""
import hashlib
import random
import threading

from harness import processes
from harness.check import Failure, check, error, eventually, has, same
from harness.load import Crowd, Latency, best_of
from harness.resp import array, bulk, request
from harness.shop import key_on, keys_on
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"
MB = 1_000_000


def blocks(size, seed=1):
    """A value of `size` bytes in pieces that are not all alike."""
    base, sent = random.Random(seed).randbytes(1 << 20), 0
    while sent < size:
        piece = (b"%016d" % sent + base[16:])[: size - sent]
        yield piece
        sent += len(piece)


def digest(size, seed=1):
    total = hashlib.sha256()
    for piece in blocks(size, seed):
        total.update(piece)
    return total.hexdigest()


def send_set(client, key, size, seed=1):
    key = key.encode()
    client.socket.settimeout(60)
    client.send(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key, size))
    for piece in blocks(size, seed):
        client.socket.sendall(piece)
    client.send(b"\r\n")


def read_value(client, size):
    """The digest of a bulk reply of `size` bytes, read without holding it."""
    header = b"$%d\r\n" % size
    same(client.read_exactly(len(header)), header, "the head of the reply")
    total, left = hashlib.sha256(bytes(client.buffer[:size])), size - min(size, len(client.buffer))
    del client.buffer[:size]
    space = memoryview(bytearray(1 << 20))
    client.socket.settimeout(60)
    while left:
        got = client.socket.recv_into(space, min(left, len(space)))
        if not got:
            raise Failure("closed with %d of %d bytes to come" % (left, size))
        total.update(space[:got])
        left -= got
    same(client.read_exactly(2), b"\r\n", "the end of the reply")
    return total.hexdigest()


SIZES = sorted(
    {
        base + more
        for base in (16384, 65536, 65536 - 40, 1 * MB, 1 << 20, 2 * MB, 2 << 20)
        for more in (-2, -1, 0, 1, 2)
    }
)


@test(stock=True)
def values_around_every_threshold_pass_whole(shop):
    client = shop.client(timeout=15)
    source = random.Random(3).randbytes(max(SIZES))
    for n, size in enumerate(SIZES):
        key, text = key_on(n % 3, "size"), source[:size]
        same(
            client.pipeline(("SET", key, text), ("STRLEN", key), ("GET", key), ("ECHO", size)),
            [OK, b":%d\r\n" % size, bulk(text), bulk(size)],
            "%d bytes" % size,
        )


@test
def a_value_of_64_kb_takes_no_connection_of_its_own(shop):
    client = shop.client(timeout=15)

    def set_over_the_shared_connection(size):
        def behind_getrange():
            return shop.node(0).ask("CLIENT", "LIST").count(b" cmd=getrange ")

        same(client.raw("GETRANGE", A, 0, 0), bulk("x"))
        before = behind_getrange()
        same(client.raw("SET", A, b"x" * size), OK)
        return behind_getrange() < before

    same(client.raw("SET", A, "x"), OK)
    check(set_over_the_shared_connection(65_536), "64 KB over the shared connection")
    check(not set_over_the_shared_connection(100_000), "more over another one")


@test(stock=True)
def a_large_echo_and_a_large_error_pass_too(shop):
    client = shop.client(timeout=15)
    text = random.Random(4).randbytes(1_500_000)
    same(client.raw("ECHO", text), bulk(text))
    same(client.raw("PING", text), bulk(text))
    error(client.raw("NOSUCH", text), "ERR unknown command 'NOSUCH'")
    same(client.raw("PING"), PONG)


@test(stock=True)
def order_holds_when_commands_change_connections(shop):
    """Small and large commands travel differently; to the client they are one line."""
    client = shop.client(timeout=15)
    big, huge = b"b" * 200_000, b"h" * 2_000_000
    for key in (A, B, C):
        commands = [
            ("SET", key, "1"),
            ("SET", key, huge),
            ("APPEND", key, "x"),
            ("STRLEN", key),
            ("SET", key, "2"),
            ("INCR", key),
            ("SET", key, big),
            ("GETRANGE", key, 0, 1),
            ("SET", key, "5"),
            ("GET", key),
            ("SET", key, huge),
            ("GET", key),
            ("SET", key, "7"),
            ("GET", key),
            ("APPEND", key, big),
            ("STRLEN", key),
            ("DEL", key),
        ]
        wanted = [
            OK,
            OK,
            b":2000001\r\n",
            b":2000001\r\n",
            OK,
            b":3\r\n",
            OK,
            bulk("bb"),
            OK,
            bulk(5),
            OK,
            bulk(huge),
            OK,
            bulk(7),
            b":200001\r\n",
            b":200001\r\n",
            b":1\r\n",
        ]
        client.send(b"".join(request(*command) for command in commands))
        for command, reply in zip(commands, wanted):
            same(
                client.read(),
                reply,
                "the reply to %s %s" % (command[0], command[2:3] and str(command[2])[:10]),
            )


@test(stock=True)
def random_sizes_in_one_pipeline_stay_in_order(shop):
    client, chance = shop.client(timeout=15), random.Random(9)
    source = chance.randbytes(2_100_000)
    keys = keys_on(0, 2, "mix") + keys_on(1, 2, "mix") + keys_on(2, 2, "mix")
    store, data, wanted = {}, [], []
    for n in range(120):
        key, kind = chance.choice(keys), chance.random()
        if kind < 0.5:
            size = chance.choice((0, 10, 1000, 60_000, 65_536, 70_000, 300_000, 1_100_000))
            store[key] = source[n : n + size]
            data.append(request("SET", key, store[key]))
            wanted.append(OK)
        elif kind < 0.8:
            data.append(request("GET", key))
            wanted.append(bulk(store[key]) if key in store else NULL)
        elif kind < 0.9:
            data.append(request("STRLEN", key))
            wanted.append(b":%d\r\n" % len(store.get(key, b"")))
        else:
            data.append(request("MGET", *keys[:3]))
            wanted.append(
                array(*[bulk(store[each]) if each in store else NULL for each in keys[:3]])
            )
    sender = threading.Thread(target=client.socket.sendall, args=(b"".join(data),))
    sender.start()
    for n, reply in enumerate(wanted):
        same(client.read(), reply, "reply %d" % n)
    sender.join()


@test(stock=True)
def a_large_mset_and_mget_are_split_and_merged_whole(shop):
    client = shop.client(timeout=15)
    keys = keys_on(0, 5, "m") + keys_on(1, 5, "m") + keys_on(2, 5, "m")
    text = {key: random.Random(key).randbytes(300_000 + n) for n, key in enumerate(keys)}
    same(client.raw("MSET", *[part for key in keys for part in (key, text[key])]), OK)
    same(client.raw("MGET", *keys), array(*[bulk(text[key]) for key in keys]), "the merged reply")
    same(
        client.pipeline(("SET", keys[0], "s"), ("MGET", keys[0], keys[5]), ("GET", keys[0])),
        [OK, array(bulk("s"), bulk(text[keys[5]])), bulk("s")],
    )


@test(stock=True)
def large_collections_pass_whole(shop):
    client = shop.client(timeout=15)
    for start in range(0, 60_000, 10_000):
        client.ask("RPUSH", C, *["element-%d" % n for n in range(start, start + 10_000)])
    client.send(request("LRANGE", C, 0, -1) + request("LLEN", C) + request("GET", A))
    same(client.read(), array(*[bulk("element-%d" % n) for n in range(60_000)]), "the list")
    same(client.read_many(2), [b":60000\r\n", NULL])


@test(long=True, seconds=90)
def a_value_of_256_mb_passes_and_others_do_not_wait(fresh, stock):
    shop = fresh(config={"timeouts": {"node_silent": "5s"}})
    size, client = 256 * MB, shop.client(timeout=30)
    shop.client().ask("SET", A, 1)
    processes.reset_peak_memory(shop.proxy.pid)
    before = shop.proxy.memory()

    def set_and_get_beside(how, key):
        # While the node itself takes in 256 MB it serves nobody; only another node's clients can be
        # promised anything then.
        waiting = Latency(shop.forward, stock.address, *(("GET", key) if key == A else ("PING",)))
        send_set(client, C, size)
        same(client.read(), OK)
        client.send(request("STRLEN", C) + request("GET", C) + request("ECHO", "after"))
        same(client.read(), b":%d\r\n" % size)
        same(read_value(client, size), digest(size), "the value's hash")
        same(client.read(), bulk("after"))
        return waiting.delay(0.05, "SET and GET of 256 MB beside %s clients" % how)

    for how, key in (("another node's", A), ("this node's", key_on(2, skip=1))):
        best_of(3, lambda how=how, key=key: set_and_get_beside(how, key))
    grown = shop.proxy.memory("VmHWM") - before
    check(grown < 64 * MB, "the proxy grew by %d MB at its peak" % (grown // MB))


@test(slow=True, seconds=240)
def twenty_clients_with_large_values_at_once(fresh, stock):
    shop = fresh(config={"timeouts": {"node_silent": "20s", "connect": "20s"}})  # Busy nodes.
    size, failures = 64 * MB, []
    before = shop.proxy.memory()
    waiting = Latency(shop.forward, stock.address, "PING")

    def set_and_get(number):
        try:
            client = shop.client("client %d" % number, timeout=120)
            key = key_on(number % 3, "large%d:" % number)
            send_set(client, key, size, seed=number)
            same(client.read(), OK)
            client.send(request("GET", key))
            same(
                read_value(client, size), digest(size, seed=number), "client %d: the hash" % number
            )
        except (Failure, OSError) as why:
            failures.append(str(why))

    threads = [threading.Thread(target=set_and_get, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(not failures, "\n".join(failures[:5]))
    delay = waiting.delay(0.1, "20 clients with 64 MB each")
    check(not delay, delay)
    grown = shop.proxy.memory("VmHWM") - before
    check(grown < 600 * MB, "the proxy grew by %d MB at its peak" % (grown // MB))


@test
def a_slow_sender_of_a_large_value_holds_nobody_up(fresh):
    shop = fresh(workers=1)
    slow, other = shop.client("slow sender"), shop.client("other client")
    text = b"s" * 500_000
    data = request("SET", C, text)
    slow.send(data[:300_000])
    for n in range(100):
        same(
            other.pipeline(("SET", C, n), ("GET", C), ("SET", key_on(2, skip=2), n)),
            [OK, bulk(n), OK],
        )
    slow.send(data[300_000:])
    same(slow.read(), OK)
    same(other.raw("GET", C), bulk(text))


@test
def a_sender_that_breaks_off_leaves_no_value_behind(fresh):
    shop = fresh()
    other = shop.client("other client")
    other.ask("SET", C, "old")
    for size in (100_000, 3_000_000):
        for _ in range(5):
            leaver = shop.client("leaver")
            leaver.send(request("SET", C, b"n" * size)[: size - 1000])
            leaver.close()
    for n in range(50):
        same(other.pipeline(("GET", C), ("ECHO", n)), [bulk("old"), bulk(n)])


@test
def a_reader_that_breaks_off_leaves_no_bytes_for_others(fresh):
    shop = fresh(workers=1)
    other = shop.client("other client", timeout=10)
    text = random.Random(6).randbytes(3_000_000)
    other.ask("SET", C, text)
    for _ in range(10):
        leaver = shop.client("leaver")
        leaver.send(request("GET", C) * 3)
        leaver.read_exactly(1000)
        leaver.close()
        same(
            other.pipeline(("ECHO", "x"), ("GET", C), ("STRLEN", C)),
            [bulk("x"), bulk(text), b":3000000\r\n"],
        )


@test
def a_node_that_refuses_a_large_argument_hurts_nobody_else(fresh):
    shop = fresh(node_args=("--proto-max-bulk-len", "1mb"), workers=1)
    client = shop.client(timeout=10)
    with Crowd(shop.forward, keys_on(2, 50, "w"), pairs=2) as crowd:
        crowd.wait_for(500)
        for _ in range(5):
            sender = shop.client("sender", timeout=10)
            try:
                sender.send(request("SET", C, b"z" * 2_000_000) + request("ECHO", "next"))
                got = sender.read()
                check(got[:1] == b"-", "a refused SET was answered with %r" % got)
                same(sender.read(), bulk("next"))
            except Failure as why:
                has(str(why), "closed", what="what the sender saw")
            crowd.wait_for(500)
        crowd.verdict()
    same(client.raw("EXISTS", C), b":0\r\n")
    same(client.raw("SET", C, "small"), OK)


@test
def an_argument_above_the_limit_is_redis_s_protocol_error(fresh):
    shop = fresh(config={"limits": {"bulk": "1MiB"}})
    with shop.client() as client:
        same(client.raw("SET", C, b"x" * (1 << 20)), OK)
        client.send(b"*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$%d\r\n" % ((1 << 20) + 1))
        same(client.read_until_closed(), b"-ERR Protocol error: invalid bulk length\r\n")
    same(shop.client().raw("STRLEN", C), b":%d\r\n" % (1 << 20))


@test
def a_request_that_must_be_held_whole_has_its_own_limit(fresh):
    shop = fresh(config={"limits": {"buffered_request": "1MB"}})
    client = shop.client(timeout=10)
    client.send(
        request(
            "MSET",
            *[part for key in keys_on(0, 4) + keys_on(1, 4) for part in (key, b"x" * 300_000)],
        )
    )
    got = client.read()
    error(got, "ERR", what="an MSET of 2.4 MB with a limit of 1 MB")
    eventually(lambda: shop.client().raw("SET", A, 1) == OK, 2, "others are served")
    same(shop.client().raw("EXISTS", key_on(0), key_on(1)), b":0\r\n")


@test
def more_large_requests_than_connections_wait_their_turn(fresh):
    shop = fresh(config={"limits": {"large_connections": 2}})
    senders = [shop.client("sender %d" % n, timeout=20) for n in range(12)]
    threads = [
        threading.Thread(
            target=sender.send, args=(request("SET", key_on(2, skip=n), b"%d" % n * 700_000),)
        )
        for n, sender in enumerate(senders)
    ]
    for thread in threads:
        thread.start()
    for sender, thread in zip(senders, threads):
        same(sender.read(), OK)
        thread.join()
    same(shop.client().raw("STRLEN", key_on(2, skip=11)), b":1400000\r\n")
