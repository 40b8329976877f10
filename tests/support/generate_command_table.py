#!/usr/bin/env python3
"""Makes proxy/resp/command_table.inc and tests/unit/data/{getkeys,keyaccess,acl}.txt from a stock redis-server.

    tests/support/generate_command_table.py table   > proxy/resp/command_table.inc
    tests/support/generate_command_table.py getkeys > tests/unit/data/getkeys.txt
    tests/support/generate_command_table.py keyaccess > tests/unit/data/keyaccess.txt
    tests/support/generate_command_table.py acl > tests/unit/data/acl.txt

A server of its own is started on a free port of 127.0.0.1 in a temporary folder, and ended. Run it with the version
that the table is to describe (7.0.15 so far); the output depends on that version and on nothing else.
"""

import random
import socket
import subprocess
import sys
import tempfile
import time

SERVER = "/usr/bin/redis-server"

FLAGS = {
    "write": "Write",
    "readonly": "ReadOnly",
    "denyoom": "DenyOom",
    "admin": "Admin",
    "pubsub": "PubSub",
    "noscript": "NoScript",
    "blocking": "Blocking",
    "loading": "Loading",
    "stale": "Stale",
    "no_auth": "NoAuth",
    "movablekeys": "MovableKeys",
    "fast": "Fast",
    "no_multi": "NoMulti",
    "asking": "Asking",
    "allow_busy": "AllowBusy",
    "no_async_loading": "NoAsyncLoading",
    "skip_monitor": "SkipMonitor",
    "skip_slowlog": "SkipSlowlog",
    "no_mandatory_keys": "NoMandatoryKeys",
}

CATEGORIES = {
    "keyspace": "Keyspace",
    "read": "Read",
    "write": "Write",
    "set": "Set",
    "sortedset": "SortedSet",
    "list": "List",
    "hash": "Hash",
    "string": "String",
    "bitmap": "Bitmap",
    "hyperloglog": "HyperLogLog",
    "geo": "Geo",
    "stream": "Stream",
    "pubsub": "PubSub",
    "admin": "Admin",
    "fast": "Fast",
    "slow": "Slow",
    "blocking": "Blocking",
    "dangerous": "Dangerous",
    "connection": "Connection",
    "transaction": "Transaction",
    "scripting": "Scripting",
}

# Subcommands of Redis 7.2 that today's clients send to any server at connect and that the proxy answers by itself.
# Rows as COMMAND of 7.2 gives them: name, arity, flags, tips, categories.
NEWER_SUBCOMMANDS = [
    ("client|no-touch", 3, ["noscript", "loading", "stale"], [], ["@slow", "@connection"]),
    (
        "client|setinfo",
        4,
        ["noscript", "loading", "stale"],
        ["request_policy:all_nodes", "response_policy:all_succeeded"],
        ["@slow", "@connection"],
    ),
    ("cluster|myshardid", 2, ["stale"], ["nondeterministic_output"], ["@slow"]),
]


class Server:
    """A redis-server of its own, with one connection to it."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        for _ in range(5):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            self.process = subprocess.Popen(
                [SERVER, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", self.folder.name],
                stdout=subprocess.DEVNULL,
            )
            if self._connect(port):
                return self
        raise SystemExit("redis-server did not start")

    def _connect(self, port):
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")
                return True
            except ConnectionRefusedError:
                time.sleep(0.02)
        return False

    def __exit__(self, *_):
        self.stream.close()
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def call(self, *args):
        args = [arg.encode() for arg in args]
        self.stream.write(b"*%d\r\n" % len(args) + b"".join(b"$%d\r\n%s\r\n" % (len(arg), arg) for arg in args))
        self.stream.flush()
        return self._reply()

    def _reply(self):
        line = self.stream.readline().rstrip(b"\r\n")
        kind, rest = line[:1], line[1:].decode()
        if kind == b"+":
            return rest
        if kind == b"-":
            return RuntimeError(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self.stream.read(int(rest) + 2)[:-2].decode("latin-1")
        if kind == b"*":
            return None if rest == "-1" else [self._reply() for _ in range(int(rest))]
        raise SystemExit(f"not RESP2: {line!r}")


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def key_rule(name, entry):
    """(rule, first, last, step, extra) for one entry of COMMAND."""
    flags, first, last, step, specs, subcommands = entry[2], entry[3], entry[4], entry[5], entry[8], entry[9]
    if subcommands:
        return ("Container", 0, 0, 0, 0)
    if "movablekeys" not in flags:
        return ("Range", first, last, step, 0) if first else ("None", 0, 0, 0, 0)
    if name in ("sort", "sort_ro", "georadius", "georadiusbymember", "migrate"):
        return ("Keyword", first, last, step, 0)
    counted, single = None, 0
    for spec in map(pairs, specs):
        begin, find = pairs(spec["begin_search"]), pairs(spec["find_keys"])
        if begin["type"] == "keyword" and begin["spec"][1] == "STREAMS":
            return ("Streams", 0, 0, 0, 0)
        if find["type"] == "keynum":
            counted = begin["spec"][1] + pairs(find["spec"])["firstkey"]
        elif begin["type"] == "index":
            single = begin["spec"][1]
    if counted is None:
        raise SystemExit(f"{name}: a new way to find keys; teach it to the key finder first")
    return ("NumKeys", counted, 0, 0, single)


def policies(tips):
    found = {"request_policy": "Default", "response_policy": "Default"}
    for tip in tips:
        kind, _, value = tip.partition(":")
        if kind in found:
            found[kind] = "".join(part.capitalize() for part in value.split("_"))
    return found["request_policy"], found["response_policy"]


def id_of(name):
    return "".join(part.capitalize() for part in name.replace("|", "-").replace("_", "-").split("-"))


def row(name, entry):
    flags = ", ".join(FLAGS[flag] for flag in FLAGS if flag in entry[2])
    unknown = set(entry[2]) - set(FLAGS)
    if unknown:
        raise SystemExit(f"{name}: unknown flags {unknown}")
    rule, first, last, step, extra = key_rule(name, entry)
    request, reply = policies(entry[7])
    return (
        f'SP_COMMAND({id_of(name)}, "{name}", {entry[1]}, flags({{{flags}}}), '
        f"{rule}, {first}, {last}, {step}, {extra}, {request}, {reply}, "
        f"({{{categories(name, entry[6])}}}), {access_of(entry[8][:1])}, {access_of(entry[8][1:] or entry[8][:1])})"
    )


def categories(name, listed):
    unknown = {category.lstrip("@") for category in listed} - set(CATEGORIES)
    if unknown:
        raise SystemExit(f"{name}: unknown categories {unknown}")
    return ", ".join(CATEGORIES[category] for category in CATEGORIES if "@" + category in listed)


def access_of(specs):
    """What the keys of these specs are used for. SORT and GEORADIUS say it of what they store into last."""
    return access_by(set(pairs(specs[-1])["flags"]) if specs else set())


def access_by(flags):
    reads, writes = "access" in flags, bool(flags & {"insert", "delete", "update"})
    return ("Both" if reads else "Write") if writes else ("Read" if reads else "Neither")


def all_entries(server):
    """(name, entry) of every command and subcommand, sorted by name."""
    entries = {}
    for entry in server.call("COMMAND"):
        entries[entry[0]] = entry
        for subcommand in entry[9]:
            entries[subcommand[0]] = subcommand
    for name, arity, flags, tips, categories in NEWER_SUBCOMMANDS:
        entries.setdefault(name, [name, arity, flags, 0, 0, 0, categories, tips, [], []])
    return sorted(entries.items())


def print_table(server):
    version = pairs(sum((line.split(":", 1) for line in server.call("INFO", "server").split("\r\n") if ":" in line), []))
    print(f"// Made by tests/support/generate_command_table.py from COMMAND of Redis {version['redis_version']}; don't edit.")
    print("// SP_COMMAND(id, name, arity, flags, rule, first key, last key, step, extra key, request policy, reply policy,")
    print("//            (categories), access to the first key, to the others)")
    for name, entry in all_entries(server):
        print(row(name, entry))


CALLS_PER_COMMAND = 20


class Calls:
    """Makes up calls of one command; the keys in them are told apart by their names."""

    def __init__(self, name, arity, rule):
        self.words = name.split("|")
        self.arity = arity
        self.rule, self.first, self.extra = rule[0], rule[1], rule[4]
        self.random = random.Random(name)
        self.named = 0

    def key(self):
        self.named += 1
        return f"k{self.named}"

    def keys(self, count):
        return [self.key() for _ in range(count)]

    def some(self, *options):
        """Some of the options, in any order; an option is a list of words."""
        chosen = [option for option in options if self.random.random() < 0.4]
        self.random.shuffle(chosen)
        return [self.either_case(option[0]) if i == 0 else word for option in chosen for i, word in enumerate(option)]

    def either_case(self, word):
        return self.random.choice([word, word.upper()])

    def valid(self):
        """One call after the other, with keys where the command has some; some calls are wrong elsewhere."""
        for i in range(2 if self.rule == "None" else CALLS_PER_COMMAND):
            self.named = 0
            call = [self.either_case(word) for word in self.words] + self.arguments(i)
            if len(call) == self.arity or len(call) >= -self.arity > 0:
                yield call

    def arguments(self, i):
        if self.rule == "NumKeys":
            return self.counted(str(1 + i % 4), 1 + i % 4)
        if self.rule == "Streams":
            return self.streams()
        name = self.words[0]
        if name in ("sort", "sort_ro"):
            key = self.key()
            store = [["store", self.key()], ["store", self.key()]] if name == "sort" else []
            odd = [["by", "store"], ["get", "limit"], ["get", "store"], ["limit", "0", "5"], ["asc"], ["alpha"]]
            return [key] + self.some(*odd, *store)
        if name.startswith("georadius"):
            place = ["m"] if name == "georadiusbymember" else ["1", "2"]
            store = self.random.choice([["store", self.key()], ["storedist", self.key()]])
            return [self.key(), *place, "3", "km"] + self.some(["withdist"], ["count", "3"], ["desc"], store)
        if name == "migrate":
            options = self.some(["copy"], ["replace"], self.random.choice([["auth", "keys"], ["auth2", "keys", "p"]]))
            several = ["keys"] + self.keys(1 + i % 4)
            one = [["h", "1", self.key(), "0", "9"] + options, ["h", "1", "", "0", "9"] + options + several]
            return one[i % 2]
        least = abs(self.arity) - len(self.words)
        return self.keys(least + (i if self.arity < 0 else 0))

    def counted(self, count, keys):
        name = self.words[0]
        before = [self.key() for _ in range(self.first - 2)]
        tail = {"lmpop": ["left"], "blmpop": ["left"], "zmpop": ["min"], "bzmpop": ["max"]}.get(name, [])
        if name.startswith(("eval", "fcall")):
            tail = [f"a{n}" for n in range(self.random.randrange(4))]
        if name in ("zunionstore", "zinterstore"):
            tail = self.some(["weights"] + ["2"] * keys, ["aggregate", "max"])
        return before + [count] + self.keys(keys) + tail

    def streams(self):
        group = ["group", "g", "c"] if self.words[0] == "xreadgroup" else []
        keys = self.keys(self.random.randrange(1, 5))
        return group + self.some(["count", "2"], ["block", "9"]) + ["streams"] + keys + ["0"] * len(keys)

    def invalid(self):
        """Calls that name no keys to be found, and that the command itself must refuse."""
        if self.rule == "NumKeys":
            for count in ["0", "-1", "-0", "abc", "1.5", "", "01", "+1", "99", "4294967297", "9" * 25]:
                self.named = 0
                call = self.words + self.counted(count, 1)
                if self.words[0].startswith("b"):  # Before the number of keys stands the time-out.
                    call[1] = "0.01"
                if self.words[0].startswith("fcall"):
                    call[1] = "f"
                if self.words[0].startswith("evalsha"):  # Anything else is NOSCRIPT before all.
                    call[1] = 40 * "e"
                if count != "0" or not self.words[0].startswith(("eval", "fcall")):
                    yield call
        if self.words[0] == "xread":
            yield from (["xread", *rest.split()] for rest in XREAD_MISTAKES)
        if self.words[0] == "xreadgroup":
            yield from (["xreadgroup", "group", "g", "c", *rest.split()] for rest in XREAD_MISTAKES)
        if self.words[0] == "migrate":
            yield ["migrate", "h", "1", "k", "0", "9", "copy", "keys", "k1"]


XREAD_MISTAKES = ["count 1 block", "streams k1 k2 0", "block 5 streams k1", "count 1 k1 0"]


def written(words):
    if any(" " in word for word in words):
        raise SystemExit(f"the format has no place for blanks: {words}")
    return " ".join(word or '""' for word in words)


def print_getkeys(server):
    print("# Made by tests/support/generate_command_table.py; don't edit.")
    print("# keys CALL -> what COMMAND GETKEYS of the server answers;  error CALL -> what the call itself answers")
    function = "redis.register_function{function_name='f', callback=function() return 1 end, flags={'no-writes'}}"
    server.call("FUNCTION", "LOAD", "#!lua name=l\n" + function)
    newer = {name for name, *_ in NEWER_SUBCOMMANDS}
    for name, entry in all_entries(server):
        if name in newer or entry[9]:
            continue
        calls = Calls(name, entry[1], key_rule(name, entry))
        lines = set()
        for call in calls.valid():
            keys = server.call("COMMAND", "GETKEYS", *call)
            if isinstance(keys, list):
                lines.add(f"keys {written(call)} -> {written(keys)}")
            elif str(keys) == "ERR The command has no key arguments":
                lines.add(f"keys {written(call)} -> ")
        for call in calls.invalid():
            reply = server.call(*call)
            if isinstance(reply, RuntimeError):
                lines.add(f"error {written(call)} -> {reply}")
        for line in sorted(lines):
            print(line)


def access_calls(name):
    """Calls whose access depends on their words."""
    if name == "set":
        return [["set", "k1", *rest] for rest in (["v"], ["v", "get"], ["v", "ex", "5", "GET"], ["get"])]
    if name == "bitfield":
        parts = (["get", "u8", "1"], ["set", "u8", "1", "2"], ["overflow", "sat"], ["incrby", "u8", "1", "1"], ["get"])
        return [["bitfield", "k1"] + one + two for one in parts for two in ([], *parts)]
    return []


def print_key_access(server):
    print("# Made by tests/support/generate_command_table.py; don't edit.")
    print("# CALL -> what COMMAND GETKEYSANDFLAGS of the server says that each key is used for")
    newer = {name for name, *_ in NEWER_SUBCOMMANDS}
    for name, entry in all_entries(server):
        if name in newer or entry[9]:
            continue
        lines = set()
        for call in [*Calls(name, entry[1], key_rule(name, entry)).valid()][:6] + access_calls(name):
            keys = server.call("COMMAND", "GETKEYSANDFLAGS", *call)
            if isinstance(keys, list):
                lines.add(f"{written(call)} -> {' '.join(access_by(set(flags)) for _, flags in keys)}")
        for line in sorted(lines):
            print(line)


ACL_RULES = (
    "~k1 &k1 +@all",
    "%R~* %W~k2 &k* +@all",
    "~* &* +@read -@dangerous +config|get +select|0",
    "~* &* +@all -@admin -@write +set -@fast +acl|whoami",
    "%R~k1 %W~k[23] +@all (+@write ~k4) (%RW~k1 +set +mset)",
    "~* &* +client +config -config|set +@pubsub -publish +get|k1",
    "~* &* +@slow -@connection -eval (+eval ~k2)",
)


def print_acl(server):
    print("# Made by tests/support/generate_command_table.py; don't edit.")
    print("# rules RULES of a user")
    print("# CALL -> what ACL DRYRUN of the server says of it: ok, command, or the key or channel that is denied")
    newer = {name for name, *_ in NEWER_SUBCOMMANDS}
    calls = []
    for name, entry in all_entries(server):
        if name not in newer and not entry[9]:
            made = Calls(name, entry[1], key_rule(name, entry))
            calls += [call for call in [*made.valid()][:2] + access_calls(name) if "" not in call]
    # Without a source the server overlooks the target; the proxy does not.
    calls = [call for call in calls if call[0].lower() != "pfmerge" or len(call) > 2]
    for rules in ACL_RULES:
        print("rules", rules)
        server.call("ACL", "SETUSER", "u", "reset", "on", *rules.split())
        for call in calls:
            said = server.call("ACL", "DRYRUN", "u", *call)
            if said == "OK" or not isinstance(said, RuntimeError):
                verdict = "ok" if said == "OK" else "command" if "to run the" in said else said.split("'")[1]
                print(f"{written(call)} -> {verdict}")


def main():
    outputs = {"keyaccess": print_key_access, "acl": print_acl, "table": print_table, "getkeys": print_getkeys}
    if len(sys.argv) != 2 or sys.argv[1] not in outputs:
        raise SystemExit(__doc__)
    with Server() as server:
        outputs[sys.argv[1]](server)


if __name__ == "__main__":
    main()
