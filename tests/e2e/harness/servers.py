"""Stock redis-servers: alone, and three of them as a real Redis Cluster."""
import os
import shutil
import signal
import tempfile
import time

from . import processes, resp
from .check import Failure, eventually
from .wire import Wire

REDIS_SERVER = os.environ.get("REDIS_SERVER", "redis-server")


class RedisServer:
    def __init__(self, *args, port=None, start=True):
        self.args = args
        self.folder = tempfile.mkdtemp(prefix="e2e-redis-")
        self.port = port
        self.process = None
        if start:
            self.start()

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    def start(self, *more):
        """Starts, or starts again on the same port and folder; returns once it accepts
        connections."""
        for _ in range(20):
            port = self.port or processes.free_port()
            command = [
                REDIS_SERVER,
                "--port",
                str(port),
                "--bind",
                "127.0.0.1",
                "--dir",
                self.folder,
                "--save",
                "",
                "--appendonly",
                "no",
                "--daemonize",
                "no",
                "--loglevel",
                "notice",
                *self.args,
                *more,
            ]
            with open(os.path.join(self.folder, "log"), "ab") as log:
                self.process = processes.start(command, log, log)
            if processes.wait_listening(("127.0.0.1", port), 10, self.process):
                self.port = port
                return self
            processes.end(self.process, 1)
            if self.port:
                break
        raise Failure(
            "redis-server did not start: %s" % open(os.path.join(self.folder, "log")).read()[-500:]
        )

    def client(self, name="redis"):
        return Wire(self.address, name)

    def ask(self, *args):
        with self.client("node %d" % self.port) as wire:
            return wire.ask(*args)

    def wait_loaded(self, seconds=10):
        eventually(lambda: self.ask("PING") == "PONG", seconds, "redis-server answers PING")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def restart(self, *more):
        """kill -9, then the same port and folder again."""
        self.kill()
        self.start(*more)

    def empty(self, *but):
        """Deletes every key whose name does not begin with one of `but`, as an outsider would see
        them."""
        script = (
            "local c='0' repeat local r=redis.call('SCAN',c,'COUNT',1000) c=r[1] "
            "for _,k in ipairs(r[2]) do local keep=false "
            "for _,p in ipairs(ARGV) do if string.sub(k,1,#p)==p then keep=true end end "
            "if not keep then redis.call('UNLINK',k) end end until c=='0' return 1"
        )
        self.ask("EVAL", script, "0", *but)
        for name in self.info("keyspace"):
            if name.startswith("db") and name != "db0":
                with self.client() as wire:
                    wire.ask("SELECT", name[2:])
                    wire.ask("FLUSHDB")
        self.ask("SCRIPT", "FLUSH")
        self.ask("FUNCTION", "FLUSH")

    def info(self, section=""):
        text = self.ask("INFO", *([section] if section else [])).decode("utf-8", "replace")
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def end(self):
        if self.process:
            processes.end(self.process, 3)
        shutil.rmtree(self.folder, ignore_errors=True)


class RedisCluster:
    """Three masters, slots in thirds: the judge of what a redirect endpoint must say."""

    RANGES = ((0, 5460), (5461, 10922), (10923, 16383))

    def __init__(self):
        self.nodes = [RedisServer("--cluster-enabled", "yes") for _ in self.RANGES]
        for (first, last), node in zip(self.RANGES, self.nodes):
            node.ask("CLUSTER", "ADDSLOTSRANGE", first, last)
        for node in self.nodes[1:]:
            node.ask("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        deadline = time.monotonic() + 30
        while any(
            b"cluster_state:ok" not in node.ask("CLUSTER", "INFO")
            or sum(r[1] - r[0] + 1 for r in node.ask("CLUSTER", "SLOTS")) != resp.SLOTS
            for node in self.nodes
        ):
            if time.monotonic() > deadline:
                raise Failure("the real Redis Cluster did not form")
            time.sleep(0.05)

    def end(self):
        for node in self.nodes:
            node.end()
