"""What commands make of a key: the judge's own Redis, for the commands that checking clients send.

apply(state, command, now_ms) says what the key is afterwards and what the reply must be. A family
is three keys of one slot that are always written together, seen as one key.
"""
import collections

from . import resp

State = collections.namedtuple("State", "value expire_at")
ABSENT = State(None, None)
# entries: ((id, value), …); group: None or Group. Group.pending: ((id, consumer, deliveries), …).
Stream = collections.namedtuple("Stream", "entries last group")
Group = collections.namedtuple("Group", "last pending")
EMPTY_STREAM = Stream((), (0, 0), None)
GROUP = b"group"
FAMILY_SCRIPT = (
    "local old = redis.call('MGET', KEYS[1], KEYS[1]..'+', KEYS[1]..'++') "
    "redis.call('MSET', KEYS[1], ARGV[1], KEYS[1]..'+', ARGV[1], KEYS[1]..'++', ARGV[1]) "
    "return old"
)


class AnError(str):
    """An expected error reply: its first word."""


def family(name):
    """Three keys of one slot."""
    return ("{%s}" % name, "{%s}+" % name, "{%s}++" % name)


def stream_id(text):
    first, _, second = text.decode().partition("-")
    return (int(first), int(second))


def id_text(pair):
    return b"%d-%d" % pair


def keeping(state, value):
    """Another value under the same expiry; an empty collection is no key."""
    return State(value, state.expire_at) if value or value == b"" else ABSENT


# --- strings, and what all keys have


def do_set(state, args):
    expire_at = int(args[3]) if len(args) > 3 else None
    return State(args[1], expire_at), "OK"


def do_append(state, args):
    value = (state.value or b"") + args[1]
    return State(value, state.expire_at), len(value)


def do_getdel(state, args):
    return ABSENT, state.value


def do_del(state, args):
    return ABSENT, len(args) if state.value is not None else 0


def do_persist(state, args):
    had = state.value is not None and state.expire_at is not None
    return State(state.value, None), int(had)


def do_pexpireat(state, args):
    if state.value is None:
        return state, 0
    return State(state.value, int(args[1])), 1


def do_pexpiretime(state, args):
    return state, -2 if state.value is None else -1 if state.expire_at is None else state.expire_at


# --- collections


def do_rpush(state, args):
    value = (state.value or ()) + tuple(args[1:])
    return keeping(state, value), len(value)


def do_lpop(state, args):
    if not state.value:
        return state, None
    return keeping(state, state.value[1:]), state.value[0]


def do_hset(state, args):
    fields = dict(state.value or ())
    is_new = args[1] not in fields
    fields[args[1]] = args[2]
    return keeping(state, frozenset(fields.items())), int(is_new)


def do_hdel(state, args):
    fields = dict(state.value or ())
    had = fields.pop(args[1], None) is not None
    return keeping(state, frozenset(fields.items())), int(had)


def do_sadd(state, args):
    members = state.value or frozenset()
    return keeping(state, members | {args[1]}), int(args[1] not in members)


def do_srem(state, args):
    members = state.value or frozenset()
    return keeping(state, members - {args[1]}), int(args[1] in members)


def do_zadd(state, args):
    scores = dict(state.value or ())
    is_new = args[2] not in scores
    scores[args[2]] = int(args[1])
    return keeping(state, frozenset(scores.items())), int(is_new)


def do_zrem(state, args):
    scores = dict(state.value or ())
    had = scores.pop(args[1], None) is not None
    return keeping(state, frozenset(scores.items())), int(had)


# --- streams: one group, of which the change feed says nothing


def do_xadd(state, args):
    stream = state.value or EMPTY_STREAM
    new = stream_id(args[1])
    if new <= stream.last:
        return state, AnError("ERR")
    entries = stream.entries + ((new, args[3]),)
    return State(Stream(entries, new, stream.group), state.expire_at), args[1]


def do_xdel(state, args):
    if state.value is None:
        return state, 0
    gone = stream_id(args[1])
    entries = tuple(entry for entry in state.value.entries if entry[0] != gone)
    found = len(state.value.entries) - len(entries)
    return State(state.value._replace(entries=entries), state.expire_at), found


def do_xgroup(state, args):
    if state.value is None:
        return state, AnError("ERR")
    if state.value.group:
        return state, AnError("BUSYGROUP")
    return State(state.value._replace(group=Group((0, 0), ())), state.expire_at), "OK"


def with_group(state, group):
    return State(state.value._replace(group=group), state.expire_at)


def do_xreadgroup(state, args):
    if state.value is None or state.value.group is None:
        return state, AnError("NOGROUP")
    group, count = state.value.group, int(args[4])
    fresh = [entry for entry in state.value.entries if entry[0] > group.last][:count]
    if not fresh:
        return state, None
    pending = group.pending + tuple((entry[0], args[2], 1) for entry in fresh)
    group = Group(fresh[-1][0], tuple(sorted(pending)))
    return with_group(state, group), tuple((id_text(entry[0]), entry[1]) for entry in fresh)


def do_xack(state, args):
    if state.value is None or state.value.group is None:
        return state, 0
    group, gone = state.value.group, stream_id(args[2])
    pending = tuple(entry for entry in group.pending if entry[0] != gone)
    acked = len(group.pending) - len(pending)
    return with_group(state, Group(group.last, pending)), acked


def do_xclaim(state, args):
    if state.value is None or state.value.group is None:
        return state, AnError("NOGROUP")
    group, wanted = state.value.group, stream_id(args[4])
    found = [entry for entry in group.pending if entry[0] == wanted]
    if not found:
        return state, ()
    others = tuple(entry for entry in group.pending if entry[0] != wanted)
    if all(entry[0] != wanted for entry in state.value.entries):  # Deleted: pending no more.
        return with_group(state, Group(group.last, others)), ()
    pending = tuple(sorted(others + ((wanted, args[2], found[0][2]),)))
    return with_group(state, Group(group.last, pending)), (args[4],)


def do_xpending(state, args):
    if state.value is None or state.value.group is None:
        return state, AnError("NOGROUP")
    pending = state.value.group.pending
    return state, tuple((id_text(entry[0]), entry[1], entry[2]) for entry in pending)


def do_xinfo(state, args):
    if state.value is None:
        return state, AnError("ERR")
    group = state.value.group
    if group is None:
        return state, ()
    return state, ((GROUP, len(group.pending), id_text(group.last)),)


def do_xrange(state, args):
    entries = state.value.entries if state.value else ()
    return state, tuple((id_text(entry[0]), entry[1]) for entry in entries)


# --- families


def do_mset(state, args):
    return State(args[1], None), "OK"


def do_mget(state, args):
    return state, (state.value,) * 3


def do_eval(state, args):
    return State(args[3], None), (state.value,) * 3


def reading(of_value):
    return lambda state, args: (state, of_value(state.value))


COMMANDS = {
    b"SET": do_set,
    b"GET": reading(lambda value: value),
    b"APPEND": do_append,
    b"GETDEL": do_getdel,
    b"DEL": do_del,
    b"PERSIST": do_persist,
    b"PEXPIREAT": do_pexpireat,
    b"PEXPIRETIME": do_pexpiretime,
    b"RPUSH": do_rpush,
    b"LPOP": do_lpop,
    b"LRANGE": reading(lambda value: value or ()),
    b"HSET": do_hset,
    b"HDEL": do_hdel,
    b"HGETALL": reading(lambda value: value or frozenset()),
    b"SADD": do_sadd,
    b"SREM": do_srem,
    b"SMEMBERS": reading(lambda value: value or frozenset()),
    b"ZADD": do_zadd,
    b"ZREM": do_zrem,
    b"ZRANGE": reading(lambda value: value or frozenset()),
    b"XADD": do_xadd,
    b"XDEL": do_xdel,
    b"XGROUP": do_xgroup,
    b"XREADGROUP": do_xreadgroup,
    b"XACK": do_xack,
    b"XCLAIM": do_xclaim,
    b"XRANGE": do_xrange,
    b"XPENDING": do_xpending,
    b"XINFO": do_xinfo,
    b"MSET": do_mset,
    b"MGET": do_mget,
    b"EVAL": do_eval,
}


def apply(state, command):
    """(state afterwards, reply); command: bytes, the name first."""
    return COMMANDS[command[0]](state, command[1:])


# --- replies, to be compared with what apply() says


def pairs(flat):
    return frozenset(zip(flat[::2], flat[1::2]))


def entries_of(items):
    return tuple((entry[0], entry[1][1]) for entry in items)


def group_facts(items):
    facts = [resp.as_map(item) for item in items]
    return tuple((f["name"], f["pending"], f["last-delivered-id"]) for f in facts)


SHAPES = {
    b"LRANGE": tuple,
    b"HGETALL": pairs,
    b"SMEMBERS": frozenset,
    b"ZRANGE": lambda flat: frozenset((m, int(score)) for m, score in pairs(flat)),
    b"XREADGROUP": lambda reply: entries_of(reply[0][1]),
    b"XRANGE": entries_of,
    b"XCLAIM": tuple,
    b"XPENDING": lambda reply: tuple((e[0], e[1], e[3]) for e in reply),
    b"XINFO": group_facts,
    b"MGET": tuple,
    b"EVAL": tuple,
}


def shaped(command, raw):
    """A raw reply as apply() would say it."""
    reply = resp.value(raw)
    if isinstance(reply, resp.ErrorReply):
        return AnError(reply.split(" ")[0])
    if reply is None or command[0] not in SHAPES:
        return reply
    return SHAPES[command[0]](reply)


def agree(wanted, got, command):
    """TTLs may be off by 50 ms."""
    if command[0] == b"PEXPIRETIME" and wanted > 0 and got > 0:
        return abs(wanted - got) <= 50
    return type(wanted) is type(got) and wanted == got


READS = {
    "string": [("GET", "{}")],
    "list": [("LRANGE", "{}", 0, -1)],
    "hash": [("HGETALL", "{}")],
    "set": [("SMEMBERS", "{}")],
    "zset": [("ZRANGE", "{}", 0, -1, "WITHSCORES")],
    "stream": [
        ("XRANGE", "{}", "-", "+"),
        ("XPENDING", "{}", GROUP, "-", "+", 100000),
        ("XINFO", "GROUPS", "{}"),
    ],
    "family": [("MGET", "{}")],
}


def encoded(*words):
    return tuple(map(resp.to_bytes, words))


def names_of(kind, name):
    return family(name) if kind == "family" else (name,)


def reads_of(kind, name):
    """Commands that show all of a key but its expiry."""
    found = []
    for words in READS[kind]:
        at = words.index("{}")
        found.append(encoded(*words[:at], *names_of(kind, name), *words[at + 1 :]))
    return found
