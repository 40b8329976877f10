"""Transactions: queued in the proxy, executed whole by one node, and in Redis's words."""
import hashlib
import threading

import redis

from harness import plans, resp
from harness.check import Failure, check, error, eventually, same, shown
from harness.resp import array, bulk
from harness.shop import HOST
from harness.tests import test

OK, QUEUED, PONG = b"+OK\r\n", b"+QUEUED\r\n", b"+PONG\r\n"
ABORTED = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.
SCRIPT = "return {KEYS[1], ARGV[1]}"
DIGEST = hashlib.sha1(SCRIPT.encode()).hexdigest()

# Each is what one client says on a new connection; the answers must be those of one redis-server.
TALKS = {
    "a whole transaction": "MULTI|SET s 1|INCR s|GET s|EXEC|GET s",
    "an empty one": "MULTI|EXEC|MULTI|DISCARD",
    "only commands without keys": "MULTI|PING|ECHO x|PING y|COMMAND COUNT|EXEC",
    "with and without keys": "MULTI|PING|SET s 1|ECHO x|EXEC",
    "discarded": "SET s 0|MULTI|SET s 1|DISCARD|GET s|EXEC",
    "nothing open": "EXEC|DISCARD|EXEC x|DISCARD x|MULTI x|GET s",
    "nested": "MULTI|MULTI|SET s 1|MULTI|EXEC|GET s",
    "an unknown command": "MULTI|SET s 1|NOSUCH a b|GET s|EXEC|GET s",
    "an unknown subcommand": "MULTI|CLIENT NOSUCH|EXEC",
    "a wrong arity": "MULTI|SET s|GET s|EXEC|PING",
    "a wrong arity of a subcommand": "MULTI|CLIENT SETNAME|EXEC",
    "EXEC with an argument": "MULTI|SET s 1|EXEC x|EXEC|GET s",
    "DISCARD with an argument": "MULTI|SET s 1|DISCARD x|EXEC|GET s",
    "not in a transaction": "MULTI|SAVE|EXEC|MULTI|SHUTDOWN|EXEC|MULTI|SYNC|EXEC",
    "errors of single commands": "MULTI|SET s x|INCR s|LPUSH s a|GET s|EXEC",
    "broken, then discarded": "MULTI|NOSUCH|DISCARD|MULTI|SET s 1|EXEC",
    "broken, then a good one": "MULTI|NOSUCH|EXEC|MULTI|SET s 1|EXEC|EXEC",
    "RESET": "MULTI|SET s 1|RESET|EXEC|GET s",
    "all types": "MULTI|DEL l|RPUSH l 1 2 3|LRANGE l 0 -1|LINDEX l 9|EXEC"
    "|MULTI|HSET h f v|HGETALL h|EXEC|MULTI|ZADD z 1.5 m|ZSCORE z m|ZRANGE z 0 -1 WITHSCORES|EXEC"
    "|MULTI|SADD u m|SMEMBERS u|EXEC|MULTI|XADD x 1-1 f v|XRANGE x - +|EXEC",
    "nothing blocks": "MULTI|BLPOP l 0|BRPOP l 0|BLMOVE l l LEFT LEFT 0|EXEC"
    "|MULTI|XREAD BLOCK 0 STREAMS x $|EXEC|MULTI|BZPOPMIN z 0|BZMPOP 0 1 z MIN|EXEC",
    "several keys of one slot": "MULTI|MSET {t}1 a {t}2 b|MGET {t}1 {t}2|DEL {t}1 {t}2|EXEC",
    "scripts": "MULTI|EVAL %(script)s 1 s x|EXEC|MULTI|EVALSHA %(digest)s 1 s y|EXEC",
    "a script that is loaded": "MULTI|SCRIPT LOAD %(script)s|EVALSHA %(digest)s 1 s y|EXEC",
    "a script that nobody knows": "MULTI|EVALSHA %(unknown)s 1 s|EXEC|MULTI|SCRIPT EXISTS %(unknown)s|EXEC",
    "wrong numbers of keys": "MULTI|EVAL %(script)s x s|EVAL %(script)s 9 s|EVAL %(script)s -1|EXEC"
    "|MULTI|ZUNION 0 a|EXEC|MULTI|XREAD STREAMS a b c|EXEC",
    "about the client": "MULTI|CLIENT SETNAME me|CLIENT GETNAME|SET s 1|CLIENT GETREDIR|GET s|EXEC"
    "|CLIENT GETNAME",
    "only about the client": "MULTI|CLIENT SETNAME me|CLIENT GETNAME|CLIENT NO-EVICT ON|SELECT 0|EXEC",
    "logging in": "MULTI|AUTH bad|GET s|AUTH default x|EXEC|PING",
    "UNWATCH in it": "MULTI|SET s 1|UNWATCH|GET s|EXEC",
    "PUBLISH in it": "MULTI|SET s 1|PUBLISH ch m|EXEC",
    "QUIT in it": "MULTI|SET s 1|QUIT",
    "replies switched off": "CLIENT REPLY SKIP|MULTI|SET s 1|PING|EXEC",
}


def words(line):
    line = line % {"script": "\0", "digest": DIGEST, "unknown": "f" * 40}
    return [SCRIPT if word == "\0" else word for word in line.split(" ")]


def answers(client, requests, how):
    """Everything that the client reads until the connection ends."""
    if how == "in a pipeline":
        client.send(b"".join(requests) + resp.request("QUIT"))
        return client.read_until_closed()
    got = b""
    for request in requests:
        client.send(request)
        got += client.read()
        if b"QUIT" in request:
            return got
    return got


def compare_talks(shop, stock, talks):
    wrong = []
    for name, text in talks.items():
        requests = [resp.request(*words(line)) for line in text.split("|")]
        for version in ("2", "3"):
            for how in ("one by one", "in a pipeline"):
                if "SKIP" in text and how == "one by one":
                    continue
                shop.empty()
                stock.empty()
                with shop.client() as ours, stock.client() as theirs:
                    if version == "3":
                        ours.hello3(), theirs.hello3()
                    got, wanted = answers(ours, requests, how), answers(theirs, requests, how)
                if got != wanted:
                    wrong.append(
                        "%s (RESP%s, %s)\n       proxy %s\n       redis %s"
                        % (name, version, how, shown(got, 700), shown(wanted, 700))
                    )
    check(not wrong, "%d talks differ:\n     %s" % (len(wrong), "\n     ".join(wrong)))


@test(stock=True, seconds=60)
def every_talk_about_transactions_is_answered_as_by_one_redis(shop, stock):
    compare_talks(shop, stock, TALKS)


@test
def keys_of_several_slots_are_refused_when_they_are_queued(shop):
    client = shop.client()
    got = client.pipeline(
        ("MULTI",), ("SET", A, 1), ("SET", B, 1), ("GET", A), ("EXEC",), ("EXISTS", A), ("EXISTS", B)
    )
    crossslot = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
    same(got, [OK, QUEUED, crossslot, QUEUED, ABORTED, b":0\r\n", b":0\r\n"])
    same(client.pipeline(("MULTI",), ("MGET", A, B), ("EXEC",)), [OK, crossslot, ABORTED])


@test
def what_means_all_nodes_is_refused_when_it_is_queued(shop):
    client = shop.client()
    for args in (
        ("DBSIZE",), ("KEYS", "*"), ("SCAN", "0"), ("RANDOMKEY",), ("FLUSHALL",), ("FLUSHDB",), ("INFO",),
        ("SCRIPT", "FLUSH"), ("FUNCTION", "FLUSH"), ("CLIENT", "LIST"), ("CONFIG", "GET", "*"),
        ("HELLO", "3"), ("CLIENT", "REPLY", "OFF"), ("MONITOR",), ("DEBUG", "SLEEP", "0"),
        ("SORT", A, "BY", "w_*"), ("COPY", A, A, "DB", "16"), ("CONFIG", "SET", "save", ""),
    ):
        same(client.raw("MULTI"), OK)
        error(client.raw(*args), "ERR", what="the reply to %s" % (args,))
        same(client.raw("EXEC"), ABORTED, "EXEC after %s" % (args,))
    same(client.raw("PING"), PONG)


@test
def reserved_keys_are_refused_in_a_transaction_too(shop):
    client = shop.client()
    same(client.raw("MULTI"), OK)
    error(client.raw("DEL", "__slotproxy:identity"), "ERR", "reserved")
    same(client.raw("EXEC"), ABORTED)


@test
def a_pipeline_of_transactions_on_all_nodes_is_answered_in_order(shop):
    client, commands, wanted = shop.client(), [], []
    for n in range(300):
        key = (A, B, C)[n % 3]
        commands += [("SET", key, n), ("MULTI",), ("INCR", key), ("GET", key), ("EXEC",), ("GET", key)]
        value = bulk(n + 1)
        wanted += [OK, OK, QUEUED, QUEUED, array(b":%d\r\n" % (n + 1), value), value]
    same(client.pipeline(*commands), wanted)


@test(seconds=60)
def transactions_open_no_connections(fresh):
    shop = fresh(workers=1)
    clients = [shop.client("client %d" % n) for n in range(30)]
    for client in clients:
        client.raw("INCR", A)
    before = int(shop.node(0).info("stats")["total_connections_received"])
    for _ in range(20):
        for client in clients:
            client.send(b"".join(resp.request(*args) for args in (("MULTI",), ("INCR", A), ("EXEC",))))
        for client in clients:
            same(client.read_many(2), [OK, QUEUED])
            check(client.read().startswith(b"*1\r\n:"), "EXEC's reply is an array of one number")
    same(client.raw("GET", A), bulk(30 * 21))
    after = int(shop.node(0).info("stats")["total_connections_received"])
    check(after - before <= 3, "%d connections were opened for transactions" % (after - before))


@test
def a_large_transaction_goes_and_comes_in_pieces(shop):
    client, other = shop.client(timeout=15.0), shop.client()
    value = "x" * 3_000_000
    client.send(resp.request("MULTI") + resp.request("SET", A, value) + resp.request("GET", A) * 3)
    client.send(resp.request("EXEC") + resp.request("GET", B))
    same(client.read_many(5), [OK] + [QUEUED] * 4)
    same(other.raw("SET", A + "{bar}", "1"), OK)
    same(client.read(), array(OK, *[bulk(value)] * 3), "the reply of 9 MB")
    same(client.read(), b"$-1\r\n")


@test(seconds=60)
def a_transaction_is_bounded(fresh):
    shop = fresh(config={"limits": {"buffered_request": "1MB"}})
    client = shop.client()
    same(client.raw("MULTI"), OK)
    for _ in range(10):
        same(client.raw("SET", A, "x" * 99_000), QUEUED)
    error(client.raw("SET", A, "x" * 99_000), "ERR", "limits.buffered_request")
    same(client.raw("EXEC"), ABORTED)
    same(client.raw("EXISTS", A), b":0\r\n")


@test
def a_script_that_the_proxy_remembers_is_known_in_a_transaction(fresh):
    shop = fresh()
    client = shop.client()
    script = "return redis.call('INCR', KEYS[1])"
    digest = hashlib.sha1(script.encode()).hexdigest()
    same(client.raw("EVAL", script, 1, A), b":1\r\n")  # The others have never seen it.
    for key in (B, C, B):
        client.pipeline(("DEL", key))
        got = client.pipeline(("MULTI",), ("EVALSHA", digest, 1, key), ("GET", key), ("EXEC",))
        same(got, [OK, QUEUED, QUEUED, array(b":1\r\n", bulk(1))])
    same(client.pipeline(("MULTI",), ("SCRIPT", "EXISTS", digest), ("EXEC",))[-1], array(array(b":1\r\n")))
    same(client.pipeline(("MULTI",), ("SCRIPT", "LOAD", "return 5"), ("EXEC",))[0], OK)
    five = hashlib.sha1(b"return 5").hexdigest()
    for key in (A, B, C):
        same(client.raw("EVALSHA", five, 1, key), b":5\r\n")


@test
def what_a_node_refuses_aborts_the_transaction_and_says_why(fresh):
    shop = fresh()
    client = shop.client()
    same(client.raw("SET", A, "0"), OK)
    node = shop.node(0)
    transaction = (("MULTI",), ("GET", A), ("SET", A, 1), ("EXEC",))
    node.ask("ACL", "SETUSER", "default", "-get")
    got = client.pipeline(*transaction)[3]
    error(got, "EXECABORT Transaction discarded because of: NOPERM", "'get'")
    node.ask("ACL", "SETUSER", "default", "+get")
    node.ask("CONFIG", "SET", "maxmemory", "1")
    got = client.pipeline(*transaction, ("GET", A))
    same(got[:3], [OK, QUEUED, QUEUED])
    oom = b"OOM command not allowed when used memory > 'maxmemory'.\r\n"
    same(got[3], b"-EXECABORT Transaction discarded because of: " + oom)
    same(got[4], bulk(0))
    node.ask("CONFIG", "SET", "maxmemory", "0")
    same(client.pipeline(*transaction)[3], array(bulk(0), OK))


@test
def a_node_that_is_down_fails_the_transaction_and_not_the_connection(fresh):
    shop = fresh()
    client = shop.client()
    shop.node(0).kill()
    got = client.pipeline(("MULTI",), ("SET", A, 1), ("EXEC",))
    same(got[:2], [OK, QUEUED])
    check(got[2].startswith(b"-"), "EXEC on a dead node: %s" % shown(got[2]))
    eventually(lambda: client.raw("GET", A).startswith(b"-CLUSTERDOWN"), 5, "the node is known to be down")
    error(client.pipeline(("MULTI",), ("SET", A, 1), ("EXEC",))[2], "CLUSTERDOWN", "inv-bcn")
    same(client.pipeline(("MULTI",), ("SET", B, 1), ("EXEC",)), [OK, QUEUED, array(OK)])
    shop.node(0).start()
    eventually(
        lambda: client.pipeline(("MULTI",), ("SET", A, 1), ("EXEC",))[2] == array(OK), 10, "it is back"
    )


@test
def a_client_that_leaves_in_the_middle_leaves_nothing_behind(shop):
    leaver = shop.client()
    leaver.send(resp.request("MULTI") + resp.request("SET", A, "left"))
    same(leaver.read_many(2), [OK, QUEUED])
    leaver.close()
    with shop.client() as gone:
        gone.send(b"".join(resp.request(*args) for args in (("MULTI",), ("INCR", B), ("EXEC",))))
    client = shop.client()
    same(client.pipeline(("EXISTS", A), ("MULTI",), ("GET", A), ("EXEC",))[3], array(b"$-1\r\n"))
    for key in (A, B, C):
        same(client.pipeline(("SET", key, 1), ("MULTI",), ("INCR", key), ("EXEC",))[3], array(b":2\r\n"))


@test(stock=True)
def an_endpoint_redirects_when_a_command_is_queued_and_aborts(shop):
    client = shop.at(0)
    got = client.pipeline(("MULTI",), ("SET", A, 1), ("GET", A), ("EXEC",))
    same(got, [OK, QUEUED, QUEUED, array(OK, bulk(1))])
    same(client.raw("MULTI"), OK)
    error(client.raw("SET", C, 1), "MOVED 12182")
    same(client.raw("SET", A, 2), QUEUED)
    same(client.raw("EXEC"), ABORTED)
    same(client.raw("GET", A), bulk(1))
    error(client.raw("EXEC"), "ERR EXEC without MULTI")


@test
def client_list_shows_what_is_queued(shop):
    client, other = shop.client(), shop.client()
    number = client.ask("CLIENT", "ID")

    def line():
        lines = other.ask("CLIENT", "LIST", "ID", number).decode()
        return dict(field.split("=", 1) for field in lines.split())

    same((line()["multi"], line()["flags"]), ("-1", "N"))
    client.pipeline(("MULTI",), ("SET", A, 1), ("PING",))
    same((line()["multi"], line()["flags"]), ("2", "x"))
    client.raw("EXEC")
    same((line()["multi"], line()["flags"]), ("-1", "N"))


@test
def redis_py_pipelines_are_transactions(shop):
    client = redis.Redis(HOST, shop.forward[1])
    with client.pipeline(transaction=True) as pipeline:
        pipeline.set(A, 1).incr(A).incrby(A, 5).get(A)
        same(pipeline.execute(), [True, 2, 7, b"7"])
    with client.pipeline(transaction=True) as pipeline:
        pipeline.set(B, "text").incr(B).get(B)
        try:
            pipeline.execute()
        except redis.ResponseError as problem:
            check("not an integer" in str(problem), "what went wrong: %s" % problem)
        else:
            raise Failure("INCR of a text raised nothing")
    same(client.get(B), b"text")


# Watched keys

WATCH_TALKS = {
    "nobody touches it": "SET s 1|WATCH s|GET s|MULTI|INCR s|EXEC|GET s",
    "one's own write": "SET s 1|WATCH s|SET s 2|MULTI|INCR s|EXEC|GET s",
    "in front of a pipeline": "SET s 1|SET s 2|SET s 3|WATCH s|MULTI|GET s|EXEC|GET s",
    "UNWATCH": "WATCH s|SET s 2|UNWATCH|MULTI|INCR s|EXEC|UNWATCH",
    "DISCARD": "WATCH s|SET s 2|MULTI|DISCARD|MULTI|INCR s|EXEC",
    "EXEC ends it": "WATCH s|MULTI|INCR s|EXEC|SET s 5|MULTI|INCR s|EXEC",
    "EXEC that fails ends it": "WATCH s|SET s 5|MULTI|INCR s|EXEC|MULTI|INCR s|EXEC",
    "EXECABORT ends it": "WATCH s|SET s 5|MULTI|NOSUCH|EXEC|MULTI|INCR s|EXEC",
    "EXEC without MULTI does not": "WATCH s|EXEC|SET s 1|MULTI|GET s|EXEC",
    "EXEC with an argument": "WATCH s|SET s 1|EXEC x|MULTI|GET s|EXEC",
    "RESET": "WATCH s|SET s 1|RESET|MULTI|GET s|EXEC",
    "inside of MULTI": "MULTI|WATCH s|SET s 1|EXEC|GET s",
    "an empty transaction": "WATCH s|MULTI|EXEC|WATCH s|SET s 1|MULTI|EXEC",
    "only the proxy's answers": "WATCH s|MULTI|CLIENT GETNAME|EXEC|WATCH s|SET s 1|MULTI|CLIENT GETNAME|EXEC",
    "several of one slot": "WATCH {s}1 {s}2|WATCH {s}3|SET {s}2 x|MULTI|PING|EXEC",
    "wrong arity": "WATCH|UNWATCH x|MULTI|WATCH|EXEC",
    "a deleted key": "SET s 1|WATCH s|DEL s|MULTI|PING|EXEC",
    "an expiry": "SET s 1|WATCH s|PEXPIRE s 100000|MULTI|PING|EXEC",
    "scripts": "WATCH s|MULTI|EVAL %(script)s 1 s x|EVALSHA %(digest)s 1 s y|EXEC",
    "other commands between": "SET s 1|WATCH s|HSET {s}h f v|HGETALL {s}h|TYPE {s}h|MULTI|GET s|EXEC|TYPE s",
}


@test(stock=True, seconds=60)
def every_talk_about_watched_keys_is_answered_as_by_one_redis(shop, stock):
    compare_talks(shop, stock, WATCH_TALKS)


@test(stock=True)
def a_key_that_another_client_touches_makes_exec_null(shop):
    for version in (2, 3):
        watcher, other = shop.client("watcher"), shop.client("other")
        if version == 3:
            watcher.hello3()
        null = b"*-1\r\n" if version == 2 else b"_\r\n"
        for key in (A, B, C):
            same(other.raw("SET", key, 1), OK)
            same(watcher.raw("WATCH", key), OK)
            same(other.raw("SET", key, 9), OK)
            same(watcher.pipeline(("MULTI",), ("SET", key, 2), ("EXEC",)), [OK, QUEUED, null])
            same(other.raw("GET", key), bulk(9))
            # The connection that was watched on serves others: they see nothing of it.
            for client in (other, watcher):
                same(client.raw("WATCH", key), OK)
                same(client.pipeline(("MULTI",), ("GET", key), ("EXEC",))[2], array(bulk(9)))


@test
def watched_keys_lie_in_one_slot(shop):
    client = shop.client()
    crossslot = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
    same(client.raw("WATCH", A, B), crossslot)
    same(client.raw("WATCH", A), OK)
    same(client.raw("WATCH", B), crossslot)
    got = client.pipeline(("SET", B, 1), ("MULTI",), ("SET", B, 2), ("SET", A, 2), ("EXEC",), ("GET", B))
    same(got, [OK, OK, crossslot, QUEUED, ABORTED, bulk(1)])
    error(client.raw("WATCH", "__slotproxy:identity"), "ERR", "reserved")


@test(stock=True)
def an_endpoint_redirects_watch(shop):
    client = shop.at(0)
    error(client.raw("WATCH", C), "MOVED 12182")
    same(client.pipeline(("WATCH", A), ("MULTI",), ("SET", A, 1), ("EXEC",)), [OK, OK, QUEUED, array(OK)])


@test
def a_watch_holds_up_nobody_else_and_keeps_the_order_of_its_own_client(shop):
    client, other = shop.client(), shop.client()
    commands, wanted = [], []
    for n in range(100):
        key = (A, B, C)[n % 3]
        commands += [("SET", key, n), ("SET", key, n + 1), ("WATCH", key), ("GET", key), ("MULTI",),
                     ("INCR", key), ("EXEC",), ("GET", key)]
        wanted += [OK, OK, OK, bulk(n + 1), OK, QUEUED, array(b":%d\r\n" % (n + 2)), bulk(n + 2)]
    client.send(b"".join(resp.request(*args) for args in commands))
    same(other.raw("PING"), PONG)
    same(client.read_many(len(commands)), wanted)


@test(seconds=60)
def watching_clients_are_bounded_and_connections_come_back(fresh):
    shop = fresh(workers=1, config={"limits": {"pinned_connections": 3}})
    clients = [shop.client("client %d" % n) for n in range(5)]
    for client in clients[:3]:
        same(client.raw("WATCH", A), OK)
    error(clients[3].raw("WATCH", A), "ERR", "limits.pinned_connections", "inv-bcn")
    same(clients[3].raw("WATCH", B), OK)
    same(clients[3].raw("UNWATCH"), OK)
    same(clients[4].raw("SET", A, 1), OK)
    same(clients[0].pipeline(("MULTI",), ("GET", A), ("EXEC",))[2], b"*-1\r\n")
    clients[1].close()
    same(clients[2].raw("UNWATCH"), OK)

    def all_are_free():
        got = [client.raw("WATCH", A) for client in (clients[0], clients[3], clients[4])]
        for client in (clients[0], clients[3], clients[4]):
            client.raw("UNWATCH")
        return got == [OK] * 3

    eventually(all_are_free, 5, "the three connections are free again")
    before = int(shop.node(0).info("stats")["total_connections_received"])
    for n in range(200):
        client = clients[(0, 3, 4)[n % 3]]
        same(client.raw("WATCH", A), OK)
        same(client.pipeline(("MULTI",), ("GET", A), ("EXEC",))[2], array(bulk(1)), "round %d" % n)
    after = int(shop.node(0).info("stats")["total_connections_received"])
    check(after - before <= 1, "%d connections were opened for 200 watches" % (after - before))


@test
def a_client_that_vanishes_leaves_no_watch_behind(fresh):
    shop = fresh(workers=1, config={"limits": {"pinned_connections": 1}})
    for n in range(30):
        with shop.client() as leaver:
            leaver.send(resp.request("WATCH", A) + (resp.request("MULTI") if n % 2 else b""))
            if n % 3:
                same(leaver.read(), OK)
        with shop.client() as client:
            eventually(lambda: client.raw("WATCH", A) == OK, 5, "the connection is free again")
            same(client.pipeline(("MULTI",), ("INCR", A), ("EXEC",))[2], array(b":%d\r\n" % (n + 1)))


@test
def a_watch_whose_connection_is_lost_makes_exec_null(fresh):
    shop = fresh()
    client = shop.client()
    same(client.raw("SET", A, 1), OK)
    same(client.raw("WATCH", A), OK)
    node = shop.node(0)
    node.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    eventually(lambda: client.raw("GET", A) == bulk(1), 5, "the node is used again")
    same(client.pipeline(("MULTI",), ("SET", A, 2), ("EXEC",)), [OK, QUEUED, b"*-1\r\n"])
    same(client.pipeline(("WATCH", A), ("MULTI",), ("SET", A, 3), ("EXEC",))[3], array(OK))
    same(client.raw("WATCH", A), OK)
    node.ask("SAVE")
    node.restart()
    eventually(lambda: client.raw("GET", A) == bulk(3), 10, "the node is back")
    same(client.pipeline(("MULTI",), ("SET", A, 4), ("EXEC",))[2], b"*-1\r\n")
    same(client.raw("GET", A), bulk(3))


@test
def changing_the_protocol_loses_the_watch(shop):
    client = shop.client()
    same(client.raw("WATCH", A), OK)
    client.hello3()
    same(client.pipeline(("MULTI",), ("SET", A, 2), ("EXEC",))[2], b"_\r\n")
    same(client.raw("EXISTS", A), b":0\r\n")


class Counters(threading.Thread):
    """A client that counts up with WATCH, MULTI and EXEC, and knows how often it succeeded."""

    def __init__(self, port, key):
        super().__init__(daemon=True)
        self.port, self.key, self.done, self.null, self.problem = port, key, 0, 0, None
        self.over = threading.Event()

    def run(self):
        client = redis.Redis(HOST, self.port)
        try:
            while not self.over.is_set():
                with client.pipeline(transaction=True) as pipeline:
                    try:
                        pipeline.watch(self.key)
                        value = int(pipeline.get(self.key) or 0)
                        pipeline.multi()
                        pipeline.set(self.key, value + 1)
                        pipeline.execute()
                        self.done += 1
                    except redis.WatchError:
                        self.null += 1
        except redis.RedisError as problem:
            self.problem = "%s: %s" % (type(problem).__name__, problem)


def counted(shop, key, count, meanwhile):
    threads = [Counters(shop.forward[1], key) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        meanwhile(lambda: sum(thread.done for thread in threads))
    finally:
        for thread in threads:
            thread.over.set()
        for thread in threads:
            thread.join(10)
    same([thread.problem for thread in threads if thread.problem], [], "what clients ran into")
    done = sum(thread.done for thread in threads)
    same(shop.client().raw("GET", key), bulk(done), "the counter after %d successes" % done)
    return done, sum(thread.null for thread in threads)


@test(seconds=60)
def clients_that_count_with_watch_lose_nothing(shop):
    def until_500(done):
        eventually(lambda: done() >= 500, 30, lambda: "500 counted, not %d" % done())

    counted(shop, A, 8, until_500)


@test(seconds=90)
def clients_count_on_while_their_slot_moves_to_and_fro(fresh):
    shop = fresh(config={"rebalance": {"grace": "100ms"}})
    slot = resp.slot_of(A)

    def move(done):
        for n in range(6):
            target = ("inv-vlc", "inv-gir", "inv-bcn")[n % 3]
            before = done()
            plans.run(shop, "--move", "%d-%d:%s" % (slot - 30, slot + 30, target))
            eventually(lambda: done() > before + 10, 20, "clients count on after move %d" % n)

    done, _ = counted(shop, A, 6, move)
    check(done > 60, "only %d were counted" % done)


@test(seconds=60)
def a_watch_of_a_slot_that_moves_is_lost_and_a_queued_transaction_runs_at_the_new_owner(fresh):
    shop = fresh(config={"rebalance": {"grace": "100ms"}})
    watcher, queuer, other = shop.client(), shop.client(), shop.client()
    at_endpoint = shop.at(0)
    same(other.raw("SET", A, 1), OK)
    same(watcher.raw("WATCH", A), OK)
    same(watcher.pipeline(("MULTI",), ("SET", A, "watched")), [OK, QUEUED])
    same(queuer.pipeline(("MULTI",), ("APPEND", A, "2"), ("GET", A)), [OK, QUEUED, QUEUED])
    same(at_endpoint.pipeline(("MULTI",), ("SET", A, "old")), [OK, QUEUED])
    slot = resp.slot_of(A)
    plans.run(shop, "--move", "%d-%d:inv-gir" % (slot, slot))
    same(watcher.raw("EXEC"), b"*-1\r\n")
    same(queuer.raw("EXEC"), array(b":2\r\n", bulk(12)))
    error(at_endpoint.raw("EXEC"), "MOVED %d" % slot)
    same(other.raw("GET", A), bulk(12))
    same(shop.node(2).ask("GET", A), b"12")
    same(watcher.pipeline(("WATCH", A), ("MULTI",), ("GET", A), ("EXEC",))[3], array(bulk(12)))
