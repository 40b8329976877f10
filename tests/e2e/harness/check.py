"""Assertions that fail in words."""
import time

from . import resp


class Failure(AssertionError):
    """The specification does not hold."""


class Skip(Exception):
    """The specification cannot be judged here; the text says why."""


def shown(data, limit=400):
    """Bytes or a value for people: short, printable, with its length when cut."""
    if isinstance(data, (bytes, bytearray)):
        if len(data) > limit:
            return "%r … (%d bytes)" % (bytes(data[:limit]), len(data))
        return repr(bytes(data))
    text = repr(data)
    return text if len(text) <= 2 * limit else text[: 2 * limit] + " …"


def difference(got, wanted):
    """Where two byte strings part, with some bytes around it."""
    length = min(len(got), len(wanted))
    at = next((i for i in range(length) if got[i] != wanted[i]), length)
    start = max(0, at - 40)
    return "they part at byte %d: got …%r, wanted …%r" % (
        at,
        bytes(got[start : at + 60]),
        bytes(wanted[start : at + 60]),
    )


def check(claim, words):
    if not claim:
        raise Failure(words() if callable(words) else words)


def same(got, wanted, what="the reply"):
    if got == wanted:
        return
    text = "%s is wrong\n     got    %s\n     wanted %s" % (what, shown(got), shown(wanted))
    if (
        isinstance(got, (bytes, bytearray))
        and isinstance(wanted, (bytes, bytearray))
        and len(wanted) > 80
    ):
        text += "\n     " + difference(got, wanted)
    raise Failure(text)


def one_of(got, choices, what="the reply"):
    if got not in choices:
        raise Failure(
            "%s is wrong\n     got    %s\n     wanted one of %s"
            % (what, shown(got), shown(choices))
        )


def has(text, *parts, what="the text"):
    """Every part occurs in the text (bytes or str)."""
    for part in parts:
        if isinstance(text, (bytes, bytearray)):
            part = resp.to_bytes(part)
        if part not in text:
            raise Failure("%s lacks %s\n     got %s" % (what, shown(part), shown(text)))


def lacks(text, *parts, what="the text"):
    for part in parts:
        if isinstance(text, (bytes, bytearray)):
            part = resp.to_bytes(part)
        if part in text:
            raise Failure("%s must not contain %s\n     got %s" % (what, shown(part), shown(text)))


def error(raw, word="", *parts, what="the reply"):
    """The raw reply is an error that begins with `word` and contains every part, whatever the
    case."""
    if not raw.startswith(b"-" + resp.to_bytes(word)):
        raise Failure(
            "%s should be an error that begins with %r\n     got %s"
            % (what, "-" + word, shown(raw))
        )
    for part in parts:
        if resp.to_bytes(part).lower() not in raw.lower():
            raise Failure(
                "%s should be an error that contains %r\n     got %s" % (what, part, shown(raw))
            )


def eventually(claim, seconds, words, every=0.01):
    """Asks until `claim()` is true and returns what it said; fails in words once the time is
    over."""
    deadline = time.monotonic() + seconds
    while True:
        last = claim()
        if last:
            return last
        if time.monotonic() > deadline:
            raise Failure("%s: not within %g s" % (words() if callable(words) else words, seconds))
        time.sleep(every)
