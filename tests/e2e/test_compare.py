"""Byte for byte: the forward port against one stock redis-server, over the lines of commands.txt.

What may differ stands in differences.txt, each with its reason; an entry that no longer differs
fails too.
"""
import fnmatch
import os

from harness import resp
from harness.check import Failure, check, shown
from harness.shop import key_on
from harness.tests import test

HERE = os.path.dirname(os.path.abspath(__file__))
ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "b": b"\b", "a": b"\a"}


class Line:
    def __init__(self, number, text):
        self.number, self.mark = number, ""
        if text[:2] in ("~ ", "? "):
            self.mark, text = text[0], text[2:]
        self.text, self.args = text, split(text)

    def __str__(self):
        return "commands.txt:%d  %s" % (self.number, self.text)


def split(text):
    """Arguments as redis-cli reads them."""
    args, position = [], 0
    while position < len(text):
        if text[position] == " ":
            position += 1
            continue
        arg, quoted = bytearray(), text[position] == '"'
        position += quoted
        while position < len(text) and text[position] != ('"' if quoted else " "):
            if quoted and text[position] == "\\":
                position += 1
                if text[position] == "x":
                    arg.append(int(text[position + 1 : position + 3], 16))
                    position += 3
                    continue
                arg += ESCAPES.get(text[position], text[position].encode())
            else:
                arg += text[position].encode()
            position += 1
        position += quoted
        args.append(bytes(arg))
    return args


def lines():
    with open(os.path.join(HERE, "commands.txt")) as file:
        return [
            Line(number, text.rstrip("\n"))
            for number, text in enumerate(file, 1)
            if text.strip() and not text.startswith("#")
        ]


def differences():
    """[(pattern, reason)]"""
    with open(os.path.join(HERE, "differences.txt")) as file:
        entries = [
            text.rstrip("\n").split("\t", 1)
            for text in file
            if text.strip() and not text.startswith("#")
        ]
    for entry in entries:
        check(len(entry) == 2 and entry[1].strip(), "differences.txt: %r has no reason" % entry[0])
    return [(pattern, reason.strip()) for pattern, reason in entries]


def allowed(text, entries):
    """A pattern is a command line; * stands for anything. Upper and lower case count."""
    return next(
        (
            pattern
            for pattern, _ in entries
            if fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))
        ),
        None,
    )


def loosened(raw, mark):
    if mark == "?":
        return raw[:1] + (raw.split(b" ")[0] if raw[:1] == b"-" else b"")
    if mark == "~" and raw[:1] in (b"*", b"~"):
        return raw[:1] + b"".join(sorted(repr(item).encode() for item in resp.value(raw)))
    return raw


class Comparison:
    def __init__(self):
        self.entries = differences()
        self.differed, self.used, self.wrong = set(), set(), []

    def judge(self, line, ours, theirs, how):
        pattern = allowed(line.text, self.entries)
        if pattern:
            self.used.add(pattern)
        if loosened(ours, line.mark) == loosened(theirs, line.mark):
            return
        if pattern:
            self.differed.add(pattern)
            return
        self.wrong.append(
            "%s  (%s)\n       proxy %s\n       redis %s"
            % (line, how, shown(ours, 300), shown(theirs, 300))
        )

    def verdict(self, whole_list):
        if whole_list:
            for pattern, _ in self.entries:
                if pattern in self.used and pattern not in self.differed:
                    self.wrong.append(
                        "differences.txt: %r no longer differs: take it out" % pattern
                    )
                elif pattern not in self.used:
                    self.wrong.append(
                        "differences.txt: %r matches no line of commands.txt" % pattern
                    )
        if self.wrong:
            raise Failure(
                "%d differences that are not in the list:\n     " % len(self.wrong)
                + "\n     ".join(self.wrong[:60])
            )


def ready(client, version):
    if version == "3":
        client.hello3()
    return client


@test(stock=True, seconds=60)
def every_line_of_the_list_is_answered_as_by_one_redis(shop, stock):
    comparison = Comparison()
    for version in ("2", "3"):
        shop.empty()
        stock.empty()
        ours, theirs = ready(shop.client(), version), ready(stock.client(), version)
        for line in lines():
            differs = allowed(line.text, comparison.entries)
            if differs and shop.proxy is None:
                continue
            got = ours.raw(*line.args)
            if differs:
                # On a connection of its own: in stock it may leave a transaction, a subscription or
                # another database behind.
                with ready(stock.client("redis, alone"), version) as alone:
                    wanted = alone.raw(*line.args)
            else:
                wanted = theirs.raw(*line.args)
            comparison.judge(line, got, wanted, "RESP" + version)
    comparison.verdict(shop.proxy is not None)


@test(stock=True, seconds=60)
def the_list_as_one_pipeline_is_answered_the_same(shop, stock):
    comparison = Comparison()
    chosen = [line for line in lines() if not allowed(line.text, comparison.entries)]
    requests = b"".join(resp.request(*line.args) for line in chosen)
    for version in ("2", "3"):
        shop.empty()
        stock.empty()
        ours, theirs = ready(shop.client(), version), ready(stock.client(), version)
        ours.send(requests)
        theirs.send(requests)
        replies = zip(chosen, ours.read_many(len(chosen)), theirs.read_many(len(chosen)))
        for line, got, wanted in replies:
            comparison.judge(line, got, wanted, "RESP%s, in a pipeline" % version)
    comparison.verdict(False)


# Arity of every command that the stock server has


def too_few_and_too_many(commands):
    """Calls that Redis refuses for their number of arguments, of every command and subcommand."""
    for entry in commands:
        name, arity, subcommands = entry[0].decode(), entry[1], entry[9] if len(entry) > 9 else []
        words = name.split("|")
        if subcommands:
            yield from too_few_and_too_many(subcommands)
        if abs(arity) > len(words):
            yield words + ["1"] * (abs(arity) - 1 - len(words))
        if arity > 0:
            yield words + ["1"] * (arity + 1 - len(words))


LEFT_OUT = {"quit", "monitor", "sync", "psync", "replconf", "shutdown"}


@test(stock=True, seconds=60)
def a_wrong_number_of_arguments_is_refused_in_the_same_words_for_every_command(shop, stock):
    ours, theirs, wrong, count = shop.client(), stock.client(), [], 0
    for args in too_few_and_too_many(theirs.ask("COMMAND")):
        if args[0] in LEFT_OUT:
            continue
        wanted = theirs.raw(*args)
        if not wanted.startswith(b"-ERR wrong number of arguments"):
            continue
        count += 1
        got = ours.raw(*args)
        if got != wanted:
            wrong.append(
                "%s\n       proxy %s\n       redis %s" % (" ".join(args), shown(got), shown(wanted))
            )
    check(count > 300, "only %d calls were refused" % count)
    check(not wrong, "%d of %d differ:\n     %s" % (len(wrong), count, "\n     ".join(wrong[:40])))


# Where the keys are


def calls_of(entry, keys):
    """Calls of one command with these keys at the places that its plain key range names."""
    name, arity, first, last, step = entry[0].decode(), entry[1], entry[3], entry[4], entry[5]
    if first < 1 or "|" in name:
        return
    for count in (1, 2, 3):
        length = max(abs(arity), first + 1)
        if last < 0:
            length = max(length, first + count * step - last - 1)
        elif count > 1:
            return
        args = [name] + ["1"] * (length - 1)
        places = range(first, length + last + 1 if last < 0 else last + 1, step)
        for n, place in enumerate(places):
            args[place] = keys[n % len(keys)]
        yield args


@test(stock=True, seconds=60)
def every_command_s_keys_are_found_where_redis_finds_them(shop, stock):
    ours, theirs, wrong, count = shop.client(), stock.client(), [], 0
    keys = [key_on(0), key_on(1), key_on(2)]
    for entry in theirs.ask("COMMAND"):
        for args in calls_of(entry, keys):
            wanted = theirs.raw("COMMAND", "GETKEYS", *args)
            got = ours.raw("COMMAND", "GETKEYS", *args)
            count += 1
            if got != wanted:
                wrong.append(
                    "%s\n       proxy %s\n       redis %s"
                    % (" ".join(args), shown(got), shown(wanted))
                )
    check(count > 120, "only %d calls" % count)
    check(not wrong, "%d of %d differ:\n     %s" % (len(wrong), count, "\n     ".join(wrong[:40])))
