"""Client libraries of Node.js, in pinned versions, and what libraries ask at their start."""
import os
import shutil
import subprocess

from harness import processes, resp
from harness.check import Skip, check, same
from harness.tests import test

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.environ.get("E2E_NODE_MODULES") or os.path.join(HERE, "..", "..", "build", "e2e-node")


def node_modules():
    """The folder with the pinned libraries, installed once; Skip with the reason where that can't
    be."""
    if not shutil.which("node"):
        raise Skip("node is not installed")
    wanted = open(os.path.join(HERE, "node", "package.json")).read()
    os.makedirs(MODULES, exist_ok=True)
    done = os.path.join(MODULES, "installed.json")
    if os.path.exists(done) and open(done).read() == wanted:
        return MODULES
    if not shutil.which("npm"):
        raise Skip("npm is not installed")
    with open(os.path.join(MODULES, "package.json"), "w") as file:
        file.write(wanted)
    try:
        got = processes.run(
            [
                "npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                "--no-package-lock",
                "--fetch-retries=1",
                "--fetch-timeout=20000",
                "--prefix",
                MODULES,
            ],
            timeout=60,
        )
    except subprocess.TimeoutExpired:
        raise Skip("npm install did not end within 60 s")
    if got.returncode:
        raise Skip("npm can't install: " + " ".join(got.stderr.split())[:200])
    with open(done, "w") as file:
        file.write(wanted)
    return MODULES


def node_script(name, *args):
    got = processes.run(
        ["node", os.path.join(HERE, "node", name + ".mjs"), *map(str, args)],
        timeout=60,
        env=dict(os.environ, E2E_NODE_MODULES=node_modules(), NODE_NO_WARNINGS="1"),
    )
    failed = [line for line in got.stdout.splitlines() if line.startswith("FAIL")]
    check(
        not failed, "%s %s:\n       %s" % (name, " ".join(map(str, args)), "\n       ".join(failed))
    )
    same(
        got.returncode,
        0,
        "the exit status of %s: %s%s" % (name, got.stdout[-500:], got.stderr[-500:]),
    )
    check(got.stdout.count("ok ") > 5, "%s ran its steps: %r" % (name, got.stdout))


@test(stock=True, seconds=130)
def ioredis_works_plain(shop):
    node_script("ioredis", "forward", shop.forward[1])


@test(stock=True, seconds=130)
def ioredis_works_as_cluster(shop):
    node_script("ioredis", "cluster", shop.endpoint(0)[1])


@test(stock=True, seconds=130)
def node_redis_works_plain_with_resp2(shop):
    node_script("noderedis", "forward", shop.forward[1], 2)


@test(stock=True, seconds=130)
def node_redis_works_plain_with_resp3(shop):
    node_script("noderedis", "forward", shop.forward[1], 3)


@test(stock=True, seconds=130)
def node_redis_works_as_cluster(shop):
    node_script("noderedis", "cluster", shop.endpoint(2)[1], 3)


@test(stock=True)
def hiredis_style_clients_can_ask_for_everything_they_ask_at_start(shop):
    """What well-known libraries send before the first command of the application, one conversation
    each."""
    starts = (
        ("HELLO 3", "CLIENT SETINFO LIB-NAME x", "CLIENT SETINFO LIB-VER 1", "INFO REPLICATION"),
        ("HELLO 3", "CLIENT SETNAME glide", "PING", "CLIENT SETINFO LIB-NAME x"),
        ("CLIENT SETNAME sidekiq", "INFO", "SELECT 0", "EXISTS queue"),
        (
            "CONFIG GET timeout",
            "CONFIG GET replica-read-only",
            "CONFIG GET databases",
            "INFO replication",
            "INFO server",
            "GET __Booksleeve_TieBreak",
            "ECHO tracer",
            "CLIENT ID",
        ),
        ("CONFIG GET save", "CONFIG GET appendonly"),
        (
            "HELLO 3",
            "CLIENT SETINFO LIB-NAME x",
            "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type external-ip",
            "PING",
        ),
        ("COMMAND", "COMMAND DOCS", "COMMAND COUNT", "COMMAND INFO get"),
        (
            "DBSIZE",
            "MEMORY USAGE a",
            "MODULE LIST",
            "SLOWLOG GET",
            "CLIENT LIST",
            "CONFIG GET databases",
            "LATENCY LATEST",
            "FT._LIST",
            "PING",
        ),
    )
    for start in starts:
        with shop.client(start[0]) as client:
            client.send(b"".join(resp.request(*line.split(" ")) for line in start))
            got = client.read_many(len(start))
            for line, reply in zip(start, got):
                newer = line.startswith(("CLIENT SETINFO", "CLIENT MAINT", "FT."))
                check(newer or reply[:1] != b"-", "%s was answered with %r" % (line, reply[:200]))
            same(client.raw("PING"), b"+PONG\r\n")
