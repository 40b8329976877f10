"""Nodes that lie or stammer: garbage, half replies, replies too many; nobody reads another's."""

from downtime import UNKNOWN, of_downtime

from harness.check import Failure, check, eventually, error, has, same
from harness.load import Crowd
from harness.relay import Cut
from harness.resp import bulk, request
from harness.shop import key_on, keys_on
from harness.tests import test
from harness.wire import timed

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"


@test
def garbage_from_a_node_ends_as_outcome_unknown_for_all_on_that_connection(fresh):
    shop = fresh(relays=(2,), workers=1)
    client, others = shop.client(), [shop.client("other %d" % n) for n in range(5)]
    for garbage in (
        b"?what\r\n",
        b"$abc\r\n",
        b"*-7\r\n",
        b"$-9\r\n",
        b":12x\r\n",
        b"\r\n\r\n",
        b"$3\r\nabcdef\r\n",
        b"\0\0\0\0\r\n",
    ):
        shop.relays[2].rules.clear()
        shop.relays[2].on("GET", C, garbage)
        client.send(
            request("ECHO", "first")
            + request("GET", C)
            + request("GET", A)
            + request("ECHO", "last")
        )
        for n, other in enumerate(others):
            other.send(
                request("SET", key_on(2, skip=n + 1), "other%d" % n)
                + request("GET", key_on(2, skip=n + 1))
            )
        got = client.read_many(4)
        same(got[0], bulk("first"))
        error(got[1], "", UNKNOWN.decode(), shop.name(2), what="the reply after %r" % garbage)
        same(got[2:], [NULL, bulk("last")])
        for n, other in enumerate(others):
            for reply, good in zip(other.read_many(2), (OK, bulk("other%d" % n))):
                check(
                    reply == good or of_downtime(reply) or (reply == NULL and good != OK),
                    "another client got %r" % reply,
                )
        eventually(
            lambda: client.raw("SET", key_on(2, skip=9), "x") == OK,
            3,
            "the node is used again after %r" % garbage,
        )


@test
def a_reply_that_nobody_asked_for_reaches_nobody(fresh):
    shop = fresh(relays=(2,), workers=1)
    client = shop.client()
    shop.relays[2].on("GET", C, b"$4\r\nmine\r\n$4\r\nevil\r\n")
    for n in range(20):
        got = client.raw("GET", C)
        check(got == bulk("mine") or of_downtime(got), "the reply is %r" % got)
        for key in keys_on(2, 3, "calm"):
            got = client.raw("GET", key)
            check(got == NULL or of_downtime(got), "the next client's reply is %r" % got)


@test
def a_close_in_the_middle_of_a_reply_ends_as_unknown(fresh):
    shop = fresh(relays=(2,))
    client = shop.client()
    for half in (b"", b"$", b"$10\r\n", b"$10\r\nabc", b"*2\r\n$1\r\na\r\n", b"+O", b":1"):
        shop.relays[2].rules.clear()

        def cut(args, ask, half=half):
            raise Cut(half)

        shop.relays[2].on("GET", C, cut)
        client.send(request("GET", C) + request("ECHO", half) + request("SET", A, "1"))
        got = client.read_many(3)
        error(got[0], "", UNKNOWN.decode(), what="the reply after %r and a close" % half)
        same(got[1:], [bulk(half), OK])
        eventually(
            lambda: client.raw("SET", key_on(2, skip=3), 1) == OK, 3, "the node is used again"
        )


@test
def a_large_reply_that_breaks_off_closes_the_client_or_is_an_error(fresh):
    shop = fresh(relays=(2,))
    client, other = shop.client(timeout=10), shop.client("other client")

    def cut(args, ask):
        raise Cut(b"$5000000\r\n" + b"z" * 3000000)

    shop.relays[2].on("GET", C, cut)
    client.send(request("GET", C) + request("ECHO", "next"))
    # What has been passed on cannot be taken back: only a close keeps the client from taking it for
    # the value.
    try:
        got = client.read()
        error(got, "", UNKNOWN.decode())
        same(client.read(), bulk("next"))
    except Failure as why:
        has(str(why), "closed before the whole reply", what="what the client saw")
    same(other.raw("SET", A, 1), OK)
    eventually(lambda: other.raw("SET", key_on(2, skip=3), 1) == OK, 3, "the node is used again")


@test
def a_request_timeout_never_hands_its_reply_to_the_next(fresh):
    shop = fresh(config={"timeouts": {"request": "100ms", "node_silent": "5s"}})
    spin = (
        "EVAL",
        "local t=redis.call('TIME') local s=t[1]*1000+math.floor(t[2]/1000) "
        "repeat t=redis.call('TIME') until t[1]*1000+math.floor(t[2]/1000)-s>=300 return 'late'",
        1,
        C,
    )
    client = shop.client()
    with Crowd(shop.forward, keys_on(2, 20, "w"), allowed=of_downtime) as crowd:
        crowd.wait_for(200)
        for n in range(3):
            reply, took = timed(lambda: client.raw(*spin))
            error(reply, "", UNKNOWN.decode(), shop.name(2))
            check(0.05 < took < 0.29, "the timeout of 100 ms took %.3f s" % took)
            same(client.raw("ECHO", n), bulk(n))
            eventually(lambda: client.raw("SET", C, "x") == OK, 3, "the node is used again")
            crowd.wait_for(200)
        crowd.verdict()
