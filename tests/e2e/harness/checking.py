"""Checking clients: writers and readers in threads, which know what every key may be.

Each key has one writer, so that its model is exact; readers on other connections check that nobody
sees an older value than was acknowledged. Keys of all types, with expiry and deletion. Lists and
counters that all write are counted at the end: each acknowledged write once, an unknown one at
most once. Half of the clients are plain ones, half follow MOVED.
"""
import collections
import random
import socket
import threading
import time

from . import plans, resp, values
from .check import Failure, check, eventually, same
from .checked_key import CheckedKey, Violation, now_ms

NOT_RUN = (
    "CLUSTERDOWN",
    "LOADING",
    "OOM",
    "MISCONF",
    "READONLY",
    "NOREPLICAS",
    "BUSY",
    "refused",
)
REDIRECTS_MAX = 200
ANSWER_SECONDS = 20


class NoReply(Exception):
    """The connection ended, or said nothing for too long: what was sent may have run."""


class Connection:
    def __init__(self, address):
        try:
            self.socket = socket.create_connection(address, 5)
        except OSError:
            self.socket = None
            return
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(ANSWER_SECONDS)
        self.buffer = bytearray()

    def ask(self, command):
        """A raw reply; b"-refused" when nobody accepted the connection."""
        if self.socket is None:
            return b"-refused \r\n"
        try:
            self.socket.sendall(resp.request(*command))
            while True:
                end = resp.frame_end(self.buffer)
                if end >= 0:
                    raw = bytes(self.buffer[:end])
                    del self.buffer[:end]
                    return raw
                data = self.socket.recv(1 << 16)
                if not data:
                    raise NoReply("closed")
                self.buffer += data
        except socket.timeout:
            raise NoReply("silent for %d s" % ANSWER_SECONDS)
        except OSError as why:
            raise NoReply(str(why))

    def close(self):
        if self.socket:
            self.socket.close()


class PlainClient:
    def __init__(self, shop):
        self.address, self.connection = shop.forward, None

    def ask(self, slot, command):
        if self.connection is None or self.connection.socket is None:
            self.connection = Connection(self.address)
        try:
            return self.connection.ask(command)
        except NoReply:
            self.close()
            raise

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


class RedirectedClient:
    """Keeps a map of slots as a cluster client does: learnt from MOVED alone."""

    def __init__(self, shop):
        self.first, self.places, self.connections = shop.endpoint(0), {}, {}

    def ask(self, slot, command):
        for _ in range(REDIRECTS_MAX):
            address = self.places.get(slot, self.first)
            connection = self.connections.get(address)
            if connection is None or connection.socket is None:
                connection = self.connections[address] = Connection(address)
            try:
                raw = connection.ask(command)
            except NoReply:
                self.connections.pop(address).close()
                raise
            if not raw.startswith(b"-MOVED "):
                return raw
            host, _, port = raw.split()[2].decode().rpartition(":")
            self.places[slot] = (host, int(port))
        raise Violation("slot %d was redirected %d times in a row" % (slot, REDIRECTS_MAX))

    def close(self):
        for connection in self.connections.values():
            connection.close()
        self.connections = {}


# --- what a writer does with its keys


def string_command(rng, name, text, key):
    kind = rng.randrange(12)
    if kind < 4:
        return ("SET", name, text)
    if kind == 4:
        return ("SET", name, text, "PXAT", int(now_ms()) + rng.choice((40, 200, 500, 60000)))
    if kind == 5:
        return ("APPEND", name, text)
    return rng.choice((("GETDEL", name), ("GET", name), ("DEL", name)) + expiry(rng, name))


def expiry(rng, name):
    when = int(now_ms()) + rng.choice((-1000, 50, 300, 100000))
    return (("PEXPIREAT", name, when), ("PERSIST", name), ("PEXPIRETIME", name))


def list_command(rng, name, text, key):
    choices = (("RPUSH", name, text),) * 4 + (("LPOP", name),) * 3
    return rng.choice(choices + (("LRANGE", name, 0, -1), ("DEL", name)) + expiry(rng, name)[1:])


def hash_command(rng, name, text, key):
    field = "f%d" % rng.randrange(12)
    choices = (("HSET", name, field, text),) * 4 + (("HDEL", name, field),) * 2
    return rng.choice(choices + (("HGETALL", name), ("DEL", name)) + expiry(rng, name)[:1])


def set_command(rng, name, text, key):
    member = "m%d" % rng.randrange(12)
    choices = (("SADD", name, member), ("SREM", name, member), ("SMEMBERS", name)) * 3
    return rng.choice(choices + (("DEL", name),))


def zset_command(rng, name, text, key):
    member = "m%d" % rng.randrange(12)
    choices = (("ZADD", name, rng.randrange(1000), member), ("ZREM", name, member)) * 3
    return rng.choice(choices + (("ZRANGE", name, 0, -1, "WITHSCORES"), ("DEL", name)))


def stream_command(rng, name, text, key):
    number = text.rpartition(":")[2]
    state = next(iter(key.worlds))[0]
    if state.value is None or rng.random() < 0.25:
        return ("XADD", name, "%s-1" % number, "field", text)
    if state.value.group is None:
        return ("XGROUP", "CREATE", name, values.GROUP, "0")
    pending = state.value.group.pending
    choices = [("XREADGROUP", "GROUP", values.GROUP, rng.choice("cd"), "COUNT", 2, "STREAMS", name, ">")]
    if pending:
        some = values.id_text(rng.choice(pending)[0])
        choices += [("XACK", name, values.GROUP, some)] * 2
        choices.append(("XCLAIM", name, values.GROUP, rng.choice("ce"), 0, some, "JUSTID"))
    if len(state.value.entries) > 8:
        choices += [("XDEL", name, values.id_text(state.value.entries[0][0]))] * 3
    if len(state.value.entries) + len(pending) > 40:
        return ("DEL", name)
    return rng.choice(choices)


def family_command(rng, name, text, key):
    names = values.family(name)
    return rng.choice(
        (
            ("MSET", names[0], text, names[1], text, names[2], text),
            ("EVAL", values.FAMILY_SCRIPT, 1, names[0], text),
            ("MGET", *names),
            ("DEL", *names),
        )
    )


WRITES = {
    "string": string_command,
    "list": list_command,
    "hash": hash_command,
    "set": set_command,
    "zset": zset_command,
    "stream": stream_command,
    "family": family_command,
}


def normalized(command):
    """As values.apply() wants its words: subcommands and options before the key taken out."""
    words = values.encoded(*command)
    if words[0] == b"XGROUP":
        return (b"XGROUP", words[2])
    return words


class SharedKeys:
    """A list and a counter that all writers write."""

    def __init__(self, names):
        self.names, self.lock = names, threading.Lock()
        self.acknowledged, self.unknown = collections.Counter(), collections.Counter()
        self.counted = collections.defaultdict(set)  # Counter -> replies.

    def write(self, writer, text):
        name = writer.rng.choice(self.names)
        is_list = writer.rng.random() < 0.5
        command = ("RPUSH", name + ":l", text) if is_list else ("INCR", name + ":n")
        entry = (name, text if is_list else None)
        outcome, raw = writer.tell(resp.slot_of(name), command)
        with self.lock:
            if outcome == "unknown":
                self.unknown[entry] += 1
            if outcome != "answered":
                return
            self.acknowledged[entry] += 1
            if not is_list:
                count = resp.value(raw)
                if count in self.counted[name]:
                    raise Violation("counter %s: two writers were told %r" % (name, count))
                self.counted[name].add(count)

    def verify(self, ask):
        """ask(slot, command) -> raw."""
        for name in self.names:
            slot = resp.slot_of(name)
            there = collections.Counter(
                (name, text.decode()) for text in resp.value(ask(slot, ("LRANGE", name + ":l", 0, -1)))
            )
            for entry in set(there) | {e for e in self.acknowledged if e[0] == name and e[1]}:
                least, most = self.acknowledged[entry], self.acknowledged[entry] + self.unknown[entry]
                if not least <= there[entry] <= most:
                    raise Violation(
                        "list %s: %s is there %d times, written %d to %d times"
                        % (name, entry[1], there[entry], least, most)
                    )
            counter = int(resp.value(ask(slot, ("GET", name + ":n"))) or 0)
            least = self.acknowledged[(name, None)]
            most = least + self.unknown[(name, None)]
            if not least <= counter <= most:
                raise Violation(
                    "counter %s is %d, counted %d to %d times" % (name, counter, least, most)
                )


class Member(threading.Thread):
    """One client, a writer or a reader."""

    def __init__(self, crowd, number, client):
        super().__init__(daemon=True)
        self.crowd, self.number, self.client = crowd, number, client
        self.rng = random.Random("%s:%d" % (crowd.seed, number))
        self.sequence = 0
        self.slowest = 0.0

    def run(self):
        crowd = self.crowd
        while not crowd.is_stopped:
            if crowd.is_paused:
                with crowd.quiet:
                    crowd.idle.add(self.number)
                    crowd.quiet.notify_all()
                    crowd.quiet.wait_for(lambda: not crowd.is_paused or crowd.is_stopped)
                    crowd.idle.discard(self.number)
                continue
            try:
                self.act()
            except Violation as why:
                crowd.complaints.append("client %d: %s" % (self.number, why))
            except Exception as why:  # Of this file: never to be taken for silence.
                crowd.complaints.append("client %d broke: %r" % (self.number, why))
                raise
            if crowd.pace:
                time.sleep(crowd.pace)
        self.client.close()

    def tell(self, slot, command):
        """("answered" | "unknown" | "failed", raw)"""
        began = time.monotonic()
        try:
            raw = self.client.ask(slot, command)
        except NoReply as why:
            self.crowd.note_error("no reply: %s" % why)
            return "unknown", None
        self.slowest = max(self.slowest, time.monotonic() - began)
        self.crowd.asked += 1
        if raw.startswith(b"-"):
            text = raw[1:].decode(errors="replace").strip()
            if text.startswith("ERR outcome unknown"):
                self.crowd.note_error(text)
                return "unknown", raw
            if text.startswith(NOT_RUN):
                self.crowd.note_error(text)
                time.sleep(0.01)
                return "failed", raw
        return "answered", raw


class Writer(Member):
    def __init__(self, crowd, number, client, keys):
        super().__init__(crowd, number, client)
        self.keys = keys

    def act(self):
        self.sequence += 1
        text = "%d:%d" % (self.number, self.sequence)
        if self.crowd.shared and self.rng.random() < 0.1:
            return self.crowd.shared.write(self, text)
        key = self.rng.choice(self.keys)
        if key.is_blurred:
            return time.sleep(0.001)
        command = WRITES[key.kind](self.rng, key.name, text, key)
        key.begin(normalized(command))
        outcome, raw = self.tell(resp.slot_of(key.name), command)
        if outcome == "answered":
            key.answered(raw)
        elif outcome == "unknown":
            key.unknown()
        else:
            key.failed()


class Reader(Member):
    def act(self):
        key = self.rng.choice(self.crowd.keys)
        command = self.rng.choice(values.reads_of(key.kind, key.name))
        begun = key.begin_read()
        outcome, raw = self.tell(resp.slot_of(key.name), command)
        if outcome == "answered":
            key.end_read(begun, command, raw)


class CheckingCrowd:
    """Begins at once. `slots`: where the keys are, every tenth excepted. Ends with verdict()."""

    def __init__(
        self,
        shop,
        slots=range(2048),
        keys=240,
        writers=4,
        readers=2,
        kinds=tuple(WRITES),
        shared=True,
        seed=1,
        pace=0.0,
        elsewhere=True,
    ):
        self.shop, self.seed, self.pace = shop, seed, pace
        self.complaints, self.errors, self.asked = [], collections.Counter(), 0
        self.is_stopped = self.is_paused = False
        self.quiet, self.idle = threading.Condition(), set()
        names = self._names(slots, keys, elsewhere=elsewhere)
        self.keys = [CheckedKey(name, kinds[i % len(kinds)]) for i, name in enumerate(names)]
        self.shared = SharedKeys(self._names(slots, 4, "{shared%d}")) if shared else None
        self.members = [
            Writer(self, n, self._client(n), self.keys[n::writers]) for n in range(writers)
        ] + [Reader(self, writers + n, self._client(n)) for n in range(readers)]
        for member in self.members:
            member.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _client(self, number):
        plain = number % 2 == 0 or not self.shop.endpoint_ports
        return PlainClient(self.shop) if plain else RedirectedClient(self.shop)

    @staticmethod
    def _names(slots, count, form="checked:%d", elsewhere=False):
        """In the slots; every tenth anywhere."""
        found, n = [], 0
        while len(found) < count:
            name = form % n
            if (elsewhere and len(found) % 10 == 9) or resp.slot_of(name) in slots:
                found.append(name)
            n += 1
        return found

    def note_error(self, text):
        self.errors[text] += 1

    def pause(self):
        """Returns when nothing is under way."""
        with self.quiet:
            self.is_paused = True
            done = self.quiet.wait_for(lambda: len(self.idle) == len(self.members), ANSWER_SECONDS + 5)
        check(done, "a checking client was never answered")

    def go_on(self):
        with self.quiet:
            self.is_paused = False
            self.quiet.notify_all()

    def stop(self):
        with self.quiet:
            self.is_stopped = True
            self.quiet.notify_all()
        for member in self.members:
            member.join(ANSWER_SECONDS + 5)

    def wait_for(self, count, seconds=20):
        """Until so many more replies have come."""
        goal = self.asked + count
        eventually(
            lambda: self.asked >= goal or self.complaints,
            seconds,
            lambda: "the checking clients get %d more replies (%d so far; errors: %s)"
            % (count, self.asked - goal + count, dict(self.errors)),
        )

    def keys_in(self, slots):
        return [key for key in self.keys if resp.slot_of(key.name) in slots]

    @property
    def slowest(self):
        return max(member.slowest for member in self.members)

    # --- the end

    def judge(self):
        """What was read while it ran."""
        if self.complaints:
            raise Failure(
                "%d violations:\n       %s"
                % (len(self.complaints), "\n       ".join(self.complaints[:4]))
            )

    def verify(self):
        """Every key on the node that owns it; nobody writes meanwhile."""
        owners = plans.owners(self.shop)
        nodes = dict(zip((entry["name"] for entry in self.shop.config["nodes"]), self.shop.nodes))
        place = {slot: name for name, owned in owners.items() for slot in owned}
        wires = {name: Connection(nodes[name].address) for name in owners}

        def ask(slot, command):
            return wires[place[slot]].ask(command)

        wrong = []
        try:
            for key in self.keys:
                wrong += self._wrong_with(key, ask)
            if self.shared:
                self.shared.verify(ask)
        except Violation as why:
            wrong.append(str(why))
        finally:
            for wire in wires.values():
                wire.close()
        if wrong:
            raise Failure(
                "%d keys are wrong at the end:\n       %s" % (len(wrong), "\n       ".join(wrong[:4]))
            )

    @staticmethod
    def _wrong_with(key, ask):
        slot = resp.slot_of(key.name)
        name = values.names_of(key.kind, key.name)[0]
        reads = values.reads_of(key.kind, key.name) + [values.encoded("PEXPIRETIME", name)]
        try:
            for command in reads:
                key.begin(command)
                key.answered(ask(slot, command))
        except Violation as why:
            return [str(why)]
        return []

    def verdict(self, least=500, errors=False, collected=True):
        """Stops; the model holds. `errors`: clients may have seen errors."""
        self.stop()
        self.judge()
        check(self.asked >= least, "the checking clients got %d replies only" % self.asked)
        if not errors:
            same(dict(self.errors), {}, "the errors that clients saw")
        self.verify()
        if collected:
            nothing_elsewhere(self.shop)


def nothing_elsewhere(shop):
    """No node holds keys of slots that it does not own, nor hidden ones of a move."""
    owners = plans.owners(shop)
    for entry, node in zip(shop.config["nodes"], shop.nodes):
        owned = owners.get(entry["name"], set())
        names = plans.keys_of(node, but="__slotproxy:identity")
        hidden = {k for k in names if k.startswith(b"__slotproxy:")}
        same(hidden, set(), "hidden keys of the move that are left on %s" % entry["name"])
        strays = {k for k in names if resp.slot_of(k) not in owned}
        same(strays, set(), "what %s holds of others' slots" % entry["name"])
