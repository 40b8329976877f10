"""What the benchmarks stand on: three redis-servers with the same keys each, and the programs to measure in front of
them, one worker each. Everything is on 127.0.0.1, on free ports, and ends with the benchmark.

Every node holds every key, so that each target finds all of them whatever it thinks of slots, and a plain node
("direct") and a byte forwarder (haproxy) can be measured beside those that know Redis.
"""
import os
import resource
import shutil
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
sys.dont_write_bytecode = True

from harness import processes, resp  # noqa: E402
from harness.proxy import Proxy, yaml  # noqa: E402
from harness.servers import RedisCluster, RedisServer  # noqa: E402

HOST = "127.0.0.1"
# (prefix, how many, bytes of the value); a key is its prefix and twelve digits, as redis-benchmark writes them.
KEYS = (("key:", 200_000, 32), ("k1k:", 20_000, 1024), ("k10k:", 100, 10_000), ("k64k:", 500, 65_536))


def key(prefix, number):
    return "%s%012d" % (prefix, number)


def count_of(prefix):
    return next(count for known, count, _ in KEYS if known == prefix)


def connect(port, timeout=10.0):
    connection = socket.create_connection((HOST, port), timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection, size):
    """Exactly `size` bytes."""
    left = size
    while left:
        data = connection.recv(min(left, 1 << 20))
        if not data:
            raise ConnectionError("closed with %d of %d bytes to come" % (left, size))
        left -= len(data)


def value_reply_size(size):
    return len(b"$%d\r\n" % size) + size + 2


def fill(port):
    """All of KEYS, pipelined; the replies are read by a thread of its own, or both sides would wait for each other."""
    connection = connect(port, 60)
    total = sum(count for _, count, _ in KEYS)
    reader = threading.Thread(target=receive, args=(connection, total * len(b"+OK\r\n")))
    reader.start()
    for prefix, count, size in KEYS:
        tail = b"\r\n$%d\r\n%s\r\n" % (size, b"x" * size)
        head = b"*3\r\n$3\r\nSET\r\n$%d\r\n" % len(key(prefix, 0))
        step = max(1, 500_000 // size)
        for start in range(0, count, step):
            numbers = range(start, min(start + step, count))
            connection.sendall(b"".join(head + key(prefix, i).encode() + tail for i in numbers))
    reader.join(60)
    if reader.is_alive():
        raise RuntimeError("the node at port %d did not take its keys" % port)
    connection.close()


def cpu_us(pid):
    """Run time of all threads so far, in microseconds, from the scheduler's own clock (1 ns steps, not 10 ms ticks)."""
    total = 0
    for thread in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/schedstat" % (pid, thread)) as stat:
                total += int(stat.read().split()[0])
        except FileNotFoundError:
            pass  # It ended in between.
    return total / 1000


class Nodes:
    """The three redis-servers, filled."""

    def __init__(self):
        self.servers = []
        for _ in range(3):
            self.servers.append(RedisServer("--maxclients", "15000", "--tcp-backlog", "4096"))
        fillers = [threading.Thread(target=fill, args=(server.port,)) for server in self.servers]
        for filler in fillers:
            filler.start()
        for filler in fillers:
            filler.join()

    @property
    def ports(self):
        return [server.port for server in self.servers]

    def memory(self):
        return [processes.memory(server.process.pid) for server in self.servers]

    def end(self):
        for server in self.servers:
            server.end()


class Target:
    """One program in front of the nodes. `wrap` is put before its command line (valgrind)."""

    name = ""

    def __init__(self, nodes, folder, wrap=()):
        self.nodes, self.folder, self.wrap = nodes, folder, list(wrap)
        self.port = processes.free_port()
        self.process = None
        self.slow_start = 60 if wrap else 1

    def start(self):
        with open(os.path.join(self.folder, self.name + ".log"), "ab") as log:
            self.process = processes.start(self.wrap + self.command(), log, log)
        if not processes.wait_listening((HOST, self.port), 10 * self.slow_start, self.process):
            raise RuntimeError("%s did not start: see %s" % (self.name, self.folder))
        self.await_service()
        return self

    def await_service(self):
        """Until keys of all nodes are answered with their values."""
        deadline = time.monotonic() + 10 * self.slow_start
        wanted = resp.bulk("x" * 32)
        requests = b"".join(resp.request("GET", key("key:", number)) for number in range(30))
        while True:
            with connect(self.port, 5 * self.slow_start) as connection:
                connection.sendall(requests)
                got = b""
                while got.count(b"\r\n") < 30 and (data := connection.recv(65536)):
                    got += data
                while got.startswith(b"$") and len(got) < 30 * len(wanted) and (data := connection.recv(65536)):
                    got += data
            if got == wanted * 30:
                return
            if time.monotonic() > deadline:
                raise RuntimeError("%s does not answer what the nodes hold: %r" % (self.name, got[:200]))
            time.sleep(0.05)

    def config_file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    @property
    def pid(self):
        return self.process.pid

    def cpu_us(self):
        return cpu_us(self.pid)

    def memory(self, field="VmRSS"):
        return processes.memory(self.pid, field)

    def reset_peak_memory(self):
        processes.reset_peak_memory(self.pid)

    def end(self):
        if self.process:
            processes.end(self.process)
            self.process = None


class Direct(Target):
    """The first node itself."""

    name = "direct"

    def start(self):
        self.port, self.process = self.nodes.ports[0], self.nodes.servers[0].process
        return self

    def end(self):
        self.process = None


class Slotproxy(Target):
    name = "slotproxy"

    def __init__(self, nodes, folder, binary, wrap=()):
        super().__init__(nodes, folder, wrap)
        self.binary = os.path.abspath(binary)
        if not os.access(self.binary, os.X_OK):
            sys.exit("bench: there is no %s: make" % binary)

    def command(self):
        home = tempfile.mkdtemp(prefix="slotproxy-", dir=self.folder)
        config = {
            "cluster": "bench",
            "listen": {"forward": "%s:%d" % (HOST, self.port), "admin": os.path.join(home, "admin", "admin.sock")},
            "workers": 1,
            "state_dir": os.path.join(home, "state"),
            "nodes": [{"name": "n%d" % i, "address": "%s:%d" % (HOST, port), "slots": "%d-%d" % slots}
                      for i, (port, slots) in enumerate(zip(self.nodes.ports, RedisCluster.RANGES))],
        }
        return [self.binary, "--config", self.config_file(os.path.join(home, "slotproxy.yaml"), yaml(config))]


class Nutcracker(Target):
    """At log level 4: at its default, 5, it writes a line per request and measures its log."""

    name = "nutcracker"

    def command(self):
        servers = "".join("   - %s:%d:1\n" % (HOST, port) for port in self.nodes.ports)
        config = self.config_file("nutcracker.yml", (
            "bench:\n  listen: %s:%d\n  hash: crc16\n  distribution: modula\n  redis: true\n  preconnect: true\n"
            "  auto_eject_hosts: false\n  backlog: 4096\n  tcpkeepalive: false\n  servers:\n%s"
            % (HOST, self.port, servers)))
        return ["nutcracker", "-c", config, "-a", HOST, "-s", str(processes.free_port()), "-v", "4",
                "-p", os.path.join(self.folder, "nutcracker.pid")]


class Haproxy(Target):
    """Mode tcp: bytes to and fro, a connection to a node per client; it knows nothing of Redis."""

    name = "haproxy"

    def command(self):
        servers = "".join("  server n%d %s:%d\n" % (i, HOST, port) for i, port in enumerate(self.nodes.ports))
        config = self.config_file("haproxy.cfg", (
            "global\n  maxconn 9000\n  nbthread 1\n"
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 5m\n  timeout server 5m\n"
            "listen bench\n  bind %s:%d backlog 4096\n  maxconn 9000\n  balance leastconn\n%s"
            % (HOST, self.port, servers)))
        return ["haproxy", "-db", "-f", config]


class Rig:
    """Nodes and a scratch folder; `with Rig() as rig`. What was started through it has ended after it."""

    def __enter__(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.folder = tempfile.mkdtemp(prefix="bench-")
        self.targets = []
        self.nodes = Nodes()
        return self

    def start(self, kind, *args, **more):
        self.targets.append(kind(self.nodes, self.folder, *args, **more))
        return self.targets[-1].start()

    def __exit__(self, *_):
        for target in self.targets:
            target.end()
        self.nodes.end()
        shutil.rmtree(self.folder, ignore_errors=True)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def machine():
    """One line about where these figures come from."""
    with open("/proc/cpuinfo") as info:
        models = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    with open("/proc/loadavg") as load:
        average = load.read().split()[0]
    return "%d x %s, load average at the start %s" % (os.cpu_count(), models[0] if models else "?", average)


class Goals:
    """Figures beside what they must not exceed. A benchmark reports; whether it ends with 1 is the caller's choice."""

    def __init__(self):
        self.rows = []

    def at_most(self, what, measured, goal, unit=""):
        self.rows.append((what, measured, goal, unit, measured is not None and measured <= goal))

    def print(self):
        print("\n%-58s %12s %12s" % ("goals", "measured", "at most"))
        for what, measured, goal, unit, met in self.rows:
            shown = "-" if measured is None else "%.2f %s" % (measured, unit) if goal < 100 else "%d %s" % (measured, unit)
            print("%-58s %12s %12s  %s" % (what, shown, "%g %s" % (goal, unit), "ok" if met else "MISSED"))
        return all(row[-1] for row in self.rows)
