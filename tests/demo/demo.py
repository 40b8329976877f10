#!/usr/bin/python3
"""make demo: a fourth node joins three with 200,000 keys while clients work, from the YAML to the end.

Everything runs on free ports of 127.0.0.1 and ends with the demo. Load: redis-benchmark, and clients
that know what every key may be. The commands shown are run as they stand.
"""
import argparse
import base64
import os
import random
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
sys.dont_write_bytecode = True

from harness import plans, processes  # noqa: E402
from harness.check import Failure, eventually  # noqa: E402
from harness.checking import CheckingCrowd, nothing_elsewhere  # noqa: E402
from harness.proxy import find_slotctl  # noqa: E402
from harness.shop import Shop  # noqa: E402

KEYS = 200_000
VALUE_BYTES = 100
SECONDS_MAX = 100


def slotctl(shop, *words, shown=True):
    """Prints the command and what it says."""
    if shown:
        print("\n$ slotctl %s" % " ".join(words), flush=True)
    got = subprocess.run(
        [find_slotctl(shop.binary), *words, "--admin", shop.admin],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS_MAX,
        text=True,
    )
    if shown:
        print(got.stdout.rstrip(), flush=True)
    if got.returncode != 0:
        raise Failure("slotctl %s ended with %d: %s" % (" ".join(words), got.returncode, got.stdout))


def fill(shop):
    """200,000 keys as redis-benchmark names them; values that can't be compressed."""
    value = base64.b64encode(random.Random(1).randbytes(VALUE_BYTES))[:VALUE_BYTES]
    with shop.client("filler", timeout=60) as wire:
        for start in range(0, KEYS, 2000):
            names = ("key:%012d" % n for n in range(start, start + 2000))
            wire.pipeline(*(("SET", name, value) for name in names))


class Benchmark:
    """redis-benchmark over the same keys, until stop()."""

    def __init__(self, shop):
        command = ["redis-benchmark", "-p", str(shop.forward_port), "-t", "set,get", "-l", "-q"]
        command += ["-r", str(KEYS), "-d", str(VALUE_BYTES), "-c", "8", "-n", "50000"]
        self.output = []
        self.process = processes.start(command, subprocess.PIPE, subprocess.STDOUT)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        self.output += self.process.stdout.read().decode(errors="replace").replace("\r", "\n").split("\n")

    def stop(self):
        """What it said of errors."""
        if self.process.poll() is not None:
            return ["it ended with status %d" % self.process.returncode]
        processes.end(self.process)
        self.reader.join(5)
        return [line for line in self.output if "rror" in line]


def add_to_file(shop):
    plans.add_node(shop, "inv-tar")
    for entry in shop.config["nodes"]:
        entry.pop("slots", None)  # Shares follow the weights.
    shop.write_config()
    added = shop.config["nodes"][-1]
    print("\nAdded to the configuration:")
    print("  - name: %s\n    address: %s\n    endpoint: %s" % tuple(added[k] for k in ("name", "address", "endpoint")))


def demo(binary):
    shop = Shop(binary, config={"rebalance": {"grace": "2s"}, "timeouts": {"node_silent": "3s"}})
    try:
        fill(shop)
        with CheckingCrowd(shop, slots=range(16384), pace=0.0005) as crowd:
            crowd.wait_for(500)
            benchmark = Benchmark(shop)
            slotctl(shop, "nodes")
            add_to_file(shop)
            slotctl(shop, "reload")
            slotctl(shop, "plan", "show", "1")
            asked = crowd.asked
            slotctl(shop, "plan", "approve", "1", "--digest", plans.show(shop, 1)["digest"], "--by", "ana")
            slotctl(shop, "plan", "watch", "1")
            slotctl(shop, "plan", "wait", "1", "--timeout", str(SECONDS_MAX), shown=False)
            asked = crowd.asked - asked
            wrong = benchmark.stop()
        errors = sum(crowd.errors.values()) + len(wrong)
        crowd.judge()
        crowd.verify()
        eventually(lambda: plans.show(shop, 1)["state"] == "done", 5, "the plan is done")
        nothing_elsewhere(shop)
        slotctl(shop, "nodes")
        tell(plans.show(shop, 1), asked, errors)
        for line in wrong:
            print("redis-benchmark: " + line)
        return 1 if errors else 0
    finally:
        shop.end()


def tell(plan, asked, errors):
    progress = plan["progress"]
    seconds = (plan["ended_at_ms"] - plan["started_at_ms"]) / 1000
    print(
        "\nmoved %s keys, %.1f MB, in %.1f s; %d pauses: median %.1f ms, longest %.1f ms"
        % (
            format(progress["keys_copied"], ","),
            progress["payload_bytes"] / 1e6,
            seconds,
            progress["pauses"],
            progress["pause_median_ms"],
            progress["pause_max_ms"],
        )
    )
    print("clients: %s checked replies during the move, %d errors, 0 lost writes" % (format(asked, ","), errors))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", required=True, help="slotproxy")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        status = demo(os.path.abspath(options.binary))
    except Failure as why:
        print("demo failed: %s" % why)
        status = 1
    print("(%.0f s)" % (time.monotonic() - began))
    return status


if __name__ == "__main__":
    sys.exit(main())
