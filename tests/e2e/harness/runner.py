"""Finds the tests, spreads them over worker processes, tells how they went."""
import argparse
import fnmatch
import importlib
import json
import os
import selectors
import signal
import sys
import time

from . import worker
from .tests import tests_of

GRACE = 75  # Seconds beyond a test's own limit before its whole worker is killed.


class Group:
    """Tests of one file that run one after another in one worker: they share servers."""

    def __init__(self, module, tests):
        self.module, self.tests = module, tests
        self.left = []

    def weight(self):
        return sum(test.seconds * (3 if test.long or test.slow else 1) for test in self.tests)


def discover(folder):
    sys.path.insert(0, folder)
    names = sorted(
        name[:-3]
        for name in os.listdir(folder)
        if name.startswith("test_") and name.endswith(".py")
    )
    return [importlib.import_module(name) for name in names]


def chosen(tests, options):
    def matches(test):
        return not options.only or any(
            fnmatch.fnmatch(test.name, "*%s*" % pattern)
            or fnmatch.fnmatch(test.name.replace(" ", "_"), "*%s*" % pattern)
            for pattern in options.only
        )

    return [
        test
        for test in tests
        if matches(test)
        and (options.all or not test.slow)
        and not (options.fast and test.long)
        and (test.stock or not options.stock)
    ]


def groups_of(modules, options):
    """Tests with servers of their own can run anywhere; the others of a file stay together."""
    groups = []
    for module in modules:
        tests = chosen(tests_of(module), options)
        sharing = [test for test in tests if "shop" in test.wants or "stock" in test.wants]
        others = [test for test in tests if test not in sharing]
        if sharing:
            groups.append(Group(module, sharing))
        groups += [Group(module, others[start : start + 4]) for start in range(0, len(others), 4)]
    return sorted(groups, key=Group.weight, reverse=True)


class Worker:
    def __init__(self, groups, options, others):
        command_in, command_out = os.pipe()
        report_in, report_out = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for other in others:  # A pipe held open here would hide the end of a sibling.
                other.commands.close()
                other.reports.close()
            os.close(command_out)
            os.close(report_in)
            worker.main(groups, options, os.fdopen(command_in), os.fdopen(report_out, "w"))
        os.close(command_in)
        os.close(report_out)
        self.commands, self.reports = os.fdopen(command_out, "w"), os.fdopen(report_in, "rb", 0)
        self.partial = b""
        self.group = None
        self.waiting = []
        self.current = None
        self.deadline = None

    def give(self, index, group, numbers):
        self.group, self.waiting, self.current = group, list(numbers), None
        self.index = index
        self.deadline = time.monotonic() + 120
        self.commands.write("%d:%s\n" % (index, ",".join(map(str, numbers))))
        self.commands.flush()

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.commands.close()
        self.reports.close()


class Run:
    def __init__(self, options, groups):
        self.options, self.groups = options, groups
        self.queue = [(index, list(range(len(group.tests)))) for index, group in enumerate(groups)]
        self.counts = {"ok": 0, "fail": 0, "skip": 0}
        self.workers = []
        self.selector = selectors.DefaultSelector()
        self.seconds = {}

    def tell(self, outcome, name, text="", took=0.0):
        self.counts[outcome] += 1
        self.seconds[name] = took
        head = {"ok": "ok  ", "fail": "FAIL", "skip": "skip"}[outcome]
        line = "%s %s (%.1f s)" % (head, name, took)
        if outcome == "skip":
            line = "%s %s: %s" % (head, name, text)
        print(line + ("\n" + text if outcome == "fail" and text else ""), flush=True)

    def add_worker(self):
        new = Worker(self.groups, self.options, self.workers)
        self.workers.append(new)
        self.selector.register(new.reports, selectors.EVENT_READ, new)
        self.feed(new)

    def drop_worker(self, old):
        self.selector.unregister(old.reports)
        self.workers.remove(old)
        old.kill()

    def feed(self, idle):
        idle.group = None
        if self.queue:
            index, numbers = self.queue.pop(0)
            idle.give(index, self.groups[index], numbers)

    def replace(self, lost, why):
        """A worker is gone or hangs: its test has failed, the rest of its group goes to a new
        one."""
        if lost.current is not None and lost.current >= 0:
            self.tell("fail", lost.group.tests[lost.current].name, "     " + why)
        else:
            self.tell("fail", lost.group.module.__name__ + ": its servers", "     " + why)
        if lost.waiting:
            self.queue.insert(0, (lost.index, lost.waiting))
        self.drop_worker(lost)
        self.add_worker()

    def take(self, source):
        data = source.reports.read(1 << 16)
        if not data:
            if source.group is not None:
                self.replace(source, "the process that ran it died")
            return
        *lines, source.partial = (source.partial + data).split(b"\n")
        for line in lines:
            facts = json.loads(line)
            if "start" in facts:
                source.current = facts["start"]
                source.deadline = time.monotonic() + facts["limit"] + GRACE
                if source.current in source.waiting:
                    source.waiting.remove(source.current)
            elif "test" in facts:
                self.tell(
                    facts["outcome"],
                    source.group.tests[facts["test"]].name,
                    facts["text"],
                    facts["took"],
                )
            else:
                if facts["wrong"]:
                    self.tell(
                        "fail",
                        source.group.module.__name__ + ": the shared servers end cleanly",
                        "     " + facts["wrong"],
                    )
                self.feed(source)

    def run(self):
        for _ in range(max(1, min(self.options.jobs, len(self.queue)))):
            self.add_worker()
        while any(one.group is not None for one in self.workers):
            for key, _ in self.selector.select(1.0):
                self.take(key.data)
            for one in [
                one for one in self.workers if one.group and time.monotonic() > one.deadline
            ]:
                self.replace(one, "it hung and had to be killed, with all of its servers")
        for one in list(self.workers):
            self.drop_worker(one)


def arguments():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    binary = os.environ.get("SLOTPROXY") or os.path.join(here, "..", "..", "build", "slotproxy")
    parser = argparse.ArgumentParser(
        prog="run", description="End-to-end tests of slotproxy against real servers."
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="only tests whose name (file: sentence) contains or matches this; may be repeated",
    )
    parser.add_argument(
        "--binary",
        default=binary,
        help="slotproxy to test (default: $SLOTPROXY or build/slotproxy)",
    )
    parser.add_argument(
        "--fast", action="store_true", help="leave out what takes more than a few seconds"
    )
    parser.add_argument("--all", action="store_true", help="the slow ones too")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (2)")
    parser.add_argument(
        "--stock",
        action="store_true",
        help="judge the specifications by real servers: a stock "
        "redis-server as forward port, a three-node Redis Cluster as endpoints",
    )
    parser.add_argument("--list", action="store_true", help="name the tests and run none")
    parser.add_argument("--durations", action="store_true", help="close with the ten longest")
    options = parser.parse_args()
    options.here = here
    options.binary = os.path.abspath(options.binary)
    return options


def main():
    options = arguments()
    modules = discover(options.here)
    groups = [group for group in groups_of(modules, options) if group.tests]
    if not groups:
        print(
            "no test is chosen%s; run --list names them all"
            % "".join(" by --only %s" % pattern for pattern in options.only or ())
        )
        print("0 passed, 1 failed, 0 skipped")
        return 1
    if options.list:
        for group in groups:
            for test in group.tests:
                print(test.name)
        return 0
    if not options.stock and not os.access(options.binary, os.X_OK):
        print(
            "there is no program at %s: build it first, or name it with --binary" % options.binary
        )
        print("0 passed, 1 failed, 0 skipped")
        return 1
    began = time.monotonic()
    run = Run(options, groups)
    run.run()
    if options.durations:
        for name, took in sorted(run.seconds.items(), key=lambda item: -item[1])[:10]:
            print("%6.1f s  %s" % (took, name))
    print("%.0f seconds" % (time.monotonic() - began))
    print("%(ok)d passed, %(fail)d failed, %(skip)d skipped" % run.counts)
    return 1 if run.counts["fail"] else 0
