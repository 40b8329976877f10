#!/usr/bin/env python3
"""Makes proxy/resp/command_table.inc and tests/unit/data/getkeys.txt from a stock redis-server.

    tests/support/generate_command_table.py table   > proxy/resp/command_table.inc
    tests/support/generate_command_table.py getkeys > tests/unit/data/getkeys.txt

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

# Subcommands of Redis 7.2 that today's clients send to any server at connect and that the proxy answers by itself.
# Rows as COMMAND of 7.2 gives them: name, arity, flags, tips.
NEWER_SUBCOMMANDS = [
    ("client|no-touch", 3, ["noscript", "loading", "stale"], []),
    (
        "client|setinfo",
        4,
        ["noscript", "loading", "stale"],
        ["request_policy:all_nodes", "response_policy:all_succeeded"],
    ),
    ("cluster|myshardid", 2, ["stale"], ["nondeterministic_output"]),
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
        f"{rule}, {first}, {last}, {step}, {extra}, {request}, {reply})"
    )


def all_entries(server):
    """(name, entry) of every command and subcommand, sorted by name."""
    entries = {}
    for entry in server.call("COMMAND"):
        entries[entry[0]] = entry
        for subcommand in entry[9]:
            entries[subcommand[0]] = subcommand
    for name, arity, flags, tips in NEWER_SUBCOMMANDS:
        entries.setdefault(name, [name, arity, flags, 0, 0, 0, [], tips, [], []])
    return sorted(entries.items())


def print_table(server):
    version = pairs(sum((line.split(":", 1) for line in server.call("INFO", "server").split("\r\n") if ":" in line), []))
    print(f"// Made by tests/support/generate_command_table.py from COMMAND of Redis {version['redis_version']}; don't edit.")
    print("// SP_COMMAND(id, name, arity, flags, rule, first key, last key, step, extra key, request policy, reply policy)")
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


def main():
    outputs = {"table": print_table, "getkeys": print_getkeys}
    if len(sys.argv) != 2 or sys.argv[1] not in outputs:
        raise SystemExit(__doc__)
    with Server() as server:
        outputs[sys.argv[1]](server)


if __name__ == "__main__":
    main()
