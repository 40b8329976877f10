#!/usr/bin/python3
"""User-space instructions of slotproxy per GET, counted by callgrind: one connection, pipeline 1 and 64, keys spread over
three nodes.

The figure is the difference between a run of N requests and one of 2 N, divided by N: what happens once, or now and
then, drops out. It depends on the binary, not on what else the machine does.
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time

import rig
from rig import Goals, Nutcracker, Rig, Slotproxy, median, resp

RUNS = ((1, 2_000, 3_000), (64, 6_400, 1_100))  # (pipeline, N, goal)
VALUE_BYTES = 32
VALGRIND = ("valgrind", "-q", "--tool=callgrind")
DUMP_SECONDS = 60
TOTALS = re.compile(r"^(?:totals|summary): (\d+)", re.M)


def drive(port, requests, pipeline):
    """`requests` GETs over one connection, `pipeline` at a time; the same keys every time."""
    choose = random.Random(11)
    with rig.connect(port, 60) as connection:
        for _ in range(requests // pipeline):
            keys = (rig.key("key:", choose.randrange(rig.count_of("key:"))) for _ in range(pipeline))
            connection.sendall(b"".join(resp.request("GET", key) for key in keys))
            rig.receive(connection, pipeline * rig.value_reply_size(VALUE_BYTES))


class Counter:
    """callgrind's counter of one process."""

    def __init__(self, pid, folder):
        self.pid, self.folder, self.known = pid, folder, set()

    def _control(self, option):
        subprocess.run(["callgrind_control", option, str(self.pid)], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=DUMP_SECONDS, check=True)

    def of(self, action):
        """Instructions that the process has executed during `action`."""
        self._control("--zero")
        self.known = set(os.listdir(self.folder))
        action()
        self._control("--dump")
        deadline = time.monotonic() + DUMP_SECONDS
        while time.monotonic() < deadline:
            counts = [self._total(name) for name in set(os.listdir(self.folder)) - self.known]
            if counts and None not in counts:
                return sum(counts)
            time.sleep(0.02)
        raise RuntimeError("callgrind wrote no dump within %d s" % DUMP_SECONDS)

    def _total(self, name):
        """None while the dump is still being written."""
        with open(os.path.join(self.folder, name), errors="replace") as dump:
            found = TOTALS.findall(dump.read())
        return int(found[-1]) if found else None


def count(bench, kind, arguments, repetitions):
    """{pipeline: instructions per request}"""
    folder = os.path.join(bench.folder, "callgrind-" + kind.name)
    os.makedirs(folder)
    wrap = (*VALGRIND, "--callgrind-out-file=%s/out.%%p" % folder)
    target = bench.start(kind, *arguments, wrap=wrap)
    counter = Counter(target.pid, folder)
    figures = {}
    for pipeline, requests, _ in RUNS:
        drive(target.port, 4 * pipeline, pipeline)  # The first requests pay for pages and lazy binding.
        values = []
        for _ in range(repetitions):
            once = counter.of(lambda: drive(target.port, requests, pipeline))
            twice = counter.of(lambda: drive(target.port, 2 * requests, pipeline))
            values.append((twice - once) / requests)
        figures[pipeline] = median(values)
    target.end()
    return figures, folder


def main():
    parser = argparse.ArgumentParser(prog="instructions.py", description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default="build/slotproxy", help="slotproxy to measure (build/slotproxy)")
    parser.add_argument("--peer", action="store_true", help="nutcracker too")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--keep", metavar="FOLDER", help="keep callgrind's dumps there, for callgrind_annotate")
    parser.add_argument("--strict", action="store_true", help="end with 1 when a goal is missed")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("instructions: there is no valgrind: tests/install-deps.sh bench")
    goals = Goals()
    with Rig() as bench:
        figures, folder = count(bench, Slotproxy, (options.binary,), options.repetitions)
        if options.keep:
            shutil.copytree(folder, options.keep, dirs_exist_ok=True)
        peer = count(bench, Nutcracker, (), options.repetitions)[0] if options.peer else {}
    for pipeline, _, goal in RUNS:
        beside = " (nutcracker %d)" % peer[pipeline] if peer else ""
        goals.at_most("instructions per GET, pipeline %d%s" % (pipeline, beside), figures[pipeline], goal)
    return 1 if not goals.print() and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
