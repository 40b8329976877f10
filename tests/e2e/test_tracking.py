"""Client-side caching: what a client keeps is told to be dropped when anybody changes it, wherever it lies."""
import threading

import redis

from harness import plans, resp
from harness.check import Failure, check, error, eventually, has, same
from harness.resp import array, bulk, request
from harness.shop import HOST, key_on, keys_on
from harness.tests import test
from test_transactions import compare_talks

OK, PONG = b"+OK\r\n", b"+PONG\r\n"
A, B, C = (key_on(place) for place in (0, 1, 2))
QUICK = {"rebalance": {"grace": "300ms"}}

# Each is what one client says on a new connection; the answers must be those of one redis-server.
TALKS = {
    "on and off": "CLIENT TRACKING ON|CLIENT TRACKINGINFO|CLIENT GETREDIR|CLIENT TRACKING OFF|CLIENT TRACKINGINFO"
    "|CLIENT GETREDIR|CLIENT TRACKING OFF|CLIENT TRACKING on|CLIENT TRACKING ON NOLOOP|CLIENT TRACKINGINFO",
    "wrong words": "CLIENT TRACKING|CLIENT TRACKING x|CLIENT TRACKING ON x|CLIENT TRACKING ON REDIRECT"
    "|CLIENT TRACKING ON REDIRECT x|CLIENT TRACKING ON REDIRECT 999999|CLIENT TRACKING ON REDIRECT 0"
    "|CLIENT TRACKING ON REDIRECT 999999 x|CLIENT TRACKING OFF REDIRECT 999999|CLIENT TRACKING OFF x"
    "|CLIENT TRACKING ON PREFIX|CLIENT TRACKING ON PREFIX a|CLIENT TRACKING ON OPTIN OPTOUT"
    "|CLIENT TRACKING ON BCAST OPTIN|CLIENT TRACKING ON BCAST OPTOUT|CLIENT TRACKING ON BCAST OPTIN OPTOUT"
    "|CLIENT TRACKINGINFO|CLIENT TRACKINGINFO x|CLIENT GETREDIR x|CLIENT CACHING",
    "prefixes": "CLIENT TRACKING ON BCAST PREFIX foobar PREFIX foo|CLIENT TRACKING ON BCAST PREFIX foo PREFIX foobar"
    "|CLIENT TRACKING ON BCAST PREFIX foo PREFIX bar|CLIENT TRACKING ON BCAST PREFIX fo"
    "|CLIENT TRACKING ON BCAST PREFIX barb|CLIENT TRACKING ON BCAST PREFIX baz|CLIENT TRACKINGINFO"
    "|CLIENT TRACKING ON|CLIENT TRACKING ON OPTIN|CLIENT TRACKING OFF|CLIENT TRACKING ON BCAST|CLIENT TRACKINGINFO",
    "caching": "CLIENT CACHING YES|CLIENT CACHING x|CLIENT TRACKING ON|CLIENT CACHING YES|CLIENT CACHING NO"
    "|CLIENT CACHING x|CLIENT TRACKING OFF|CLIENT TRACKING ON OPTIN|CLIENT CACHING NO|CLIENT CACHING YES"
    "|CLIENT TRACKINGINFO|CLIENT ID x|CLIENT TRACKINGINFO|PING|CLIENT TRACKINGINFO|CLIENT TRACKING ON OPTOUT"
    "|CLIENT TRACKING OFF|CLIENT TRACKING ON OPTOUT|CLIENT CACHING YES|CLIENT CACHING NO|CLIENT TRACKINGINFO"
    "|GET k|CLIENT TRACKINGINFO|CLIENT TRACKING ON OPTIN",
    "caching in a transaction": "CLIENT TRACKING ON OPTIN|CLIENT CACHING YES|MULTI|GET k|EXEC|CLIENT TRACKINGINFO"
    "|MULTI|CLIENT CACHING YES|GET k|CLIENT TRACKINGINFO|EXEC|CLIENT TRACKINGINFO|CLIENT GETREDIR",
    "RESET": "CLIENT TRACKING ON BCAST NOLOOP|RESET|CLIENT TRACKINGINFO|CLIENT GETREDIR|GET k",
    "what it reads": "SET k 1|CLIENT TRACKING ON|GET k|MGET k k|STRLEN k|EXISTS k|OBJECT ENCODING k|PING",
}


def names(*keys):
    return array(*(bulk(key) for key in keys))


def invalidate(*keys):
    """The push that a RESP3 client gets."""
    return b">2\r\n" + bulk("invalidate") + names(*keys)


def message(*keys):
    """What a RESP2 client that is told instead of another one gets."""
    return array(bulk("message"), bulk("__redis__:invalidate"), names(*keys))


ALL = b">2\r\n" + bulk("invalidate") + b"_\r\n"


def tracking(client, *words):
    client.hello3()
    same(client.raw("CLIENT", "TRACKING", "ON", *words), OK, "the answer to CLIENT TRACKING")
    return client


def answer(client):
    """What the client is told until its next answer, and that answer is read."""
    told = []
    while (raw := client.read()).startswith(b">"):
        told.append(raw)
    return told


def get(client, key):
    """GET, past what it is told meanwhile."""
    client.send(request("GET", key))
    return answer(client)


def answers_alone(client, key):
    """Whether nothing is told beside the answer to GET: the key is tracked then."""
    client.send(request("GET", key) + request("PING"))
    return not answer(client) + answer(client)


def fields(client, *wanted):
    info = client.ask("INFO")
    text = info.decode() if isinstance(info, bytes) else info
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return [int(lines[name]) for name in wanted]


@test(stock=True, seconds=90)
def every_talk_about_tracking_is_answered_as_by_one_redis(shop, stock):
    compare_talks(shop, stock, TALKS)


@test(stock=True)
def a_key_that_was_read_is_told_once_when_it_changes(shop):
    writer = shop.client("writer")
    for key in (A, B, C):
        reader = tracking(shop.client("reader"))
        writer.ask("SET", key, 1)
        same(reader.raw("GET", key), bulk(1))
        writer.ask("SET", key, 2)
        same(reader.read(), invalidate(key), "what the reader is told")
        writer.ask("SET", key, 3)
        same(reader.raw("PING"), PONG, "what comes behind it")


@test(stock=True)
def a_client_hears_of_its_own_writes_behind_their_answers(shop):
    client = tracking(shop.client())
    client.ask("HSET", A, "f", 1)
    client.ask("HGET", A, "f")
    client.send(request("HDEL", A, "f"))
    same(client.read_many(2), [b":1\r\n", invalidate(A)])
    client.ask("SET", A, 1)
    client.ask("GET", A)
    client.send(b"".join(request(*args) for args in (("MULTI",), ("INCR", A), ("EXEC",))))
    same(client.read_many(4), [OK, b"+QUEUED\r\n", b"*1\r\n:2\r\n", invalidate(A)])


@test
def several_keys_are_told_of_wherever_they_lie(shop):
    reader, writer = tracking(shop.client("reader")), shop.client("writer")
    writer.ask("MSET", A, 1, B, 1, C, 1)
    same(reader.ask("MGET", A, B, C), [b"1", b"1", b"1"])
    writer.ask("MSET", A, 2, B, 2, C, 2)
    same(sorted(reader.read_many(3)), sorted(invalidate(key) for key in (A, B, C)))


@test
def what_expires_and_what_scripts_write_is_told_too(shop):
    reader, writer = tracking(shop.client("reader")), shop.client("writer")
    writer.ask("SET", A, 1)
    reader.ask("GET", A)
    writer.ask("PEXPIRE", A, 30)
    same(reader.read(), invalidate(A), "what is told of PEXPIRE")
    reader.ask("GET", A)
    same(reader.read(), invalidate(A), "what is told when it has expired")
    reader.ask("GET", B)
    writer.ask("EVAL", "return redis.call('set', KEYS[1], 2)", 1, B)
    same(reader.read(), invalidate(B), "what is told of a script's write")
    # Past the proxy.
    reader.ask("GET", C)
    shop.node(2).ask("SET", C, 3)
    same(reader.read(), invalidate(C), "what is told of a write at the node")


@test(stock=True)
def what_a_transaction_and_a_script_read_is_tracked(shop):
    reader, writer = tracking(shop.client("reader")), shop.client("writer")
    reader.pipeline(("MULTI",), ("GET", A), ("EXEC",))
    writer.ask("SET", A, 1)
    same(reader.read(), invalidate(A), "what is told of a key that a transaction read")
    reader.ask("EVAL", "return redis.call('get', KEYS[1])", 1, A)
    writer.ask("SET", A, 2)
    same(reader.read(), invalidate(A), "what is told of a key that a script read")
    reader.ask("EVAL", "return redis.call('set', KEYS[1], 3)", 1, A)
    writer.ask("SET", A, 4)
    same(reader.raw("PING"), PONG, "what follows a script that only wrote")


@test(stock=True)
def opt_in_and_opt_out_choose_what_is_tracked(shop):
    writer = shop.client("writer")
    reader = tracking(shop.client("opts in"), "OPTIN")
    reader.ask("GET", A)
    same(reader.pipeline(("CLIENT", "CACHING", "YES"), ("GET", B))[0], OK)
    writer.ask("SET", A, 1)
    writer.ask("SET", B, 1)
    same(reader.read(), invalidate(B), "what is told of the key that was opted in")
    reader = tracking(shop.client("opts out"), "OPTOUT")
    same(reader.pipeline(("CLIENT", "CACHING", "NO"), ("GET", A))[0], OK)
    reader.ask("GET", B)
    writer.ask("SET", A, 2)
    writer.ask("SET", B, 2)
    same(reader.read(), invalidate(B), "what is told of the key that was not opted out")
    same(reader.raw("PING"), PONG)


@test
def broadcasts_name_every_key_with_one_of_the_prefixes(shop):
    reader = tracking(shop.client("reader"), "BCAST", "PREFIX", "a:", "PREFIX", "b:")
    everything = tracking(shop.client("reader of everything"), "BCAST")
    writer = shop.client("writer")
    writer.ask("MSET", "a:1{t}", 1, "c:1{t}", 1, "b:1{t}", 1, "a:2{t}", 1)
    same(reader.read_many(2), [invalidate("a:1{t}", "a:2{t}"), invalidate("b:1{t}")])
    same(everything.read(), invalidate("a:1{t}", "a:2{t}", "b:1{t}", "c:1{t}"))
    # What is there for the proxy alone, nobody hears of.
    shop.node(0).ask("SET", "__slotproxy:x", 1)
    shop.node(0).ask("DEL", "__slotproxy:x")
    same(everything.raw("PING"), PONG)


@test
def noloop_keeps_a_clients_own_writes_from_it_and_nobody_elses(shop):
    writer = shop.client("writer")
    for words in (("NOLOOP",), ("NOLOOP", "BCAST")):
        clients = [tracking(shop.client("client %d" % n), *words) for n in range(6)]
        for n, client in enumerate(clients):
            for each in clients:
                each.ask("GET", A)
            same(client.raw("SET", A, n), OK)
            for other in clients:
                if other is not client:
                    same(other.read(), invalidate(A), "what client %d's write tells others" % n)
            for each in clients:
                each.ask("GET", A)
            same(client.raw("PING"), PONG, "what the one that wrote is told")
            writer.ask("SET", A, "x")
            for each in clients:
                same(each.read(), invalidate(A), "what is told of somebody else's write")
            for each in clients:
                same(each.raw("PING"), PONG)
        for client in clients:
            client.close()


@test
def an_own_write_and_a_strangers_close_together_are_told(shop):
    """However close behind its own a stranger's write comes, a client with BCAST hears of it."""
    client, writer = tracking(shop.client(), "NOLOOP", "BCAST"), shop.node(0).client()
    for n in range(300):
        client.ask("GET", A)
        writer.send(request("SET", A, "stranger"))
        client.send(request("SET", A, "own"))
        writer.read()
        told = answer(client)
        if shop.node(0).ask("GET", A) == b"stranger" and not told:
            told = [client.read()]
            same(told, [invalidate(A)], "what is told in round %d" % n)
        client.send(request("PING"))
        answer(client)


@test(stock=True)
def messages_go_to_the_client_that_they_are_redirected_to(shop):
    targets = [shop.client("target %d" % n) for n in range(4)]
    writer = shop.client("writer")
    for n, target in enumerate(targets):
        number = target.ask("CLIENT", "ID")
        target.raw("SUBSCRIBE", "__redis__:invalidate")
        for version in ("2", "3"):
            reader = shop.client("reader %d, RESP%s" % (n, version))
            if version == "3":
                reader.hello3()
            same(reader.raw("CLIENT", "TRACKING", "ON", "REDIRECT", number), OK)
            same(reader.ask("CLIENT", "GETREDIR"), number)
            reader.ask("GET", A)
            writer.ask("SET", A, n)
            same(target.read(), message(A), "what the target is told")
            same(reader.raw("PING"), PONG)
            reader.close()


@test(stock=True)
def a_redirection_to_a_client_that_has_left_is_told_to_the_one_that_asked(shop):
    for n in range(4):
        target, reader = shop.client("target"), shop.client("reader").hello3()
        writer = shop.client("writer")
        number = target.ask("CLIENT", "ID")
        same(reader.raw("CLIENT", "TRACKING", "ON", "REDIRECT", number), OK)
        reader.ask("GET", A)
        same(target.raw("QUIT"), OK)
        target.read_until_closed()
        writer.ask("SET", A, n)
        same(reader.read(), b">2\r\n" + bulk("tracking-redir-broken") + b":%d\r\n" % number)
        same(reader.ask("CLIENT", "TRACKINGINFO")[b"flags"], [b"on", b"broken_redirect"])
        has(reader.ask("CLIENT", "INFO"), "flags=tR ", "redir=%d " % number)


@test
def a_flush_tells_everybody_to_drop_everything_once(shop):
    reader, writer = tracking(shop.client("reader")), shop.client("writer")
    broadcast = tracking(shop.client("reader of everything"), "BCAST", "PREFIX", "x")
    for command in ("FLUSHALL", "FLUSHDB"):
        reader.ask("GET", A)
        broadcast.ask("GET", A)
        same(writer.raw(command), OK)
        same(reader.read(), ALL, "what %s tells" % command)
        same(broadcast.read(), ALL, "what %s tells one with BCAST" % command)
        eventually(lambda: fields(writer, "tracking_total_keys") == [0], 5, "no key is tracked")
        same(reader.raw("PING"), PONG)


@test
def info_and_client_list_say_who_tracks_what(shop):
    reader = tracking(shop.client("reader"))
    other = tracking(shop.client("other"), "BCAST", "PREFIX", "x:")
    for key in (A, B):
        reader.ask("GET", key)
    wanted = ("tracking_clients", "tracking_total_keys", "tracking_total_items", "tracking_total_prefixes")
    same(fields(shop.client(), *wanted), [2, 2, 2, 1])
    has(reader.ask("CLIENT", "INFO"), "flags=t ", "redir=0 ")
    has(other.ask("CLIENT", "INFO"), "flags=tB ", "redir=0 ")
    same(reader.raw("CLIENT", "TRACKING", "OFF"), OK)
    other.close()
    eventually(lambda: fields(shop.client(), "tracking_clients") == [0], 5, "nobody tracks")


@test
def beyond_the_limit_clients_are_told_that_the_oldest_keys_have_changed(fresh):
    shop = fresh(config={"limits": {"tracked_keys": 10}}, workers=1)
    reader = tracking(shop.client("reader"))
    keys = ["k%d" % n for n in range(15)]
    told = []
    for key in keys:
        reader.send(request("GET", key))
        while len(raw := reader.read()) and raw.startswith(b">"):
            told.append(raw)
    reader.send(request("PING"))
    while (raw := reader.read()) != PONG:
        told.append(raw)
    same(told, [invalidate(key) for key in keys[:5]])
    same(fields(shop.client(), "tracking_total_keys"), [10])


@test
def endpoints_track_as_the_forward_port_does(shop):
    writer = shop.client("writer")
    for place, key in enumerate((A, B, C)):
        reader = tracking(shop.at(place))
        reader.ask("GET", key)
        writer.ask("SET", key, 1)
        same(reader.read(), invalidate(key), "what is told at endpoint %d" % place)
        # What it was sent elsewhere for, it does not have.
        foreign = (A, B, C)[(place + 1) % 3]
        error(reader.raw("GET", foreign), "MOVED")
        writer.ask("SET", foreign, 1)
        same(reader.raw("PING"), PONG)


@test
def a_lost_feed_and_a_restarted_node_drop_everything(fresh):
    shop = fresh()
    reader, writer = tracking(shop.client("reader")), shop.client("writer")
    reader.ask("GET", A), reader.ask("GET", B)
    node = shop.node(0)
    for line in node.ask("CLIENT", "LIST").decode().splitlines():
        if "B" in line.split(" flags=")[1].split(" ")[0]:
            node.ask("CLIENT", "KILL", "ID", line.split(" ")[0][3:])
    same(reader.read(), ALL, "what the loss of a feed tells")

    def hears_again():
        get(reader, A)
        writer.ask("INCR", A)
        return reader.read() == invalidate(A)

    eventually(hears_again, 5, "changes are told again")
    eventually(lambda: answers_alone(reader, A), 5, "the feed is there again")
    node.kill()
    same(reader.read(), ALL, "what the end of a node tells")
    node.start()
    eventually(lambda: not writer.raw("INCR", A).startswith(b"-"), 10, "the node is served again")
    eventually(hears_again, 5, "changes are told again after the node's restart")


@test(seconds=60)
def nothing_stale_stays_while_slots_move(fresh):
    """A client that keeps what it reads until it is told otherwise never has an old value for longer than
    the way of a message, wherever the keys are."""
    shop = fresh(config=QUICK)
    keys = keys_on(0, 40)
    writer = shop.client("writer")
    for key in keys:
        writer.ask("SET", key, 0)
    caches = [
        Cache(tracking(shop.client("cache %d" % n), *words), keys)
        for n, words in enumerate(((), ("BCAST",), ("NOLOOP",), ()))
    ]
    is_over = threading.Event()
    newest = dict.fromkeys(keys, 0)

    def write():
        number = 0
        while not is_over.is_set():
            number += 1
            key = keys[number % len(keys)]
            writer.ask("SET", key, number)
            newest[key] = number

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for target in ("inv-vlc", "inv-bcn"):
            plan = plans.propose(shop, "--move", "0-5460:" + target)
            plans.approve(shop, plan)
            while plans.show(shop, plan["id"])["state"] not in plans.ENDED:
                for cache in caches:
                    cache.read_some(20)
            same(plans.show(shop, plan["id"])["state"], "done", "the plan's end")
    finally:
        is_over.set()
        thread.join()
    for cache in caches:
        eventually(lambda: cache.drop_told() or cache.stale(newest) == {}, 5,
                   lambda: "%s has nothing stale: %s" % (cache.client.name, cache.stale(newest)))


class Cache:
    def __init__(self, client, keys):
        self.client, self.keys, self.values, self.next = client, keys, {}, 0

    def take(self, raw):
        told = resp.value(raw)[1]
        if told is None:
            self.values.clear()
        for key in told or ():
            self.values.pop(key.decode(), None)

    def drop_told(self):
        self.client.send(request("PING"))
        while (raw := self.client.read()) != PONG:
            self.take(raw)

    def read_some(self, count):
        for _ in range(count):
            key = self.keys[self.next % len(self.keys)]
            self.next += 1
            if key in self.values:
                continue
            self.client.send(request("GET", key))
            while (raw := self.client.read()).startswith(b">"):
                self.take(raw)
            self.values[key] = int(resp.value(raw))
        self.drop_told()

    def stale(self, newest):
        return {key: value for key, value in self.values.items() if value != newest[key]}


@test
def a_blocked_client_hears_of_changes(shop):
    client, writer = tracking(shop.client()), shop.client("writer")
    writer.ask("RPUSH", "list2{t}", "a")
    client.ask("LRANGE", "list2{t}", 0, -1)
    client.ask("GET", "other{t}")
    client.send(request("BLMOVE", "list1{t}", "list2{t}", "LEFT", "LEFT", 0))
    eventually(lambda: fields(writer, "blocked_clients") == [1], 5, "it is blocked")
    writer.ask("SET", "other{t}", 1)
    same(client.read(), invalidate("other{t}"), "what is told while it is blocked")
    writer.ask("RPUSH", "list2{t}", "b")
    same(client.read(), invalidate("list2{t}"), "what is told of a key that it may write")
    writer.ask("RPUSH", "list1{t}", "foo")
    same(client.read(), bulk("foo"))


@test
def tracking_is_refused_inside_a_transaction(shop):
    client = shop.client()
    same(client.raw("MULTI"), OK)
    error(client.raw("CLIENT", "TRACKING", "ON"), "ERR", "before MULTI")
    error(client.raw("EXEC"), "EXECABORT")


@test
def large_values_are_still_streamed_from_clients_that_track(shop):
    client = tracking(shop.client(timeout=20))
    value = b"x" * 3_000_000
    same(client.raw("SET", A, value), OK)
    same(client.raw("GET", A), bulk(value))
    shop.client("writer").ask("SET", A, 1)
    same(client.read(), invalidate(A))


@test
def nodes_have_no_feed_once_nobody_tracks(shop):
    def feeds():
        lines = shop.node(0).ask("CLIENT", "LIST").decode().splitlines()
        return sum("B" in line.split(" flags=")[1].split(" ")[0] for line in lines)

    client = tracking(shop.client())
    same(feeds() >= 1, True, "there is a feed")
    client.close()
    eventually(lambda: feeds() == 0, 10, "there is none any more", every=0.1)


@test
def redis_py_keeps_what_it_reads_in_step(shop):
    """Two connections, as redis-py's RESP2 needs them."""
    told = []
    with redis.Redis(host=HOST, port=shop.forward_port) as plain:
        plain.set(A, "old")
        listener = redis.Redis(host=HOST, port=shop.forward_port, decode_responses=True).pubsub()
        listener.subscribe("__redis__:invalidate")
        number = None
        listener.get_message(timeout=5)
        for line in plain.client_list(_type="pubsub"):
            number = int(line["id"])
        reader = redis.Redis(host=HOST, port=shop.forward_port, single_connection_client=True)
        check(number is not None, "the listener shows in CLIENT LIST")
        reader.execute_command("CLIENT", "TRACKING", "ON", "REDIRECT", number)
        same(reader.get(A), b"old")
        plain.set(A, "new")
        while not told:
            got = listener.get_message(timeout=5)
            if got is None:
                raise Failure("redis-py was told nothing")
            if got["type"] == "message":
                told = got["data"]
        same(told, [A], "the names that redis-py is told")
