"""Publish/subscribe: every subscriber gets every message once, whatever ports, workers and nodes do."""
import collections
import select
import threading
import time

import redis

from harness import plans, resp
from harness.check import check, error, eventually, has, same, shown
from harness.resp import array, bulk
from harness.shop import HOST
from harness.tests import test
from harness.wire import is_ready

OK, PONG = b"+OK\r\n", b"+PONG\r\n"
A, B, C = "bar", "c", "foo"  # One key on each node: slots 5061, 7365, 12182.
QUICK = {"rebalance": {"grace": "300ms"}}

# Each is what one client says on a new connection; the answers must be those of one redis-server.
TALKS = {
    "one channel": "SUBSCRIBE a|UNSUBSCRIBE a|PING|GET x",
    "several at once": "SUBSCRIBE a b c|PING|PING x|UNSUBSCRIBE a b|UNSUBSCRIBE c|PING",
    "twice the same": "SUBSCRIBE a|SUBSCRIBE a a|UNSUBSCRIBE a a|PING",
    "patterns": "PSUBSCRIBE a* b?|PSUBSCRIBE a*|PUNSUBSCRIBE a* c|PUNSUBSCRIBE|PING",
    "all kinds together": "SUBSCRIBE a|PSUBSCRIBE a*|SSUBSCRIBE s|UNSUBSCRIBE q|PUNSUBSCRIBE|UNSUBSCRIBE"
    "|SUNSUBSCRIBE|GET x",
    "nothing to unsubscribe": "UNSUBSCRIBE|PUNSUBSCRIBE|SUNSUBSCRIBE|UNSUBSCRIBE a b|SUNSUBSCRIBE a|GET x",
    "what a subscriber may say": "SUBSCRIBE a|GET x|SET x 1|NOSUCH|GET|CLIENT GETNAME|CLIENT NOSUCH|PING x y"
    "|MULTI x|AUTH x|CLIENT SETNAME x|COMMAND COUNT|ECHO hi|SELECT 0|PUBSUB NUMPAT|UNSUBSCRIBE|GET x",
    "no transaction for a subscriber": "SUBSCRIBE a|DISCARD|EXEC|UNSUBSCRIBE|PING",
    "sharded alone": "SSUBSCRIBE s|GET x|SSUBSCRIBE s {s}t|SUNSUBSCRIBE s|SUNSUBSCRIBE|SET x 1",
    "RESET": "SUBSCRIBE a|PSUBSCRIBE b*|SSUBSCRIBE s|RESET|PING|GET x|UNSUBSCRIBE",
    "QUIT": "SUBSCRIBE a|QUIT",
    "wrong arity": "SUBSCRIBE|PSUBSCRIBE|SSUBSCRIBE|PUBLISH a|PUBLISH|SPUBLISH a|PUBSUB|PUBSUB NUMPAT x",
    "nobody listens": "PUBLISH a m|SPUBLISH s m|PUBSUB CHANNELS|PUBSUB NUMSUB|PUBSUB NUMSUB a b|PUBSUB NUMPAT"
    "|PUBSUB SHARDCHANNELS|PUBSUB SHARDNUMSUB s t|PUBSUB CHANNELS a b|PUBSUB SHARDCHANNELS a b|PUBSUB NOSUCH",
    "help": "PUBSUB HELP|PUBSUB HELP x",
    "in a transaction": "MULTI|SUBSCRIBE a b|ECHO x|EXEC|PING|UNSUBSCRIBE a b",
    "ends in a transaction": "MULTI|PSUBSCRIBE a*|PUNSUBSCRIBE|UNSUBSCRIBE|EXEC|GET x",
    "discarded": "MULTI|SUBSCRIBE a|DISCARD|GET x|PUBSUB CHANNELS",
    "with keys in a transaction": "MULTI|SET x 1|SUBSCRIBE a|GET x|EXEC|PING",
    "sharded in a transaction": "MULTI|SSUBSCRIBE s|EXEC|GET x",
    "PUBSUB in a transaction": "MULTI|PUBSUB NUMSUB a|PUBSUB NUMPAT|PUBLISH a m|SPUBLISH s m|EXEC",
    "a watch before": "WATCH k|SUBSCRIBE a|UNSUBSCRIBE|MULTI|PING|EXEC",
    "replies switched off": "CLIENT REPLY OFF|SUBSCRIBE a|UNSUBSCRIBE a|GET x|CLIENT REPLY ON",
}


def until_quiet(client, seconds=0.03):
    """All bytes until nothing has come for so long, or the connection ends."""
    got = b""
    while is_ready(client.socket, select.POLLIN, seconds):
        data = client.socket.recv(1 << 16)
        if not data:
            break
        got += data
    return got


@test(stock=True, seconds=90)
def every_talk_about_subscribing_is_answered_as_by_one_redis(shop, stock):
    wrong = []
    for name, text in TALKS.items():
        for version in ("2", "3"):
            for how in ("one by one", "in a pipeline"):
                shop.empty()
                stock.empty()
                requests = [resp.request(*line.split(" ")) for line in text.split("|")]
                if how == "in a pipeline":
                    requests = [b"".join(requests)]
                with shop.client() as ours, stock.client() as theirs:
                    if version == "3":
                        ours.hello3(), theirs.hello3()
                    got, wanted = b"", b""
                    for request in requests:
                        theirs.send(request)
                        answer = until_quiet(theirs)
                        wanted += answer
                        ours.send(request)
                        if answer:
                            got += ours.read_exactly(len(answer))
                        if got != wanted:
                            break
                    got += until_quiet(ours) if got == wanted else b""
                if got != wanted:
                    wrong.append(
                        "%s (RESP%s, %s)\n       proxy %s\n       redis %s"
                        % (name, version, how, shown(got, 900), shown(wanted, 900))
                    )
    check(not wrong, "%d talks differ:\n     %s" % (len(wrong), "\n     ".join(wrong)))


# --- who gets what


def message(channel, payload, mark=b"*"):
    return mark + array(bulk("message"), bulk(channel), bulk(payload))[1:]


def pmessage(pattern, channel, payload, mark=b"*"):
    return mark + array(bulk("pmessage"), bulk(pattern), bulk(channel), bulk(payload))[1:]


def smessage(channel, payload, mark=b"*"):
    return mark + array(bulk("smessage"), bulk(channel), bulk(payload))[1:]


def subscribe(client, command, *names):
    """Subscribes, and reads what confirms it."""
    client.send(resp.request(command, *names))
    for raw in client.read_many(len(names)):
        has(raw, command.lower(), what="the confirmation")
    return client


def payloads(client, count):
    """Of the next so many messages, in order: (word, payload)."""
    values = [resp.value(raw) for raw in client.read_many(count)]
    return [(each[0], each[-1]) for each in values]


def everywhere(shop):
    """How to reach the proxy: its forward port, and each endpoint."""
    return [shop.client] + [lambda place=place: shop.at(place) for place in range(3)]


@test(seconds=60)
def every_subscriber_gets_every_message_once_and_in_order(fresh):
    shop = fresh(workers=3)
    listeners = []
    for n, connect in enumerate(everywhere(shop) * 6):
        client = connect()
        if n % 3 == 1:
            client.hello3()
        subscribe(client, "SUBSCRIBE", "news", "other")
        subscribe(client, "PSUBSCRIBE", "n*s", "nobody*")
        listeners.append(client)
    publishers = [connect() for connect in everywhere(shop) * 2]
    count = 150

    def publish(number):
        for n in range(0, count, 10):
            same(
                publishers[number].pipeline(
                    *[("PUBLISH", "news", "%d:%d" % (number, n + i)) for i in range(10)]
                ),
                [b":%d\r\n" % (2 * len(listeners))] * 10,
            )

    threads = [threading.Thread(target=publish, args=(n,)) for n in range(len(publishers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = {number: list(range(count)) for number in range(len(publishers))}
    for client in listeners:
        got = {b"message": collections.defaultdict(list), b"pmessage": collections.defaultdict(list)}
        for word, payload in payloads(client, 2 * count * len(publishers)):
            number, n = payload.split(b":")
            got[word][int(number)].append(int(n))
        same(dict(got[b"message"]), wanted, "messages of the channel")
        same(dict(got[b"pmessage"]), wanted, "messages of the pattern")
        check(client.silent(0.02), "nothing else comes")


@test
def plain_clients_messages_to_several_channels_keep_their_order(shop):
    listener = subscribe(shop.client(), "PSUBSCRIBE", "ch*")
    subscribe(listener, "SUBSCRIBE", "ch1")
    publisher = shop.client()
    publisher.pipeline(*[("PUBLISH", "ch%d" % (n % 17), n) for n in range(500)])
    got = [int(payload) for word, payload in payloads(listener, 500 + 30) if word == b"pmessage"]
    same(got, list(range(500)), "the numbers as they came")


@test
def what_is_published_inside_scripts_and_transactions_and_at_nodes_arrives(shop):
    listener = subscribe(shop.client(), "SUBSCRIBE", "ch")
    client = shop.client()
    for key in (A, B, C):
        script = "redis.call('PUBLISH', 'ch', ARGV[1]) return 1"
        same(client.ask("EVAL", script, "1", key, "script " + key), 1)
        same(listener.read(), message("ch", "script " + key))
        # Of a transaction the node's own count: the proxy is one subscriber there.
        got = client.pipeline(("MULTI",), ("SET", key, 1), ("PUBLISH", "ch", "exec " + key), ("EXEC",))
        same(got[-1], array(OK, b":1\r\n"))
        same(listener.read(), message("ch", "exec " + key))
    for place in range(3):
        same(shop.node(place).ask("PUBLISH", "ch", "node %d" % place), 1)
        same(listener.read(), message("ch", "node %d" % place))


@test
def keyspace_events_of_all_nodes_arrive_but_for_the_proxy_s_own_keys(fresh):
    shop = fresh(node_args=("--notify-keyspace-events", "KEA"))
    listener = subscribe(shop.client(), "PSUBSCRIBE", "__key*__:*")
    client = shop.client()
    for key in (A, B, C):
        same(client.raw("SET", key, 1), OK)
        same(listener.read(), pmessage("__key*__:*", "__keyspace@0__:" + key, "set"))
        same(listener.read(), pmessage("__key*__:*", "__keyevent@0__:set", key))
        shop.node(0).ask("SET", "__slotproxy:something", 1)
        shop.node(0).ask("DEL", "__slotproxy:something")
    check(listener.silent(0.1), "nothing about the proxy's own keys comes")


@test
def the_count_of_receivers_is_the_proxy_s_own(shop):
    clients = [connect() for connect in everywhere(shop)]
    for client in clients[:3]:
        subscribe(client, "SUBSCRIBE", "ch")
    subscribe(clients[0], "PSUBSCRIBE", "c?")
    subscribe(clients[3], "PSUBSCRIBE", "c[a-h]", "x*")
    publisher = shop.client()
    same(publisher.ask("PUBLISH", "ch", "m"), 5)
    same(publisher.ask("PUBLISH", "xyz", "m"), 1)
    same(publisher.ask("PUBLISH", "zzz", "m"), 0)
    same(publisher.ask("PUBSUB", "NUMSUB", "ch", "zzz"), [b"ch", 3, b"zzz", 0])
    same(publisher.ask("PUBSUB", "NUMPAT"), 3)
    same(publisher.ask("PUBSUB", "CHANNELS"), [b"ch"])
    same(publisher.ask("PUBSUB", "CHANNELS", "x*"), [])
    clients[0].send(resp.request("UNSUBSCRIBE", "ch"))
    same([word for word, _ in payloads(clients[0], 3)], [b"message", b"pmessage", b"unsubscribe"])
    same(publisher.ask("PUBLISH", "ch", "m"), 4)
    clients[1].close()
    eventually(lambda: publisher.ask("PUBLISH", "ch", "m") == 3, 3, "a client that left is not counted")


@test
def a_resp3_subscriber_goes_on_working_and_hears_itself(shop):
    client = shop.client().hello3()
    subscribe(client, "SUBSCRIBE", "me")
    same(client.raw("SET", A, 1), OK)
    client.send(resp.request("PUBLISH", "me", "hello"))
    same(
        sorted(client.read_many(2)), sorted([b":1\r\n", message("me", "hello", b">")]), "what it reads"
    )
    # A reply that comes in pieces is not torn by messages.
    big = b"x" * 3_000_000
    same(client.raw("SET", B, big), OK)
    publisher = shop.client()
    stop = threading.Event()

    def publish():
        while not stop.is_set():
            publisher.raw("PUBLISH", "me", "tick")

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for _ in range(20):
            client.send(resp.request("GET", B) + resp.request("GET", A))
            replies = []
            while len(replies) < 2:
                raw = client.read()
                if raw[:1] == b">":
                    same(raw, message("me", "tick", b">"))
                else:
                    replies.append(raw)
            same(replies, [bulk(big), bulk(1)])
    finally:
        stop.set()
        thread.join()


@test
def what_waits_behind_a_slow_command_is_not_told_before_it(shop):
    """A confirmation has its place behind the replies that come before it, and messages behind it."""
    other = subscribe(shop.client(), "SUBSCRIBE", "ch")
    client = shop.client().hello3()
    spin = "local t = redis.call('TIME') while true do local n = redis.call('TIME') "
    spin += "if (n[1] - t[1]) * 1000000 + n[2] - t[2] > 200000 then return 7 end end"
    client.send(resp.request("EVAL", spin, "1", B) + resp.request("SUBSCRIBE", "ch"))
    publisher = shop.client()
    eventually(lambda: publisher.ask("PUBSUB", "NUMSUB", "ch") == [b"ch", 2], 3, "both have subscribed")
    same(shop.node(2).ask("PUBLISH", "ch", "early"), 1)
    same(other.read(), message("ch", "early"))
    same(client.read(), b":7\r\n")
    has(client.read(), "subscribe")
    same(client.read(), message("ch", "early", b">"))


# --- shared subscriptions


def counts_at_nodes(shop, word="NUMSUB", name="ch"):
    return [shop.node(place).ask("PUBSUB", word, name)[1] for place in range(3)]


@test(seconds=60)
def a_thousand_subscribers_are_one_subscription_per_node(fresh):
    shop = fresh(workers=3)
    clients = [shop.client("subscriber %d" % n) for n in range(1000)]
    request = resp.request("SUBSCRIBE", "ch")
    for client in clients:
        client.send(request)
    for client in clients:
        has(client.read(), "subscribe")
    same(counts_at_nodes(shop), [1, 1, 1], "subscribers of the channel at each node")
    connections = [shop.node(place).ask("CLIENT", "LIST", "TYPE", "pubsub").splitlines() for place in range(3)]
    same([len(lines) for lines in connections], [1, 1, 1], "connections that have subscribed something")
    publisher = shop.client()
    same(publisher.ask("PUBLISH", "ch", "m"), 1000)
    for client in clients:
        same(client.read(), message("ch", "m"))
    for client in clients[1:]:
        client.close()
    eventually(lambda: publisher.ask("PUBSUB", "NUMSUB", "ch") == [b"ch", 1], 5, "the others have left")
    same(counts_at_nodes(shop), [1, 1, 1])
    clients[0].raw("UNSUBSCRIBE", "ch")
    eventually(lambda: counts_at_nodes(shop) == [0, 0, 0], 3, "nothing is subscribed at the nodes")


@test
def who_subscribes_while_others_unsubscribe_misses_nothing(shop):
    publisher, coming = shop.client(), shop.client()
    for n in range(150):
        going = subscribe(shop.client(), "SUBSCRIBE", "ch")
        going.send(resp.request("UNSUBSCRIBE", "ch"))
        subscribe(coming, "SUBSCRIBE", "ch")
        place = n % 3
        shop.node(place).ask("PUBLISH", "ch", n)
        same(coming.read(), message("ch", n), "what came in round %d" % n)
        going.close()
        coming.raw("UNSUBSCRIBE", "ch")
    eventually(lambda: publisher.ask("PUBSUB", "CHANNELS") == [], 3, "nobody is left")


@test
def what_was_published_before_an_unsubscribe_comes_before_it(shop):
    publisher, listener = shop.client(), shop.client()
    for n in range(60):
        subscribe(listener, "SUBSCRIBE", "ch")
        same(shop.node(n % 3).ask("PUBLISH", "ch", n), 1)
        same(publisher.pipeline(("PUBLISH", "ch", "x"), ("PUBLISH", "ch", "y")), [b":1\r\n"] * 2)
        listener.send(resp.request("UNSUBSCRIBE", "ch"))
        got = payloads(listener, 4)
        same(sorted(got[:3]), sorted((b"message", each) for each in (b"%d" % n, b"x", b"y")))
        same(got[3], (b"unsubscribe", 0))


@test
def ten_thousand_channels_of_one_client_and_their_limit(fresh):
    shop = fresh(config={"limits": {"subscribed_names": "1MB"}})
    client = shop.client()
    names = ["channel:%d" % n for n in range(5000)]
    subscribe(client, "SUBSCRIBE", *names)
    publisher = shop.client()
    same(len(publisher.ask("PUBSUB", "CHANNELS")), 5000)
    for place in range(3):
        same(len(shop.node(place).ask("PUBSUB", "CHANNELS")), 5000)
    error(client.raw("SUBSCRIBE", *["more:%d" % n for n in range(5000)]), "ERR", "limits.subscribed_names")
    same(publisher.ask("PUBLISH", "channel:4999", "m"), 1)
    same(client.read(), message("channel:4999", "m"))
    client.close()
    eventually(lambda: publisher.ask("PUBSUB", "CHANNELS") == [], 3, "the client has left")
    eventually(lambda: shop.node(0).ask("PUBSUB", "CHANNELS") == [], 3, "the nodes know it")


@test
def who_subscribes_shows_in_client_list_and_info(shop):
    client = shop.client()
    client.raw("CLIENT", "SETNAME", "listener")
    subscribe(client, "SUBSCRIBE", "a", "b")
    subscribe(client, "PSUBSCRIBE", "p*")
    subscribe(client, "SSUBSCRIBE", "s")
    other = shop.client().hello3()
    lines = other.ask("CLIENT", "LIST", "TYPE", "pubsub").decode().splitlines()
    same(len(lines), 1, "clients of TYPE pubsub")
    has(lines[0], "name=listener", "flags=P ", "sub=2 psub=1 ssub=1 ")
    lines = other.ask("CLIENT", "LIST", "TYPE", "normal").decode()
    check("name=listener" not in lines, "TYPE normal leaves it out")
    info = other.ask("INFO", "stats").decode()
    has(info, "pubsub_channels:2\r\n", "pubsub_patterns:1\r\n", "pubsubshard_channels:1\r\n")
    same(other.ask("CLIENT", "KILL", "TYPE", "pubsub"), 1)
    client.read_until_closed()
    has(other.ask("INFO", "stats").decode(), "pubsub_channels:0\r\n", "pubsub_patterns:0\r\n")


# --- sharded channels


@test
def a_sharded_channel_is_subscribed_at_its_owner_alone(shop):
    client = subscribe(shop.client(), "SSUBSCRIBE", B, "{%s}2" % B)
    same(counts_at_nodes(shop, "SHARDNUMSUB", B), [0, 1, 0], "shard subscribers at each node")
    publisher = shop.client()
    same(publisher.ask("SPUBLISH", B, "m"), 1)
    same(client.read(), smessage(B, "m"))
    same(publisher.ask("PUBLISH", B, "m"), 0, "a plain message is another thing")
    same(publisher.ask("PUBSUB", "SHARDNUMSUB", B, A), [B.encode(), 1, A.encode(), 0])
    crossslot = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
    same(shop.client().raw("SSUBSCRIBE", A, B), crossslot)
    at_owner, at_other = shop.at(1), shop.at(0)
    subscribe(at_owner, "SSUBSCRIBE", B)
    error(at_other.raw("SSUBSCRIBE", B), "MOVED 7365")
    error(at_other.raw("SPUBLISH", B, "m"), "MOVED 7365")
    same(shop.at(1).ask("SPUBLISH", B, "n"), 2)
    same(client.read(), smessage(B, "n"))
    same(at_owner.read(), smessage(B, "n"))


@test(seconds=90)
def sharded_subscribers_miss_nothing_while_their_slots_move(fresh):
    shop = fresh(config=QUICK, workers=2)
    names = [name for name in ("s%d" % n for n in range(5000)) if resp.slot_of(name) < 1024][:40]
    listeners = {name: subscribe(shop.client(name), "SSUBSCRIBE", name) for name in names}
    counts, stop = collections.Counter(), threading.Event()
    wrong = []

    def publish(own):
        client = shop.client("publisher")
        while not stop.is_set():
            for name in own:
                got = client.raw("SPUBLISH", name, counts[name])
                if got != b":1\r\n":
                    wrong.append((name, got))
                counts[name] += 1

    threads = [threading.Thread(target=publish, args=(names[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    try:
        for target in ("inv-vlc", "inv-bcn", "inv-gir"):
            same(plans.run(shop, "--move", "0-1023:" + target, seconds=30)["state"], "done")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    same(wrong[:3], [], "answers to SPUBLISH")
    check(min(counts.values()) > 20, "enough was published meanwhile: %s" % counts)
    for name, client in listeners.items():
        got = [int(payload) for _, payload in payloads(client, counts[name])]
        same(got, list(range(counts[name])), "messages of %s" % name)
        check(client.silent(0.01), "nothing else comes of %s" % name)
    name = names[0]
    eventually(
        lambda: counts_at_nodes(shop, "SHARDNUMSUB", name) == [0, 0, 1], 3, "the last owner alone is subscribed to"
    )


@test(seconds=60)
def an_endpoint_tells_sharded_subscribers_of_a_move_as_a_cluster_node_does(fresh):
    shop = fresh(config=QUICK)
    for version in (2, 3):
        source, target = (0, 1) if version == 2 else (1, 0)
        clients = [shop.at(source) for _ in range(2)]
        mark = b"*"
        for client in clients:
            if version == 3:
                client.hello3()
                mark = b">"
            subscribe(client, "SSUBSCRIBE", A)
        subscribe(clients[1], "SUBSCRIBE", "plain")
        for n in range(50):
            shop.client().raw("SPUBLISH", A, n)
        slot = resp.slot_of(A)
        same(plans.run(shop, "--move", "%d:%s" % (slot, shop.name(target)))["state"], "done")
        for client in clients:
            same([int(payload) for _, payload in payloads(client, 50)], list(range(50)))
            client.send(resp.request("PING"))
            wanted = mark + array(bulk("sunsubscribe"), bulk(A), b":0\r\n")[1:]
            same(client.read(), wanted)
        same(clients[0].read(), PONG)
        same(clients[1].read(), PONG if version == 3 else array(bulk("pong"), bulk("")))
        error(clients[0].raw("SSUBSCRIBE", A), "MOVED %d" % slot)
        again = subscribe(shop.at(target), "SSUBSCRIBE", A)
        same(shop.client().ask("SPUBLISH", A, "m"), 1)
        same(again.read(), smessage(A, "m"))
        for client in (*clients, again):
            client.close()


# --- nodes that come and go


@test(seconds=60)
def a_node_that_dies_and_returns_is_subscribed_to_again(fresh):
    shop = fresh()
    listener = subscribe(shop.client(), "SUBSCRIBE", "ch")
    subscribe(listener, "SSUBSCRIBE", A)
    publisher = shop.client()
    shop.node(0).kill()
    eventually(lambda: publisher.raw("GET", A).startswith(b"-"), 5, "the node is down")
    # The others go on: the client's messages, and who subscribes now.
    for n in range(20):
        eventually(lambda n=n: publisher.raw("PUBLISH", "ch", n) == b":1\r\n", 3, "a message is published")
        same(listener.read(), message("ch", n))
    late = subscribe(shop.client(), "SUBSCRIBE", "ch", "new")
    eventually(
        lambda: shop.client().raw("SSUBSCRIBE", A).startswith(b"-CLUSTERDOWN"), 3, "the owner is missed"
    )
    shop.node(0).start()
    eventually(lambda: publisher.raw("SET", A, 1) == OK, 10, "the node is back")
    eventually(
        lambda: shop.node(0).ask("PUBSUB", "NUMSUB", "ch", "new") == [b"ch", 1, b"new", 1],
        2,
        "everything is subscribed there again",
    )
    eventually(lambda: shop.node(0).ask("PUBSUB", "SHARDNUMSUB", A)[1] == 1, 2, "sharded channels too")
    shop.node(0).ask("PUBLISH", "ch", "back")
    same(listener.read(), message("ch", "back"))
    same(late.read(), message("ch", "back"))
    same(publisher.ask("SPUBLISH", A, "back"), 1)
    same(listener.read(), smessage(A, "back"))
    has(shop.proxy.log(), "subscriptions share was lost", "in force there again")


@test(seconds=60)
def what_clients_publish_is_not_lost_while_nodes_come_and_go(fresh):
    """Published at a node that is subscribed to: neither a dead one nor one that is just back."""
    shop = fresh()
    listener = subscribe(shop.client(), "SUBSCRIBE", "ch")
    publisher, acknowledged = shop.client(), []
    stop = threading.Event()

    def publish():
        n = 0
        while not stop.is_set():
            if publisher.raw("PUBLISH", "ch", n) == b":1\r\n":
                acknowledged.append(n)
            n += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        watcher = shop.client()
        for _ in range(3):
            shop.node(0).kill()
            eventually(lambda: watcher.raw("GET", A).startswith(b"-"), 5, "the node is down")
            shop.node(0).start()
            eventually(lambda: watcher.raw("SET", A, 1) == OK, 10, "the node is back")
            time.sleep(0.1)  # As long as messages may go astray.
    finally:
        stop.set()
        thread.join()
    same(publisher.raw("PUBLISH", "ch", "end"), b":1\r\n")
    got = []
    while not got or got[-1] != b"end":
        got.append(payloads(listener, 1)[0][1])
    numbers = [int(n) for n in got[:-1]]
    same(sorted(set(numbers)), sorted(numbers), "nothing comes twice")
    lost = set(acknowledged) - set(numbers)
    # What the killed server had answered and not sent on yet may be among its last words.
    check(len(lost) <= 3, "of %d messages %d were lost: %s" % (len(acknowledged), len(lost), sorted(lost)[:9]))


@test(seconds=60)
def a_silent_node_keeps_nobody_waiting_and_is_subscribed_to_when_it_speaks(fresh):
    shop = fresh()
    listener = subscribe(shop.client(), "SUBSCRIBE", "ch")
    publisher = shop.client()
    shop.node(1).stop()
    try:
        late = shop.client()
        late.send(resp.request("SUBSCRIBE", "late"))
        has(late.read(), "subscribe")
        eventually(lambda: publisher.raw("GET", B).startswith(b"-"), 5, "the node is down")
        same(publisher.ask("PUBLISH", "late", "m"), 1)
        same(late.read(), message("late", "m"))
    finally:
        shop.node(1).go_on()
    eventually(lambda: publisher.raw("SET", B, 1) == OK, 10, "the node is back")
    eventually(lambda: counts_at_nodes(shop, name="late") == [1, 1, 1], 3, "it is subscribed to again")
    shop.node(1).ask("PUBLISH", "ch", "m")
    same(listener.read(), message("ch", "m"))


@test(seconds=60)
def a_node_that_joins_is_subscribed_to(fresh):
    shop = fresh(config=QUICK)
    listener = subscribe(shop.client(), "SUBSCRIBE", "ch")
    subscribe(listener, "PSUBSCRIBE", "p*")
    server = plans.add_node(shop, "inv-mad")
    same(shop.slotctl("reload").returncode, 0)
    plan = plans.show(shop, 1)
    plans.approve(shop, plan)
    plans.wait(shop, plan, "done", seconds=40)
    eventually(lambda: server.ask("PUBSUB", "NUMSUB", "ch") == [b"ch", 1], 3, "it is subscribed to")
    same(server.ask("PUBLISH", "ch", "m"), 1)
    same(listener.read(), message("ch", "m"))
    same(server.ask("PUBLISH", "px", "m"), 1)
    same(listener.read(), pmessage("p*", "px", "m"))
    fourth = shop.at(3)
    same(fourth.ask("PUBLISH", "ch", "from its endpoint"), 1)
    same(listener.read(), message("ch", "from its endpoint"))


@test
def a_node_that_refuses_subscriptions_is_said_to_the_client(fresh):
    shop = fresh()
    for place in range(3):
        shop.node(place).ask("ACL", "SETUSER", "default", "resetchannels", "&free*")
    client = shop.client()
    subscribe(client, "SUBSCRIBE", "free")
    error(client.raw("SUBSCRIBE", "other"), "NOPERM", "node inv-")
    same(shop.client().ask("PUBLISH", "free", "m"), 1)
    same(client.read(), message("free", "m"))
    same(client.raw("UNSUBSCRIBE"), array(bulk("unsubscribe"), bulk("free"), b":0\r\n"))


# --- limits


@test(seconds=60)
def a_subscriber_that_does_not_read_is_cut_and_nobody_else_notices(fresh):
    shop = fresh(config={"limits": {"unread_messages": "4MB"}})
    slow = shop.client("slow", receive_buffer=4096)
    subscribe(slow, "SUBSCRIBE", "ch")
    quick = subscribe(shop.client("quick", timeout=20), "SUBSCRIBE", "ch")
    publisher = shop.client()
    payload, slowest, left = "x" * 50_000, 0.0, 0
    for n in range(600):
        began = time.monotonic()
        left = publisher.ask("PUBLISH", "ch", payload)
        slowest = max(slowest, time.monotonic() - began)
        same(quick.read(), message("ch", payload))
    same(left, 1, "subscribers that are left")
    check(slowest < 1.0, "PUBLISH never waits: %.3f s" % slowest)
    has(shop.proxy.log(), "limits.unread_messages")
    counters = [worker["counters"] for worker in plans.ask(shop, "STATUS")["workers"]]
    same(sum(each["slow_subscribers"] for each in counters), 1, "the count of slow subscribers")
    slow.read_until_closed()


@test(seconds=40)
def an_idle_subscriber_stays(fresh):
    shop = fresh(config={"timeouts": {"stalled_client": "1s"}})
    client = subscribe(shop.client(), "SUBSCRIBE", "ch")
    check(client.silent(3.5), "nothing comes and nothing closes")
    same(shop.client().ask("PUBLISH", "ch", "m"), 1)
    same(client.read(), message("ch", "m"))


# --- a library


@test
def redis_py_publishes_and_subscribes(shop):
    client = redis.Redis(HOST, shop.forward_port)
    pubsub = client.pubsub()
    pubsub.subscribe("ch")
    pubsub.psubscribe("p*")

    def following():
        return eventually(lambda: pubsub.get_message(timeout=0.05), 3, "a message comes")

    same(following()["type"], "subscribe")
    same(following()["type"], "psubscribe")
    same(client.publish("ch", "one"), 1)
    same(following()["data"], b"one")
    same(client.publish("px", "two"), 1)
    got = following()
    same((got["type"], got["channel"], got["pattern"], got["data"]), ("pmessage", b"px", b"p*", b"two"))
    same(client.pubsub_numsub("ch"), [(b"ch", 1)])
    pubsub.ping()
    same(following()["type"], "pong")
    pubsub.unsubscribe()
    same(following()["type"], "unsubscribe")
    pubsub.close()
