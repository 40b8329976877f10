"""CLIENT PAUSE: the proxy holds its own clients, over all workers and ports, and never the nodes'."""
import signal
import threading
import time

from harness import resp
from harness.check import check, error, eventually, has, lacks, same
from harness.resp import request
from harness.shop import key_on
from harness.tests import test

OK, QUEUED, PONG = b"+OK\r\n", b"+QUEUED\r\n", b"+PONG\r\n"
A, B, C = (key_on(place) for place in (0, 1, 2))
LONG = 100_000
FUNCTIONS = """#!lua name=lib
redis.register_function{function_name='reads', callback=function() return 'r' end, flags={'no-writes'}}
redis.register_function('writes', function() return 'w' end)
"""


def blocked(asking):
    return int(asking.ask("INFO", "clients").split(b"blocked_clients:")[1].split(b"\r\n")[0])


def wait_blocked(asking, count):
    eventually(
        lambda: blocked(asking) == count,
        5,
        lambda: "blocked_clients is %d, and should be %d" % (blocked(asking), count),
    )


class Paused:
    """A pause until the end of the block, or `unpause()`."""

    def __init__(self, shop, *mode):
        self.wire, self.mode, self.is_over = shop.client("client that pauses"), mode, False

    def __enter__(self):
        same(self.wire.raw("CLIENT", "PAUSE", LONG, *self.mode), OK)
        return self

    def unpause(self):
        self.is_over = True
        same(self.wire.raw("CLIENT", "UNPAUSE"), OK)

    def __exit__(self, *_):
        if not self.is_over:
            self.unpause()


@test
def writes_wait_on_every_worker_and_port_until_the_pause_is_taken_back(shop):
    clients = [shop.client("client %d" % n) for n in range(12)]
    clients += [shop.at(place) for place in (0, 1, 2) for _ in range(2)]
    keys = [A] * 12 + [A, A, B, B, C, C]
    with Paused(shop, "WRITE") as pause:
        for n, (client, key) in enumerate(zip(clients, keys)):
            client.send(request("RPUSH", key, n))
        wait_blocked(pause.wire, len(clients))
        same(shop.node(0).ask("EXISTS", A), 0, "what the node has meanwhile")
        same(shop.node(0).ask("SET", "{%s}own" % A, 1), "OK", "a write at the node itself")
        listed = pause.wire.ask("CLIENT", "LIST").decode()
        same(listed.count(" flags=b "), len(clients), "flags in CLIENT LIST: " + listed)
        pause.unpause()
        for client in clients:
            same(client.read()[:1], b":", "the kind of reply")
        wait_blocked(pause.wire, 0)
    same(len(shop.client().ask("LRANGE", A, 0, -1)), 14, "how many have written")


@test
def reads_and_what_only_the_proxy_knows_go_on_while_writes_wait(shop):
    client = shop.client()
    client.ask("SET", A, "v")
    with Paused(shop, "WRITE") as pause:
        same(
            client.pipeline(("GET", A), ("PING",), ("MGET", A, B), ("EXISTS", A), ("SELECT", 0)),
            [b"$1\r\nv\r\n", PONG, b"*2\r\n$1\r\nv\r\n$-1\r\n", b":1\r\n", OK],
        )
        same(client.pipeline(("MULTI",), ("GET", A), ("PING",), ("EXEC",))[-1], b"*2\r\n$1\r\nv\r\n+PONG\r\n")
        same(blocked(pause.wire), 0, "blocked_clients")


@test
def what_a_client_sends_behind_a_write_waits_too_and_replies_keep_their_order(shop):
    client = shop.client()
    with Paused(shop, "WRITE") as pause:
        client.send(
            request("PING", "before") + request("SET", A, 1) + request("GET", A) + request("INCR", A)
            + request("GET", B) + request("APPEND", B, "x" * 100_000) + request("STRLEN", B)
        )
        same(client.read(), resp.bulk("before"))
        wait_blocked(pause.wire, 1)
        same(client.buffer, b"", "what came behind it")
        pause.unpause()
        wanted = [OK, b"$1\r\n1\r\n", b":2\r\n", b"$-1\r\n", b":100000\r\n", b":100000\r\n"]
        same(client.read_many(len(wanted)), wanted)


@test
def a_large_request_is_not_begun_during_a_pause(fresh):
    shop = fresh(config={"limits": {"stream_request": "64KB"}})
    client, value = shop.client(timeout=10), "x" * 3_000_000
    with Paused(shop, "WRITE") as pause:
        thread = threading.Thread(target=client.send, args=(request("SET", A, value),), daemon=True)
        thread.start()
        wait_blocked(pause.wire, 1)
        pause.unpause()
        same(client.read(), OK)
        thread.join(10)
    same(client.ask("STRLEN", A), len(value))


@test
def what_counts_as_a_write(shop):
    shop.client().ask("PFADD", A, "x")
    scripts = [("EVAL", "return 1", 0), ("EVAL", "#!lua\nreturn 1", 0)]
    sha = shop.client().ask("SCRIPT", "LOAD", "return 2").decode()
    requests = scripts + [("PFCOUNT", A), ("EVALSHA", sha, 0), ("EVALSHA", "f" * 40, 0), ("DEL", B)]
    wanted = [b":1\r\n", b":1\r\n", b":1\r\n", b":2\r\n", b"-NOSCRIPT", b":0\r\n"]
    clients = [shop.client("client that says %s" % (args,)) for args in requests]
    with Paused(shop, "WRITE") as pause:
        for n, (client, args) in enumerate(zip(clients, requests), 1):
            client.send(request(*args))
            wait_blocked(pause.wire, n)
        pause.unpause()
        for client, args, reply in zip(clients, requests, wanted):
            same(client.read()[: len(reply)], reply, "the reply to %s" % (args,))


@test
def scripts_and_functions_that_declare_that_they_do_not_write_go_on(shop):
    client = shop.client()
    client.ask("SET", A, "v")
    client.ask("FUNCTION", "LOAD", "REPLACE", FUNCTIONS)
    read_only = "#!lua flags=no-writes\nreturn 'fresh'"
    with Paused(shop, "WRITE") as pause:
        same(client.ask("EVAL", read_only, 0), b"fresh")
        same(client.ask("EVAL_RO", "return redis.call('GET', KEYS[1])", 1, A), b"v")
        sha = client.ask("SCRIPT", "LOAD", "#!lua flags=no-writes\nreturn 2").decode()
        same(client.ask("EVALSHA", sha, 0), 2)
        same(client.ask("FCALL", "reads", 0), b"r")
        same(client.ask("FCALL_RO", "reads", 1, B), b"r")
        got = client.pipeline(("MULTI",), ("EVAL", read_only, 0), ("EVALSHA", sha, 0), ("FCALL", "reads", 0), ("EXEC",))
        same(got[-1], b"*3\r\n$5\r\nfresh\r\n:2\r\n$1\r\nr\r\n")
        writers = [shop.client("client %d" % n) for n in range(3)]
        writers[0].send(request("FCALL", "writes", 0))
        writers[1].send(request("FCALL", "nosuch", 0))
        writers[2].send(request("MULTI") + request("FCALL", "writes", 0) + request("EXEC"))
        wait_blocked(pause.wire, 3)
        pause.unpause()
        same(writers[0].read(), b"$1\r\nw\r\n")
        error(writers[1].read(), "ERR", "Function not found")
        same(writers[2].read_many(3), [OK, QUEUED, b"*1\r\n$1\r\nw\r\n"])


@test
def a_transaction_is_queued_during_a_pause_and_its_exec_waits_if_it_writes(shop):
    client = shop.client()
    with Paused(shop, "WRITE") as pause:
        same(client.pipeline(("MULTI",), ("SET", A, 1), ("GET", A)), [OK, QUEUED, QUEUED])
        client.send(request("EXEC"))
        wait_blocked(pause.wire, 1)
        spoiled = shop.client()
        got = spoiled.pipeline(("MULTI",), ("SET", A, 2), ("NOSUCH",), ("EXEC",))
        error(got[-1], "EXECABORT")
        same(spoiled.pipeline(("MULTI",), ("SET", A, 2), ("DISCARD",)), [OK, QUEUED, OK])
        pause.unpause()
        same(client.read(), b"*2\r\n+OK\r\n$1\r\n1\r\n")


@test
def a_pause_inside_a_transaction_begins_behind_it(shop):
    client = shop.client()
    got = client.pipeline(
        ("MULTI",), ("SET", A, 1), ("CLIENT", "PAUSE", LONG, "WRITE"), ("INCR", A), ("EXEC",), ("GET", A)
    )
    same(got[-2:], [b"*3\r\n+OK\r\n+OK\r\n:2\r\n", b"$1\r\n2\r\n"])
    others = [shop.client("client %d" % n) for n in range(6)]
    for other in others:
        other.send(request("INCR", A))
    wait_blocked(client, len(others))
    same(client.pipeline(("MULTI",), ("CLIENT", "UNPAUSE"), ("EXEC",))[-1], b"*1\r\n+OK\r\n")
    same(sorted(other.read() for other in others), [b":%d\r\n" % n for n in range(3, 9)])
    # Also for what stands behind EXEC in the same bytes.
    client.send(
        request("MULTI") + request("CLIENT", "PAUSE", LONG, "WRITE") + request("EXEC") + request("INCR", A)
    )
    same(client.read_many(3)[2], b"*1\r\n+OK\r\n")
    wait_blocked(others[0], 1)
    same(others[0].raw("CLIENT", "UNPAUSE"), OK)
    same(client.read(), b":9\r\n")


@test
def a_pause_of_all_holds_reads_too_and_ends_by_itself(shop):
    clients = [shop.client("client %d" % n) for n in range(8)]
    began = time.monotonic()
    same(clients[0].raw("CLIENT", "PAUSE", 400), OK)
    for client in clients:
        client.send(request("PING") + request("GET", A))
    for client in clients:
        same(client.read_many(2), [PONG, b"$-1\r\n"])
    took = time.monotonic() - began
    check(took >= 0.4, "it was over after %.3f s instead of 0.4 s" % took)


@test
def a_pause_in_force_only_grows(shop):
    client, other = shop.client(), shop.client()
    same(client.raw("CLIENT", "PAUSE", 600, "WRITE"), OK)
    same(client.raw("CLIENT", "PAUSE", 1, "WRITE"), OK, "a shorter one")
    began = time.monotonic()
    same(other.raw("SET", A, 1), OK)
    check(time.monotonic() - began > 0.4, "a shorter one has ended it after %.3f s" % (time.monotonic() - began))
    same(client.raw("CLIENT", "PAUSE", 600, "WRITE"), OK)
    same(client.raw("CLIENT", "PAUSE", 1, "ALL"), OK, "a stricter one")
    began = time.monotonic()
    same(other.raw("PING"), PONG)
    check(time.monotonic() - began > 0.4, "reads went on after %.3f s" % (time.monotonic() - began))


@test
def what_is_wrong_with_a_request_is_said_at_once(shop):
    client = shop.client()
    with Paused(shop, "WRITE"):
        error(client.raw("SET", A), "ERR", "wrong number of arguments for 'set' command")
        error(client.raw("NOSUCH", A), "ERR", "unknown command")
    same(client.raw("CLIENT", "PAUSE", 300), OK)
    began = time.monotonic()
    error(client.raw("GET"), "ERR", "wrong number of arguments")
    error(client.raw("NOSUCH"), "ERR", "unknown command")
    check(time.monotonic() - began < 0.3, "it took %.3f s" % (time.monotonic() - began))
    same(client.raw("PING"), PONG)


@test
def a_client_that_was_not_logged_in_is_told_so_at_once(fresh):
    shop = fresh(config={"listen": {"password": "secret"}}, start=False)
    shop.start(wait_nodes=False)
    client = shop.client()
    same(client.raw("AUTH", "secret"), OK)
    eventually(lambda: client.raw("SET", A, 1) == OK, 10, "the node is served")
    same(client.raw("CLIENT", "PAUSE", LONG, "WRITE"), OK)
    error(shop.client().raw("SET", A, 2), "NOAUTH")
    same(client.raw("CLIENT", "UNPAUSE"), OK)


@test
def a_client_that_leaves_during_a_pause_has_written_nothing(shop):
    with Paused(shop, "WRITE") as pause:
        leaving, killed = shop.client(), shop.client()
        leaving.send(request("SET", A, "left"))
        killed.send(request("SET", B, "killed"))
        wait_blocked(pause.wire, 2)
        number = [line for line in pause.wire.ask("CLIENT", "LIST").decode().split("\n") if "flags=b" in line]
        address = "%s:%d" % killed.socket.getsockname()
        found = [line for line in number if "addr=" + address in line][0]
        same(pause.wire.ask("CLIENT", "KILL", "ID", found.split()[0].split("=")[1]), 1)
        leaving.close()
        wait_blocked(pause.wire, 1)
        pause.unpause()
    wait_blocked(pause.wire, 0)
    same(shop.client().ask("EXISTS", A, B), 0)


@test
def sigterm_does_not_wait_for_the_end_of_a_pause(fresh):
    shop = fresh(config={"timeouts": {"drain": "20s"}})
    with Paused(shop, "WRITE") as pause:
        clients = [shop.client("client %d" % n) for n in range(6)]
        for client in clients:
            client.send(request("GET", A) + request("SET", A, 1) + request("PING"))
            same(client.read(), b"$-1\r\n")
        wait_blocked(pause.wire, len(clients))
        began = time.monotonic()
        shop.proxy.signal(signal.SIGTERM)
        for client in clients:
            same(client.read_until_closed(), b"", "what a held client still reads")
        same(shop.proxy.wait_exit(), 0, "the exit status")
        check(time.monotonic() - began < 5, "it took %.1f s" % (time.monotonic() - began))
        pause.is_over = True
    same(shop.node(0).ask("EXISTS", A), 0)
