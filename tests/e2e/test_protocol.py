"""Framing: what any client may send, byte by byte, and what comes back."""
import socket

from harness import resp, sockets
from harness.check import check, error, lacks, same
from harness.resp import array, bulk, request
from harness.shop import key_on, node_of
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"


def talk(shop, data):
    """What a fresh connection answers to these bytes, up to its close."""
    with shop.client() as client:
        client.send(data)
        return client.read_until_closed()


def wrong_arity(name):
    return b"-ERR wrong number of arguments for '%s' command\r\n" % name.encode()


# One bad command among good ones


@test(stock=True)
def an_unknown_command_costs_neither_its_neighbours_nor_the_connection(shop):
    client = shop.client()
    client.send(request("SET", "a", 1) + request("NOSUCHCMD", "z") + request("GET", "a"))
    same(client.read_exactly(5), OK)
    same(client.read(), b"-ERR unknown command 'NOSUCHCMD', with args beginning with: 'z' \r\n")
    same(client.read(), bulk("1"))
    same(client.raw("PING"), PONG)


@test(stock=True)
def a_wrong_number_of_arguments_is_an_error_in_its_place(shop):
    client = shop.client()
    replies = client.pipeline(("MGET",), ("MSET", "a"), ("DEL",), ("GET",), ("SET", "a"), ("PING",))
    same(replies, [wrong_arity(name) for name in ("mget", "mset", "del", "get", "set")] + [PONG])


@test(stock=True)
def an_odd_mset_is_refused_whole(shop):
    client = shop.client()
    same(client.raw("MSET", "a", "1", "bar"), wrong_arity("mset"))
    same(client.raw("GET", "a"), NULL)


@test(stock=True)
def an_unknown_command_is_quoted_and_cut_as_redis_does(shop):
    client = shop.client()
    same(
        client.raw("no\r\nsuch"), b"-ERR unknown command 'no  such', with args beginning with: \r\n"
    )
    long = client.raw("x" * 300, "y" * 300, "z")
    same(
        long,
        b"-ERR unknown command '%s', with args beginning with: '%s' \r\n"
        % (b"x" * 128, b"y" * 128),
    )
    many = client.raw("nosuch", *["arg%d" % i for i in range(40)])
    check(
        many.startswith(b"-ERR unknown command 'nosuch', with args beginning with: 'arg0' 'arg1' "),
        str(many),
    )
    check(len(many) < 250, "the arguments are cut: %r" % many)
    same(client.raw("PING"), PONG)


@test(stock=True)
def command_names_have_no_case(shop):
    client = shop.client()
    same(client.raw("sEt", "a", "1"), OK)
    same(client.raw("gET", "a"), bulk("1"))
    same(client.raw("cliENT", "gEtNaMe"), NULL)


# Protocol errors

PROTOCOL_ERRORS = (
    (b"*2147483648\r\n", b"invalid multibulk length"),
    (b"*99999999999999999999\r\n", b"invalid multibulk length"),
    (b"*x\r\n", b"invalid multibulk length"),
    (b"*1x\r\n", b"invalid multibulk length"),
    (b"*1\r\n$4294967296\r\n", b"invalid bulk length"),
    (b"*1\r\n$2147483645\r\n", b"invalid bulk length"),
    (b"*1\r\n$536870913\r\n", b"invalid bulk length"),
    (b"*1\r\n$-5\r\n", b"invalid bulk length"),
    (b"*1\r\n$-1\r\n", b"invalid bulk length"),
    (b"*1\r\n$+3\r\n", b"invalid bulk length"),
    (b"*1\r\n$ 3\r\n", b"invalid bulk length"),
    (b"*1\r\n$0:\r\n", b"invalid bulk length"),
    (b"*1\r\n$\r\n", b"invalid bulk length"),
    (b"*1\r\n$99999999999999999999\r\n", b"invalid bulk length"),
    (b"*1\r\n+PING\r\n", b"expected '$', got '+'"),
    (b"*2\r\n$3\r\nGET\r\nfoo\r\n", b"expected '$', got 'f'"),
    (b"*2\r\n$3\r\nGET\r\n*1\r\n", b"expected '$', got '*'"),
    (b'SET a "x\r\n', b"unbalanced quotes in request"),
    (b"SET a 'x\r\n", b"unbalanced quotes in request"),
    (b'SET a "x"y\r\n', b"unbalanced quotes in request"),
    (b"x" * 70000, b"too big inline request"),
    (b"*" + b"1" * 70000, b"too big mbulk count string"),
    (b"*1\r\n$" + b"1" * 70000, b"too big bulk count string"),
)


@test(stock=True)
def a_protocol_error_is_named_and_ends_the_connection(shop):
    for data, words in PROTOCOL_ERRORS:
        same(
            talk(shop, data),
            b"-ERR Protocol error: " + words + b"\r\n",
            "the answer to %r" % data[:40],
        )


@test(stock=True)
def replies_before_a_protocol_error_still_arrive_in_order(shop):
    keys = [key_on(node) for node in (0, 1, 2)]
    data = b"".join(request("SET", key, key) + request("GET", key) for key in keys)
    wanted = b"".join(OK + bulk(key) for key in keys)
    same(
        talk(shop, data + b"*1\r\n$-5\r\n" + request("PING")),
        wanted + b"-ERR Protocol error: invalid bulk length\r\n",
    )


@test
def huge_lengths_cost_no_memory(shop):
    for data in (
        b"*2147483647\r\n",
        b"*1048576\r\n$3\r\nDEL\r\n",
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$536870912\r\n",
        b"*2\r\n$3\r\nGET\r\n$536870912\r\n",
        b"*1\r\n$4294967296\r\n",
        b"*99999999999999999999\r\n",
    ):
        with shop.client() as client:
            client.ask("PING")
            before = shop.proxy.memory()
            client.send(data)
            sockets.wait_read(client.socket)
            shop.client().ask("PING")
            grown = shop.proxy.memory() - before
            check(grown < 1 << 20, "%r made the proxy grow by %d bytes" % (data[:40], grown))


@test(stock=True)
def a_browser_that_posts_to_the_port_is_cut_off(shop):
    same(talk(shop, b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET a 1\r\n"), b"")
    same(shop.client().raw("GET", "a"), NULL)


# Inline commands


@test(stock=True)
def inline_commands_work(shop):
    client = shop.client()
    client.send(b'PING\nSET a "x y"\r\nGET a\r\n')
    same(client.read_exactly(len(PONG + OK + bulk("x y"))), PONG + OK + bulk("x y"))
    client.send(b"\r\n\n   \r\nECHO 'it''s'\r\n")
    error(client.read(), "ERR Protocol error: unbalanced quotes")


@test(stock=True)
def inline_quotes_and_escapes_are_understood(shop):
    client = shop.client()
    for line, argument in (
        (b'ECHO "\\x41\\n\\t\\"\\\\"', b'A\n\t"\\'),
        (b"ECHO 'it\\'s \\x41'", b"it's \\x41"),
        (b"  ECHO   a  ", b"a"),
        (b'ECHO ""', b""),
        (b"\tECHO\tb", b"b"),
        (b'ECHO "\\r\\n$3"', b"\r\n$3"),
    ):
        client.send(line + b"\r\n")
        same(client.read(), bulk(argument), "the reply to %r" % line)


@test(stock=True)
def inline_and_framed_commands_mix_in_one_write(shop):
    client = shop.client()
    client.send(
        b"PING\r\n"
        + request("SET", "a", "1")
        + b"GET a\r\n*0\r\n*-1\r\n\r\n"
        + request("GET", "a")
        + b"GET\r\n"
    )
    same(client.read_many(5), [PONG, OK, bulk("1"), bulk("1"), wrong_arity("get")])


@test(stock=True)
def empty_requests_have_no_reply(shop):
    client = shop.client()
    client.send(b"*0\r\n\r\n*-1\r\n\n*-10\r\n" + request("PING"))
    same(client.read(), PONG)
    check(client.silent(0.05), "nothing else arrives")


@test(stock=True)
def an_inline_line_just_below_the_limit_is_taken(shop):
    client = shop.client()
    text = b"y" * 60000
    client.send(b"ECHO " + text + b"\r\n")
    same(client.read(), bulk(text))


# Kinds of replies


@test(stock=True)
def nested_replies_pass_byte_for_byte(shop):
    client = shop.client()
    same(
        client.raw("EVAL", "return {1,{2,{3,'x'}},{}}", 1, "a"),
        b"*3\r\n:1\r\n*2\r\n:2\r\n*2\r\n:3\r\n$1\r\nx\r\n*0\r\n",
    )
    client.ask("XADD", "x", "1-1", "f", "v", "g", "w")
    same(
        client.raw("XRANGE", "x", "-", "+"),
        array(array(bulk("1-1"), array(bulk("f"), bulk("v"), bulk("g"), bulk("w")))),
    )
    client.ask("GEOADD", "k1", "2.17", "41.38", "bcn")
    place = resp.value(
        client.raw("GEOSEARCH", "k1", "FROMMEMBER", "bcn", "BYRADIUS", 1, "km", "WITHCOORD")
    )
    same(place[0][0], b"bcn")
    same(len(place[0][1]), 2, "the number of coordinates")


@test(stock=True)
def nulls_and_empties_are_kept_apart(shop):
    client = shop.client()
    client.ask("SET", "a", "1")
    wanted = {
        "2": (NULL, b"*0\r\n", array(NULL, bulk("1")), b"*0\r\n", b"*0\r\n", b"*-1\r\n"),
        "3": (b"_\r\n", b"*0\r\n", array(b"_\r\n", bulk("1")), b"%0\r\n", b"~0\r\n", b"_\r\n"),
    }
    for version, replies in wanted.items():
        client.ask("HELLO", version)
        got = client.pipeline(
            ("GET", "no"),
            ("LRANGE", "no", 0, -1),
            ("MGET", "no", "a"),
            ("HGETALL", "no"),
            ("SMEMBERS", "no"),
            ("LPOP", "no", 1),
        )
        same(got, list(replies), "the RESP%s replies" % version)


@test(stock=True)
def resp3_types_reach_a_resp3_client_only(shop):
    two, three = shop.client("RESP2 client"), shop.client("RESP3 client").hello3()
    two.ask("HSET", "bar", "f", "v")
    two.ask("ZADD", "c", "1.5", "m")
    two.ask("SADD", "foo", "m")
    for _ in range(
        3
    ):  # By turns, so that connections of the two versions get mixed up if they can be.
        same(three.raw("HGETALL", "bar"), b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n")
        same(two.raw("HGETALL", "bar"), array(bulk("f"), bulk("v")))
        same(three.raw("ZSCORE", "c", "m"), b",1.5\r\n")
        same(two.raw("ZSCORE", "c", "m"), bulk("1.5"))
        same(three.raw("SMEMBERS", "foo"), b"~1\r\n$1\r\nm\r\n")
        same(two.raw("SMEMBERS", "foo"), array(bulk("m")))
        same(three.raw("GET", "none"), b"_\r\n")
        same(two.raw("GET", "none"), NULL)
    same(three.raw("RESET"), b"+RESET\r\n")
    same(three.raw("HGETALL", "bar"), array(bulk("f"), bulk("v")), "the reply after RESET")


@test(stock=True)
def a_change_of_version_inside_a_pipeline_holds_from_there_on(shop):
    client = shop.client()
    client.ask("HSET", "bar", "f", "v")
    client.send(
        request("HGETALL", "bar")
        + request("HELLO", "3")
        + request("HGETALL", "bar")
        + request("HELLO", "2")
        + request("HGETALL", "bar")
    )
    flat = array(bulk("f"), bulk("v"))
    same(client.read(), flat)
    check(client.read().startswith(b"%7\r\n"), "HELLO 3 answers a map of seven")
    same(client.read(), b"%1\r\n" + bulk("f") + bulk("v"))
    check(client.read().startswith(b"*14\r\n"), "HELLO 2 answers an array of fourteen")
    same(client.read(), flat)


@test(seconds=40)
def a_reply_nested_two_thousand_deep_harms_nobody(fresh):
    shop = fresh(relays=(2,))
    key = key_on(2)
    deep = b"*1\r\n" * 2000 + b":1\r\n"
    shop.relays[2].on("GET", key, deep)
    client, other = shop.client(), shop.client("other client")
    got = client.raw("GET", key)
    check(
        got == deep or got.startswith(b"-"),
        "either the reply itself or one error, got %r" % got[:80],
    )
    same(client.raw("PING"), PONG)
    same(other.raw("SET", key_on(2, skip=1), "1"), OK)
    same(other.raw("GET", key_on(2, skip=1)), bulk("1"))


# Keys and values of any bytes


@test(stock=True)
def keys_and_values_may_hold_any_bytes(shop):
    client = shop.client()
    keys = (
        b"",
        b"\0",
        b"\x00\xff\r\n",
        b"k" * 65536,
        b"$3\r\nfoo\r\n",
        bytes(range(256)),
        b"{",
        b"}",
        b"{}",
        b" ",
    )
    for key in keys:
        for text in (b"", b"\r\n", key, b"*1\r\n$4\r\nPING\r\n", b"\0" * 100):
            same(client.raw("SET", key, text), OK, "SET of %r" % key[:30])
            same(client.raw("GET", key), bulk(text), "GET of %r" % key[:30])
    same(client.raw("DBSIZE"), b":%d\r\n" % len(keys))
    for key in keys:
        same(client.raw("DEL", key), b":1\r\n", "DEL of %r" % key[:30])
    same(client.raw("DBSIZE"), b":0\r\n")


KEY_SLOTS = {
    b"{}abc": 5980,
    b"a{}b{c}d": 8147,
    b"foo{}{bar}": 8363,
    b"{{b}}": 6215,
    b"foo{{bar}}zap": 4015,
    b"foo{bar}{zap}": 5061,
    b"}{abc": 15680,
    b"{abc": 444,
    b"A}B{C": 7939,
    b"a{'1':{'i32':1}}": 5540,
    b"": 0,
    b"\0": 0,
    b"\x00\xff\r\n": 6261,
    b"bar": 5061,
    b"b": 3300,
    b"{b}1": 3300,
    b"k2": 449,
    b"hello": 866,
    b"c": 7365,
    b"counter": 6680,
    b"user:{42}:name": 8000,
    b"h:{}": 9708,
    b"foo": 12182,
    b"a": 15495,
    b"{a}1": 15495,
    b"k1": 12706,
    b"list": 12291,
    b"queue": 13011,
    b"x": 16287,
    b"123456789": 12739,
}


@test(stock=True)
def keyslot_follows_the_hash_tag_rule(shop):
    client = shop.at(0)
    for key, slot in KEY_SLOTS.items():
        same(resp.slot_of(key), slot, "our own slot of %r" % key)
        same(client.raw("CLUSTER", "KEYSLOT", key), b":%d\r\n" % slot, "CLUSTER KEYSLOT %r" % key)


@test
def every_key_lands_on_the_owner_of_its_slot_and_nowhere_else(shop):
    client = shop.client()
    for key, slot in KEY_SLOTS.items():
        same(client.raw("SET", key, "v%d" % slot), OK)
        for place in (0, 1, 2):
            wanted = b"v%d" % slot if place == node_of(key) else None
            same(shop.node(place).ask("GET", key), wanted, "%r on %s" % (key, shop.name(place)))


# The end of a connection


@test(stock=True)
def quit_answers_and_closes_and_what_follows_is_ignored(shop):
    same(talk(shop, request("SET", "a", "1") + request("QUIT") + request("SET", "a", "2")), OK + OK)
    same(shop.client().raw("GET", "a"), bulk("1"))
    same(talk(shop, b"QUIT\r\n"), OK)


@test(stock=True)
def a_client_that_closes_its_sending_side_still_gets_its_replies(shop):
    client = shop.client()
    keys = [key_on(node) for node in (0, 1, 2)]
    client.send(b"".join(request("SET", key, key) for key in keys))
    client.socket.shutdown(socket.SHUT_WR)
    same(client.read_until_closed(), OK * 3, "what arrived before the close")


@test(stock=True)
def a_request_that_is_never_finished_is_never_run(shop):
    with shop.client() as client:
        client.send(request("SET", "a", "1") + request("SET", "a", "2")[:-3])
        same(client.read(), OK)
    same(shop.client().raw("GET", "a"), bulk("1"))


@test
def clients_that_vanish_in_the_middle_leave_the_others_alone(shop):
    steady = shop.client("steady client")
    keys = [key_on(node) for node in (0, 1, 2)]
    for round_ in range(100):
        leaver = shop.client("leaver")
        leaver.send(
            b"".join(request("SET", key, "leaver%d" % round_) + request("GET", key) for key in keys)
            + request("GET", keys[0])[: round_ % 20]
        )
        leaver.close()
        mine = "mine%d" % round_
        got = steady.pipeline(*(("ECHO", mine), ("SET", "own" + mine, mine), ("GET", "own" + mine)))
        same(got, [bulk(mine), OK, bulk(mine)], "the steady client's replies")


@test(stock=True)
def authentication_in_the_middle_of_a_pipeline_drops_no_reply(shop):
    client = shop.client()
    client.ask("SET", "a", "1")
    got = client.pipeline(("GET", "a"), ("AUTH", "bad"), ("GET", "a"))
    same(got[0], bulk("1"))
    error(got[1], "ERR AUTH <password> called without any password configured for the default user")
    same(got[2], bulk("1"))
    got = client.pipeline(("GET", "a"), ("AUTH", "nobody", "bad"), ("GET", "a"))
    same(
        got,
        [
            bulk("1"),
            b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
            bulk("1"),
        ],
    )


@test(stock=True)
def a_request_of_many_arguments_is_taken(shop):
    client = shop.client()
    keys = ["many%d" % i for i in range(20000)]
    same(client.raw("MSET", *[part for key in keys for part in (key, "v" + key)]), OK)
    got = client.raw("MGET", *keys)
    same(got, array(*[bulk("v" + key) for key in keys]), "the 20,000 values")
    same(client.raw("DEL", *keys), b":20000\r\n")


@test
def passwords_and_sizes_are_checked_before_authentication(fresh):
    shop = fresh(config={"listen": {"password": "sesame"}}, start=False)
    shop.start(wait_nodes=False)
    for data, words in (
        (b"*11\r\n", b"unauthenticated multibulk length"),
        (b"*2\r\n$3\r\nGET\r\n$16385\r\n", b"unauthenticated bulk length"),
    ):
        same(talk(shop, data), b"-ERR Protocol error: " + words + b"\r\n")
    client = shop.client()
    same(client.raw("GET", "a"), b"-NOAUTH Authentication required.\r\n")
    same(client.raw("PING"), b"-NOAUTH Authentication required.\r\n")
    same(
        client.raw("AUTH", "wrong"),
        b"-WRONGPASS invalid username-password pair or user is disabled.\r\n",
    )
    same(client.raw("AUTH", "sesame"), OK)
    same(client.raw("PING"), PONG)
    other = shop.client()
    error(
        other.raw("HELLO", "3"), "NOAUTH HELLO must be called with the client already authenticated"
    )
    check(
        other.raw("HELLO", "3", "AUTH", "default", "sesame", "SETNAME", "n").startswith(b"%7\r\n"),
        "HELLO 3 AUTH works",
    )
    same(other.raw("CLIENT", "GETNAME"), bulk("n"))
    same(talk(shop, request("QUIT")), OK)
    same(shop.at(0).raw("CLUSTER", "SLOTS"), b"-NOAUTH Authentication required.\r\n")
    lacks(shop.proxy.log(), "sesame", what="the log")
