#!/usr/bin/python3
"""Memory and manners of slotproxy: what idle clients cost, what stays when they leave, what a client that never reads
does to the proxy, to the nodes and to everybody else, and what a connection costs beside nutcracker's.
"""
import argparse
import multiprocessing
import resource
import sys
import time

import rig
from rig import Goals, Nutcracker, Rig, Slotproxy, median, resp

CLIENTS = 5_000
UNREAD_REQUESTS, UNREAD_BYTES = 1_000_000, 10_000
GUARD_BYTES = 2_500_000_000  # A target that grows by this much has lost; the machine should not.
QUIET_SECONDS, SLOW_SECONDS = 3, 10
PROBE_PAUSE = 0.005
KB, MB = 1e3, 1e6


def settled_memory(target, seconds=5.0):
    """Resident bytes once they stand still: the same for half a second, or what they are after `seconds`."""
    deadline = time.monotonic() + seconds
    before, since = target.memory(), time.monotonic()
    while time.monotonic() < deadline:
        time.sleep(0.05)
        now = target.memory()
        if now != before:
            before, since = now, time.monotonic()
        elif time.monotonic() - since > 0.5:
            break
    return before


def exchange(connections, request, reply_bytes):
    """All ask, as many at once as leave their answers room in the kernel's buffers; then each reads its own."""
    at_once = max(1, 150_000_000 // reply_bytes)
    for start in range(0, len(connections), at_once):
        for connection in connections[start : start + at_once]:
            connection.sendall(request)
        for connection in connections[start : start + at_once]:
            rig.receive(connection, reply_bytes)


def get(prefix):
    return resp.request("GET", rig.key(prefix, 7))


def mget(prefix, count):
    return resp.request("MGET", *(rig.key(prefix, number) for number in range(count)))


def put(prefix, size):
    return resp.request("SET", rig.key(prefix, 7), "x" * size)


def idle(bench, target, goals, clients):
    """What `clients` connections cost before and after traffic of several kinds, and what is left after them."""
    start = settled_memory(target)
    connections = [rig.connect(target.port) for _ in range(clients)]
    exchange(connections[-1:], resp.request("GET", "none"), len(b"$-1\r\n"))  # All before it have been accepted.
    steps = [("connected", settled_memory(target))]
    for name, request, reply_bytes in (
        ("after one GET of 32 B", get("key:"), rig.value_reply_size(32)),
        ("after 20 GETs of 1 KB", get("k1k:") * 20, 20 * rig.value_reply_size(1024)),
        ("after a GET of 64 KB", get("k64k:"), rig.value_reply_size(65_536)),
        ("after 50 SETs at once", put("key:", 32) * 50, 50 * len(b"+OK\r\n")),
        ("after 1,000 GETs at once", get("key:") * 1000, 1000 * rig.value_reply_size(32)),
        ("after an MGET of 60 values", mget("k1k:", 60), len(b"*60\r\n") + 60 * rig.value_reply_size(1024)),
        ("after a SET of 64 KB", put("k64k:", 65_536), len(b"+OK\r\n")),
    ):
        exchange(connections, request, reply_bytes)
        steps.append((name, settled_memory(target)))
    for connection in connections:
        connection.close()
    end = settled_memory(target)
    print("\n%s: %d idle clients" % (target.name, clients))
    print("  %-28s %8.1f MB" % ("at the start", start / MB))
    for name, memory in steps:
        print("  %-28s %8.1f MB %8.2f KB per client" % (name, memory / MB, (memory - start) / clients / KB))
    print("  %-28s %8.1f MB" % ("after they left", end / MB))
    if goals is None:
        return
    goals.at_most("KB per idle client, fresh", (steps[0][1] - start) / clients / KB, 1, "KB")
    goals.at_most("KB per idle client, after any traffic", max(m - start for _, m in steps[1:]) / clients / KB, 2, "KB")
    goals.at_most("MB above the start after %d clients left" % clients, (end - start) / MB, 10, "MB")


def probe(port, latencies, ended):
    """Another client, in a process of its own: GETs of small values of all nodes, and how long each took (ms)."""
    measured = []
    number = 0
    try:
        with rig.connect(port, 5) as connection:
            while not ended.is_set():
                number += 1
                request = resp.request("GET", rig.key("key:", number * 7919 % rig.count_of("key:")))
                since = time.perf_counter()
                connection.sendall(request)
                rig.receive(connection, rig.value_reply_size(32))
                measured.append((time.perf_counter() - since) * 1000)
                ended.wait(PROBE_PAUSE)
    except OSError as why:
        measured.append(None)
        print("  another client failed: %s" % why, file=sys.stderr)
    latencies.send(measured)


class Probe:
    def __init__(self, port):
        self.receiver, sender = multiprocessing.Pipe(duplex=False)
        self.ended = multiprocessing.Event()
        self.process = multiprocessing.Process(target=probe, args=(port, sender, self.ended), daemon=True)
        self.process.start()

    def end(self):
        """The latencies; an empty list when the other client failed."""
        self.ended.set()
        measured = self.receiver.recv() if self.receiver.poll(20) else [None]
        self.process.join(5)
        return measured if None not in measured else []


def write_unread(target, connection, requests):
    """Pipelines `requests` GETs and reads nothing, for SLOW_SECONDS: (requests taken, largest growth of the target, of a
    node, seconds)."""
    chunk = resp.request("GET", rig.key("k10k:", 5)) * 1000
    one = len(chunk) // 1000
    connection.setblocking(False)
    start, nodes_start = target.memory(), target.nodes.memory()
    sent = grown = node_grown = 0
    begun = time.monotonic()
    while time.monotonic() - begun < SLOW_SECONDS:
        try:
            while sent < requests * one:
                sent += connection.send(chunk[sent % len(chunk):][:requests * one - sent])
        except BlockingIOError:
            pass
        except OSError as why:
            print("  the client that does not read was cut: %s" % why)
            break
        grown = max(grown, target.memory() - start)
        node_grown = max(node_grown, *(now - then for now, then in zip(target.nodes.memory(), nodes_start)))
        if max(grown, node_grown) > GUARD_BYTES:
            break
        time.sleep(0.01)
    return sent // one, grown, node_grown, time.monotonic() - begun


def slow_reader(bench, target, goals, requests):
    quiet = Probe(target.port)
    quiet.ended.wait(QUIET_SECONDS)
    before = quiet.end()
    others = Probe(target.port)
    connection = rig.connect(target.port)
    taken, grown, node_grown, seconds = write_unread(target, connection, requests)
    during = others.end()
    connection.close()
    print("\n%s: %d GETs of 10 KB never read; %d taken, looked at for %.1f s" % (target.name, requests, taken, seconds))
    print("  grown by %.0f MB, a node by %.0f MB; %.0f MB after the client left"
          % (grown / MB, node_grown / MB, settled_memory(target) / MB))
    if before and during:
        print("  other clients: median %.2f ms before, %.2f ms meanwhile; worst %.1f ms before, %.1f ms meanwhile"
              % (median(before), median(during), max(before), max(during)))
    if goals is None:
        return
    goals.at_most("a slow reader: MB that the proxy grows by", grown / MB, 64, "MB")
    goals.at_most("a slow reader: MB that a node grows by", node_grown / MB, 64, "MB")
    served = bool(before and during)
    # "Unchanged": within what the medians of two quiet spells on a busy machine differ by.
    goals.at_most("a slow reader: others' median, of what it was", median(during) / median(before) if served else None,
                  1.5, "x")
    goals.at_most("a slow reader: others' worst", max(during) if served else None, 100, "ms")


def connection_cost(target, connections):
    """Processor time of connect, one GET and close, in microseconds."""
    before = target.cpu_us()
    command = ["redis-benchmark", "-h", rig.HOST, "-p", str(target.port), "--csv", "-k", "0", "-c", "50",
               "-n", str(connections), "-r", str(rig.count_of("key:")), "GET", "key:__rand_int__"]
    ran = rig.processes.run(command, timeout=90)
    if ran.returncode != 0:
        raise RuntimeError("redis-benchmark failed: " + ran.stderr[-300:])
    return (target.cpu_us() - before) / connections


def set_up(bench, proxy, peer, goals, rounds, connections):
    costs = [(connection_cost(proxy, connections), connection_cost(peer, connections)) for _ in range(rounds)]
    ours, theirs = (median([pair[i] for pair in costs]) for i in (0, 1))
    print("\nconnect, one GET, close: slotproxy %.1f us, nutcracker %.1f us of processor time" % (ours, theirs))
    goals.at_most("connection set-up, of nutcracker's", median([a / b for a, b in costs]), 1.1, "x")


def main():
    parser = argparse.ArgumentParser(prog="memory.py", description=__doc__.split("\n")[0])
    parser.add_argument("--binary", default="build/slotproxy", help="slotproxy to measure (build/slotproxy)")
    parser.add_argument("--peer", action="store_true", help="nutcracker's memory too")
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--requests", type=int, default=UNREAD_REQUESTS, help="of the client that does not read")
    parser.add_argument("--rounds", type=int, default=5, help="of the connection set-up")
    parser.add_argument("--only", choices=("idle", "slow", "setup"))
    parser.add_argument("--strict", action="store_true", help="end with 1 when a goal is missed")
    options = parser.parse_args()
    print("memory: " + rig.machine())
    goals = Goals()
    with Rig() as bench:
        room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200
        clients = min(options.clients, room)
        kinds = [(Slotproxy, (options.binary,), goals)] + ([(Nutcracker, (), None)] if options.peer else [])
        for kind, arguments, judged in kinds:
            if options.only in (None, "idle"):
                idle(bench, fresh := bench.start(kind, *arguments), judged, clients)
                fresh.end()
            if options.only in (None, "slow"):
                slow_reader(bench, fresh := bench.start(kind, *arguments), judged, options.requests)
                fresh.end()
        if options.only in (None, "setup"):
            set_up(bench, bench.start(Slotproxy, options.binary), bench.start(Nutcracker), goals, options.rounds, 8_000)
    return 1 if not goals.print() and options.strict else 0


if __name__ == "__main__":
    sys.exit(main())
