"""Fragments: however a stream is cut, at the client or at a node, the replies are the same."""
import random

from harness.check import same
from harness.resp import bulk, request
from harness.shop import key_on
from harness.tests import test

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"


def mixed_pipeline(count):
    """(requests, replies) of every framing there is; keys on all three nodes; starts from no
    keys."""
    keys = [key_on(node, "frag") for node in (0, 1, 2)]
    requests, replies, lengths = [], [], {key: 0 for key in keys}
    for n in range(count):
        key = keys[n % 3]
        kind = n % 10
        if kind in (0, 1, 2):
            lengths[key] = len("v%d" % n)
            requests.append(request("SET", key, "v%d" % n))
            replies.append(OK)
        elif kind in (3, 4, 5):
            lengths[key] += 2
            requests.append(request("APPEND", key, "\r\n"))
            replies.append(b":%d\r\n" % lengths[key])
        elif kind == 6:
            requests.append(b"STRLEN " + key.encode() + b"\r\n")
            replies.append(b":%d\r\n" % lengths[key])
        elif kind == 7:
            requests.append(request("NOSUCH", "$3\r\nfoo\r\n"))
            replies.append(
                b"-ERR unknown command 'NOSUCH', with args beginning with: '$3  foo  ' \r\n"
            )
        elif kind == 8:
            requests.append(request("EXISTS", *keys, "none"))
            replies.append(b":%d\r\n" % sum(1 for each in keys if lengths[each]))
        else:
            requests.append(b"\r\n" + request("ECHO", "") + b"*0\r\n")
            replies.append(bulk(""))
    requests.append(request("DEL", *keys))
    replies.append(b":%d\r\n" % sum(1 for each in keys if lengths[each]))
    return b"".join(requests), b"".join(replies)


@test(stock=True)
def three_hundred_commands_one_byte_at_a_time_give_the_same_replies(shop):
    requests, replies = mixed_pipeline(300)
    client = shop.client()
    client.send(requests)
    same(client.read_exactly(len(replies)), replies, "the unsplit pipeline's replies")
    client.log.clear()
    client.send_pieces(requests, *range(1, len(requests)))
    same(client.read_exactly(len(replies)), replies, "the replies to single bytes")


@test(stock=True, seconds=60)
def a_cut_at_any_offset_gives_the_same_replies(shop):
    requests, replies = mixed_pipeline(20)
    client = shop.client()
    for offset in range(1, len(requests)):
        client.send_pieces(requests, offset)
        same(client.read_exactly(len(replies)), replies, "the replies when cut at byte %d" % offset)


@test(stock=True)
def cuts_at_random_places_give_the_same_replies(shop):
    requests, replies = mixed_pipeline(60)
    client = shop.client()
    for seed in range(200):
        chance = random.Random(seed)
        cuts = sorted(chance.sample(range(1, len(requests)), chance.randint(1, 9)))
        client.send_pieces(requests, *cuts)
        same(client.read_exactly(len(replies)), replies, "the replies when cut at %s" % cuts)


@test(stock=True)
def a_long_value_in_many_pieces_arrives_whole(shop):
    client = shop.client()
    text = bytes(random.Random(7).randbytes(200000))
    data = request("SET", "k1", text) + request("GET", "k1")
    client.send_pieces(data, *range(1, len(data), 7919))
    same(client.read(), OK)
    same(client.read(), bulk(text))


@test(long=True, seconds=60)
def a_node_whose_replies_come_in_pieces_changes_nothing(fresh):
    shop = fresh(relays=(0,))
    relay, client = shop.relays[0], shop.client()
    keys = [key_on(0, skip=n) for n in range(6)]
    client.ask("SET", keys[0], "a\r\nb")
    client.ask("RPUSH", keys[1], "x", "", "yy")
    client.ask("HSET", keys[2], "f", "v")
    client.ask("XADD", keys[3], "1-1", "f", "v")
    client.ask("SADD", keys[4], "m")
    commands = (
        ("GET", keys[0]),
        ("LRANGE", keys[1], 0, -1),
        ("HGETALL", keys[2]),
        ("XRANGE", keys[3], "-", "+"),
        ("SMEMBERS", keys[4]),
        ("GET", keys[5]),
        ("INCR", keys[1]),
        ("STRLEN", keys[0]),
        ("HGET", keys[2], "no"),
        ("LRANGE", keys[5], 0, -1),
        ("EVAL", "return {1,{2,{3,'x'}},{}}", 1, keys[0]),
    )
    for version in ("2", "3"):
        client.ask("HELLO", version)
        whole = client.pipeline(*commands)
        for offset in range(1, max(map(len, whole))):
            relay.chop = (
                lambda reply, at=offset: (reply[:at], reply[at:]) if at < len(reply) else (reply,)
            )
            same(
                client.pipeline(*commands),
                whole,
                "RESP%s replies cut at byte %d" % (version, offset),
            )
        relay.chop = lambda reply: [reply[at : at + 1] for at in range(len(reply))]
        same(client.pipeline(*commands), whole, "RESP%s replies one byte at a time" % version)
        relay.chop = None
