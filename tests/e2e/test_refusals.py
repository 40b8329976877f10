"""What a node refuses for what it is now (out of memory, too few replicas, a script that does not end), and when a
transaction hears of it."""
from harness import resp
from harness.check import Failure, check, eventually, same
from harness.shop import key_on
from harness.tests import test

OK, QUEUED, PONG = b"+OK\r\n", b"+QUEUED\r\n", b"+PONG\r\n"
ABORTED = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
OOM = b"-OOM command not allowed when used memory > 'maxmemory'.\r\n"
KEY = key_on(0)

# What is set at the node, what that makes it refuse, and with which word.
REFUSING = {
    "out of memory": ({"maxmemory": "1"}, ("SET", KEY, "1"), b"-OOM "),
    "too few replicas": ({"min-replicas-to-write": "2"}, ("INCR", KEY), b"-NOREPLICAS "),
}


def refused(client, *args):
    """The reply, which has to be an error: the node has been met as it is now."""

    def ask():
        reply = client.raw(*args)
        return reply if reply.startswith(b"-") else None

    return eventually(ask, 5, "%s refused" % (args,))


@test(stock=True)
def what_a_node_refuses_now_is_refused_when_it_is_queued(shop, stock):
    server, own = shop.nodes[0], stock.client()
    for what in ("out of memory", "too few replicas"):
        settings, request, word = REFUSING[what]
        for name, value in settings.items():
            server.ask("CONFIG", "SET", name, value)
            own.raw("CONFIG", "SET", name, value)
        try:
            with shop.client() as other:
                check(refused(other, *request).startswith(word), "not refused with %s" % word)
            with shop.client() as client:
                for ask in (client.raw, own.raw):
                    who = "%s, %s" % (what, "the proxy" if ask == client.raw else "redis")
                    same(ask("MULTI"), OK, who)
                    check(ask(*request).startswith(word), "%s is not refused as it is queued: %s" % (request[0], who))
                    # Without memory Redis queues not even a read.
                    same(ask("GET", KEY), OOM if word == b"-OOM " else QUEUED, "a read behind it, " + who)
                    same(ask("EXEC"), ABORTED, who)
                    same(ask("MULTI"), OK, who)
                    check(ask(*request).startswith(word), who)
                    same(ask("DISCARD"), OK, who)
                    same(ask("PING"), PONG, who)
        finally:
            for ask in (server.ask, own.ask):
                ask("CONFIG", "SET", "maxmemory", "0")
                ask("CONFIG", "SET", "min-replicas-to-write", "0")


@test
def what_looks_whether_a_node_refuses_leaves_nothing_behind(shop):
    server = shop.nodes[0]
    server.ask("CONFIG", "SET", "maxmemory", "1")
    with shop.client() as client:
        try:
            refused(client, "SET", KEY, "2")
        finally:
            server.ask("CONFIG", "SET", "maxmemory", "0")
        before = server.ask("DBSIZE")
        got = client.pipeline(("MULTI",), ("SET", KEY, "2"), ("GET", KEY), ("DEL", KEY), ("EXEC",))
        same(got, [OK, QUEUED, QUEUED, QUEUED, b"*3\r\n+OK\r\n$1\r\n2\r\n:1\r\n"])
        same(server.ask("DBSIZE"), before, "the node's number of keys")


@test
def a_client_that_changes_the_nodes_settings_is_refused_at_once(fresh):
    shop = fresh(config={"allow_config": True})
    with shop.client() as client, shop.client() as admin:
        same(client.raw("MULTI"), OK)
        same(client.raw("SET", KEY, "1"), QUEUED)
        same(admin.raw("CONFIG", "SET", "maxmemory", "1"), OK)
        same(client.raw("SET", KEY, "2"), OOM)
        same(admin.raw("CONFIG", "SET", "maxmemory", "0"), OK)
        same(client.raw("EXEC"), ABORTED)
        same(client.raw("EXISTS", KEY), b":0\r\n")


@test
def a_transaction_of_a_node_that_a_script_keeps_is_refused_as_it_is_queued(shop):
    server = shop.nodes[0]
    server.ask("CONFIG", "SET", "busy-reply-threshold", "10")
    with server.client() as looping, shop.client() as client:
        looping.send(resp.request("EVAL", "while true do end", 0))
        try:
            check(refused(client, "GET", KEY).startswith(b"-BUSY "), "not BUSY")
            same(client.raw("MULTI"), OK)
            check(client.raw("GET", KEY).startswith(b"-BUSY "), "GET is queued")
        finally:
            server.ask("SCRIPT", "KILL")
            looping.read()
            server.ask("CONFIG", "SET", "busy-reply-threshold", "5000")
        same(client.raw("EXEC"), ABORTED)
        same(client.raw("PING"), PONG)


@test
def a_script_that_does_not_end_keeps_nobody_else_waiting(fresh):
    """Others hear BUSY, as from one server, whichever worker they and the script have come to."""
    shop = fresh(config={"workers": 1})
    server = shop.nodes[0]
    server.ask("CONFIG", "SET", "busy-reply-threshold", "10")
    with shop.client() as looping, shop.client() as behind, shop.client() as client:
        looping.send(resp.request("EVAL", "while true do end", 1, KEY))
        # What has gone the same way already is answered once the script has ended.
        behind.send(resp.request("GET", KEY))

        def is_busy():
            with shop.client() as other:
                other.timeout = 0.3
                try:
                    return other.raw("GET", KEY).startswith(b"-BUSY ")
                except Failure:
                    return False

        try:
            eventually(is_busy, 5, "others hear BUSY")
            same(client.raw("MULTI"), OK)
            check(client.raw("SET", KEY, "1").startswith(b"-BUSY "), "SET is queued")
        finally:
            with shop.client() as killer:
                same(killer.raw("SCRIPT", "KILL"), OK)
        check(b"killed" in looping.read(), "the script's own client")
        same(behind.read(), b"$-1\r\n")
        same(client.raw("EXEC"), ABORTED)
        eventually(lambda: client.raw("SET", KEY, "1") == OK, 5, "the node serves again")
        same(behind.raw("GET", KEY), b"$1\r\n1\r\n")
