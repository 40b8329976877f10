"""CheckedKey: all that a key may be, given what its one writer was told, and what others may see.

A world is a state that the key may have, with the commands whose outcome is unknown and that have
not run in it. Such a command may still run, once, at any time. Each reply rules worlds out; when
none is left, something was lost, revived or done twice, and that is a Violation.
"""
import threading
import time

from . import values
from .check import shown

SLACK_MS = 2  # Between our reading of the clock and a server's.
WORLDS_MAX = 300


class Violation(Exception):
    """The servers have said what they can't have said, had they kept all that they acknowledged."""


def now_ms():
    return time.time() * 1000


def aged(state, earliest, latest):
    """What the state may be at some time between these two."""
    if state.value is None or state.expire_at is None or latest + SLACK_MS < state.expire_at:
        return [state]
    if earliest - SLACK_MS > state.expire_at:
        return [values.ABSENT]
    return [state, values.ABSENT]


class CheckedKey:
    def __init__(self, name, kind):
        self.name, self.kind = name, kind
        self.worlds = frozenset([(values.ABSENT, frozenset())])
        self.late = {}  # Number -> command whose outcome is unknown.
        self.history = [(0.0, self.worlds)]
        self.under_way = None  # (command, when it was sent)
        self.commands = []  # The last ones and their replies, for the report.
        self.lock = threading.Lock()

    @property
    def is_blurred(self):
        """Too much may have happened: better not to be written any more."""
        return len(self.late) >= 3 or len(self.worlds) > WORLDS_MAX

    # The writer: begin(), then one of the three.

    def begin(self, command):
        with self.lock:
            self.under_way = (command, now_ms())

    def answered(self, raw):
        with self.lock:
            command, sent = self.under_way
            reply = values.shaped(command, raw)
            self.commands = self.commands[-7:] + [(command, reply)]
            left = set()
            for state, late in self._worlds_between(self.worlds, sent, now_ms()):
                after, wanted = values.apply(state, command)
                if values.agree(wanted, reply, command):
                    left.add((after, late))
            self.under_way = None
            if not left:
                raise Violation(self._told(command, reply, self.worlds))
            self._note(frozenset(left))

    def unknown(self):
        with self.lock:
            command, _ = self.under_way
            self.commands = self.commands[-7:] + [(command, "outcome unknown")]
            number = len(self.late)
            self.late[number] = command
            self.under_way = None
            self._note(frozenset((state, late | {number}) for state, late in self.worlds))

    def failed(self):
        """It has not run."""
        with self.lock:
            self.under_way = None

    # Others, at any time: begin_read(), then end_read() with what that said.

    def begin_read(self):
        with self.lock:
            return (len(self.history) - 1, now_ms())

    def end_read(self, begun, command, raw):
        index, sent = begun
        reply = values.shaped(command, raw)
        with self.lock:
            now = now_ms()
            seen = frozenset().union(*(worlds for _, worlds in self.history[index:]))
            possible = self._worlds_between(seen, sent, now)
            if self.under_way:
                possible |= {
                    (values.apply(state, self.under_way[0])[0], late) for state, late in possible
                }
                possible = self._worlds_between(possible, sent, now)
            for state, _ in possible:
                if values.agree(values.apply(state, command)[1], reply, command):
                    return
            raise Violation(self._told(command, reply, seen))

    # What a server's own crash takes away.

    def may_be_as_since(self, when):
        """Everything after `when` may be lost, and only a tail of it: any state since is possible."""
        with self.lock:
            first = max(i for i, (at, _) in enumerate(self.history) if at <= when)
            self._note(frozenset().union(*(worlds for _, worlds in self.history[first:])))

    def is_as_at(self, when):
        """Everything after `when` is lost."""
        with self.lock:
            self._note([worlds for at, worlds in self.history if at <= when][-1])

    def _note(self, worlds):
        self.worlds = worlds
        self.history.append((time.time(), worlds))

    def _worlds_between(self, worlds, earliest, latest):
        """With expiry, and with any of the late commands run or not."""
        found, waiting = set(), set(worlds)
        while waiting:
            state, late = waiting.pop()
            if (state, late) in found:
                continue
            found.add((state, late))
            for number in late:
                waiting.add((values.apply(state, self.late[number])[0], late - {number}))
                if state.expire_at is not None and state.expire_at < latest + SLACK_MS:
                    after = values.apply(values.ABSENT, self.late[number])[0]
                    waiting.add((after, late - {number}))
        return {
            (state, late) for before, late in found for state in aged(before, earliest, latest)
        }

    def _told(self, command, reply, worlds):
        possible = sorted({str(state) for state, _ in worlds})
        wanted = sorted({shown(values.apply(state, command)[1], 200) for state, _ in worlds})
        return "%s %s: %s was answered with %s, possible are %s\n         (states %s)%s" % (
            self.kind,
            self.name,
            b" ".join(command[:3]).decode(errors="replace"),
            shown(reply, 300),
            "; ".join(wanted[:4]),
            shown(" | ".join(possible[:4]), 400),
            "".join(
                "\n         before: %s -> %s"
                % (b" ".join(c[:6]).decode(errors="replace")[:120], shown(r, 120))
                for c, r in self.commands[-7:]
            ),
        )
