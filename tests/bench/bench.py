#!/usr/bin/python3
"""Speed of slotproxy beside a plain node, nutcracker and haproxy, in front of the same three redis-servers.

redis-benchmark is the load. Rounds are interleaved: within one, every load runs against every target in turn, in a
changing order, so that ratios are taken between neighbours in time; the table shows medians over the rounds, of ratios
too. On a machine that does other things as well, requests per second and latency move by a third from round to round;
processor time per request is sturdier (and instructions.py sturdier still).
"""
import argparse
import json
import random
import re
import subprocess
import sys
import time

import rig
from rig import Direct, Goals, Haproxy, Nutcracker, Rig, Slotproxy, median

TARGETS = ("direct", "slotproxy", "nutcracker", "haproxy")


class Load:
    """`goal`: slotproxy's processor time per request at most this many times nutcracker's."""

    def __init__(self, name, command, prefix, requests, clients=50, pipeline=1, goal=None):
        self.name, self.requests, self.goal = name, requests, goal
        self.arguments = ["-c", str(clients), "-P", str(pipeline), "-r", str(rig.count_of(prefix))]
        self.command = [part.replace("KEY", prefix + "__rand_int__") for part in command]


LOADS = (
    Load("GET 32 B", ["GET", "KEY"], "key:", 60_000, goal=0.90),
    Load("SET 32 B", ["SET", "KEY", "x" * 32], "key:", 60_000, goal=0.90),
    Load("GET 32 B, pipeline 16", ["GET", "KEY"], "key:", 800_000, pipeline=16, goal=0.42),
    Load("SET 32 B, pipeline 16", ["SET", "KEY", "x" * 32], "key:", 800_000, pipeline=16, goal=0.42),
    Load("GET 32 B, pipeline 64", ["GET", "KEY"], "key:", 1_500_000, pipeline=64, goal=0.15),
    Load("SET 32 B, pipeline 64", ["SET", "KEY", "x" * 32], "key:", 1_500_000, pipeline=64, goal=0.15),
    Load("GET 1 KB", ["GET", "KEY"], "k1k:", 60_000),
    Load("SET 1 KB", ["SET", "KEY", "x" * 1024], "k1k:", 60_000),
    Load("GET 64 KB", ["GET", "KEY"], "k64k:", 6_000, goal=1.00),
    Load("SET 64 KB", ["SET", "KEY", "x" * 65_536], "k64k:", 6_000, goal=1.10),
    Load("GET 32 B, 1,000 clients", ["GET", "KEY"], "key:", 60_000, clients=1000, goal=0.75),
    Load("SET 32 B, 1,000 clients", ["SET", "KEY", "x" * 32], "key:", 60_000, clients=1000, goal=0.75),
    Load("MGET of 10 keys over 3 nodes", ["MGET"] + ["KEY"] * 10, "key:", 20_000, goal=0.80),
)
# redis-benchmark --csv: rps, avg, min, p50, p95, p99, max of the latency in ms, after the (quoted) command.
FIGURES = re.compile(r",\"([\d.]+)\",\"[\d.]+\",\"[\d.]+\",\"([\d.]+)\",\"[\d.]+\",\"([\d.]+)\",\"[\d.]+\"$", re.M)


def burst(target, load, scale):
    """One load against one target: its figures, or None with a word on what went wrong."""
    requests = max(1000, int(load.requests * scale))
    command = ["redis-benchmark", "-h", rig.HOST, "-p", str(target.port), "--csv", "-n", str(requests),
               *load.arguments, *load.command]
    target.reset_peak_memory()
    before = target.cpu_us()
    try:
        ran = rig.processes.run(command, timeout=90)
    except subprocess.TimeoutExpired:
        print("  %s, %s: not ended after 90 s" % (load.name, target.name), file=sys.stderr)
        return None
    spent = target.cpu_us() - before
    figures = FIGURES.search(ran.stdout)
    if not figures or "Error from server" in ran.stdout + ran.stderr:
        print("  %s, %s: %s" % (load.name, target.name, (ran.stderr or ran.stdout)[-300:]), file=sys.stderr)
        return None
    rate, p50, p99 = map(float, figures.groups())
    return {"rate": rate, "cpu": spent / requests, "p50": p50, "p99": p99, "peak": target.memory("VmHWM") / 1e6}


def measure(targets, loads, rounds, scale, deadline):
    """{load: {target: [figures of each round, or None]}}; the last round may miss, never half of one load."""
    table = {load.name: {target.name: [] for target in targets} for load in loads}
    for number in range(rounds):
        for load in loads:
            if time.monotonic() > deadline:
                print("  time is over in round %d" % (number + 1), file=sys.stderr)
                return table
            order = targets[:]
            random.Random(number * 131 + len(load.name)).shuffle(order)
            for target in order:
                table[load.name][target.name].append(burst(target, load, scale))
        print("  round %d of %d" % (number + 1, rounds), file=sys.stderr, flush=True)
    return table


def ratio(rows, target, reference, figure):
    """Median over the rounds of target / reference within one round."""
    pairs = zip(rows.get(target, ()), rows.get(reference, ()))
    ratios = [a[figure] / b[figure] for a, b in pairs if a and b and b[figure]]
    return median(ratios) if ratios else None


def middle(rows, target, figure):
    values = [row[figure] for row in rows[target] if row]
    return median(values) if values else None


def show(value, digits):
    return "-" if value is None else "{:,.{}f}".format(value, digits)


def print_table(table):
    head = ("", "req/s", "of direct", "CPU us/req", "of nutcracker", "p50 ms", "p99 ms", "peak MB")
    for load, rows in table.items():
        print("\n%-30s%10s%11s%12s%15s%9s%9s%9s" % ((load,) + head[1:]))
        for target in rows:
            print("  %-28s%10s%11s%12s%15s%9s%9s%9s" % (
                target, show(middle(rows, target, "rate"), 0), show(ratio(rows, target, "direct", "rate"), 2),
                show(middle(rows, target, "cpu"), 2), show(ratio(rows, target, "nutcracker", "cpu"), 2),
                show(middle(rows, target, "p50"), 2), show(middle(rows, target, "p99"), 2),
                show(middle(rows, target, "peak"), 1)))


def main():
    parser = argparse.ArgumentParser(prog="bench.py", description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default="build/slotproxy", help="slotproxy to measure (build/slotproxy)")
    parser.add_argument("--targets", default=",".join(TARGETS), help="of " + ",".join(TARGETS))
    parser.add_argument("--only", default="", help="loads whose name matches this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="requests of each burst, times this")
    parser.add_argument("--seconds", type=float, default=900, help="no burst begins later (900)")
    parser.add_argument("--json", help="a file for every figure of every round")
    parser.add_argument("--strict", action="store_true", help="end with 1 when a goal is missed")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    loads = [load for load in LOADS if re.search(options.only, load.name)]
    names = options.targets.split(",")
    print("bench: " + rig.machine())
    with Rig() as bench:
        kinds = {"direct": (Direct,), "slotproxy": (Slotproxy, options.binary), "nutcracker": (Nutcracker,),
                 "haproxy": (Haproxy,)}
        targets = [bench.start(*kinds[name]) for name in names]
        table = measure(targets, loads, options.rounds, options.scale, deadline)
    print_table(table)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(table, file, indent=1)
    goals = Goals()
    for load in loads:
        if load.goal and "slotproxy" in names and "nutcracker" in names:
            goals.at_most("CPU per request of nutcracker's: " + load.name,
                          ratio(table[load.name], "slotproxy", "nutcracker", "cpu"), load.goal, "x")
    return 1 if goals.rows and not goals.print() and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
