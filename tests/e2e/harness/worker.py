"""Runs the tests of one group after another in a process of its own, and reports each as a line of
JSON."""
import json
import os
import shutil
import signal
import tempfile
import time
import traceback

from . import wire
from .check import Failure, Skip
from .servers import RedisServer
from .shop import Shop, StockShop


class TooLong(BaseException):
    """The time limit of a test has passed. Not an Exception, so that no test catches it by
    accident."""


def _alarm(*_):
    raise TooLong()


class Fixtures:
    """What tests of one group share, and what the running one has of its own."""

    def __init__(self, options, module):
        self.options, self.module = options, module
        self.shared = {}
        self.own = []
        self.folders = []

    def get(self, want):
        if want == "fresh":
            return self.fresh
        if want == "binary":
            if self.options.stock:
                raise Skip("needs the proxy")
            return self.options.binary
        if want == "folder":
            self.folders.append(tempfile.mkdtemp(prefix="e2e-"))
            return self.folders[-1]
        if want not in self.shared:
            if want == "stock":
                self.shared[want] = RedisServer()
            elif want == "shop":
                self.shared[want] = (
                    StockShop()
                    if self.options.stock
                    else Shop(self.options.binary, **getattr(self.module, "SHOP", {}))
                )
            else:
                raise Failure("no fixture is called %r" % want)
        item = self.shared[want]
        item.empty()
        return item

    def fresh(self, **arguments):
        if self.options.stock:
            raise Skip("needs the proxy")
        shop = Shop.__new__(Shop)
        shop.proxies, shop.relays, shop.proxy = [], {}, None
        self.own.append(shop)  # Before it starts, so that it is ended even when the start fails.
        shop.__init__(self.options.binary, **arguments)
        return shop

    def proxies(self):
        shops = self.own + [item for item in self.shared.values() if isinstance(item, Shop)]
        return [shop.proxy for shop in shops if getattr(shop, "proxy", None)]

    def end_own(self):
        wrong = [end_quietly(shop) for shop in self.own]
        self.own = []
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)
        self.folders = []
        return [text for text in wrong if text]

    def end_shared(self):
        wrong = [end_quietly(item) for item in self.shared.values()]
        self.shared = {}
        return [text for text in wrong if text]

    def shared_proxy_trouble(self):
        """A shared proxy that died or reported something fails the test that was running."""
        shop = self.shared.get("shop")
        if isinstance(shop, Shop) and shop.proxy and not shop.proxy.alive():
            return shop.end() if self.shared.pop("shop") else None
        report = isinstance(shop, Shop) and shop.proxy and shop.proxy.sanitizer_report()
        return "the shared proxy reported:\n" + report if report else None


def end_quietly(item):
    try:
        return item.end()
    except (Failure, OSError, AttributeError) as why:
        return "ending the servers failed: %s" % why


def transcript():
    """What went over the wires of the test, the last exchanges of each."""
    lines = []
    for client in wire.OPENED[-6:]:
        if client.log:
            lines.append("     bytes of %s:" % client.name)
            lines += ["       %s %s" % entry for entry in list(client.log)[-8:]]
    return "\n".join(lines)


def run_test(test, fixtures):
    """(outcome, text)"""
    del wire.OPENED[:]
    outcome, text = "ok", ""
    signal.alarm(test.seconds)
    try:
        wanted = [fixtures.get(want) for want in test.wants]
        del wire.OPENED[:]  # What the fixtures said to their servers explains no failure.
        test.function(*wanted)
    except Skip as why:
        outcome, text = "skip", str(why)
    except Failure as why:
        outcome, text = "fail", "     " + str(why)
    except TooLong:
        outcome, text = "fail", "     not done within its limit of %d s\n%s" % (
            test.seconds,
            where(),
        )
    except Exception as why:
        outcome, text = "fail", "     %s: %s\n%s" % (type(why).__name__, why, where())
    signal.alarm(0)
    if outcome == "fail":
        text += "\n" + transcript()
        text += "".join("\n" + proxy.said() for proxy in fixtures.proxies())
    signal.alarm(60)
    try:
        for client in wire.OPENED:
            client.close()
        wrong = fixtures.end_own()
        trouble = fixtures.shared_proxy_trouble()
        if trouble:
            wrong.append(trouble)
    except TooLong:
        wrong = ["its servers could not be ended within 60 s"]
    signal.alarm(0)
    if wrong:
        outcome = "fail"
        text += "\n     " + "\n     ".join(wrong)
    return outcome, text.strip("\n")


def where():
    return "".join("       " + line for line in traceback.format_exc().splitlines(True)[-9:])


def run_group(group, options, say):
    fixtures = Fixtures(options, group.module)
    for number in group.left:
        test = group.tests[number]
        say(start=number, limit=test.seconds)
        began = time.monotonic()
        outcome, text = run_test(test, fixtures)
        say(test=number, outcome=outcome, text=text, took=time.monotonic() - began)
    say(start=-1, limit=60)
    wrong = fixtures.end_shared()
    say(ended=True, wrong="\n     ".join(wrong))


def main(groups, options, commands, reports):
    """Reads "group:number,number…" lines from `commands` until it is closed."""
    signal.signal(signal.SIGALRM, _alarm)
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    def say(**facts):
        reports.write(json.dumps(facts) + "\n")
        reports.flush()

    for line in commands:
        index, _, numbers = line.strip().partition(":")
        group = groups[int(index)]
        group.left = [int(number) for number in numbers.split(",")]
        run_group(group, options, say)
    os._exit(0)
