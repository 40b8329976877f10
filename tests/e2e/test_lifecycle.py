"""Start and end of the daemon: ready, drain, --dev, --version."""
import os
import re
import signal
import socket
import time

from harness import processes, resp
from harness.check import check, eventually, has, lacks, same
from harness.proxy import Proxy
from harness.resp import array, bulk, request
from harness.shop import key_on
from harness.tests import test
from harness.wire import Wire

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"


# The command line


@test
def version_and_help_are_answered(binary):
    got = processes.run([binary, "--version"])
    same(got.returncode, 0, "the exit status of --version")
    check(re.search(r"\b\d+\.\d+\.\d+\b", got.stdout), "--version says %r" % got.stdout)
    got = processes.run([binary, "--help"])
    same(got.returncode, 0, "the exit status of --help")
    has(got.stdout, "--config", "--check", "--dev", "--version", what="--help")


@test
def a_wrong_command_line_ends_with_2(binary):
    for args in (
        ("--nosuch",),
        (),
        ("--config",),
        ("--check",),
        ("--dev", "x"),
        ("--dev", "0"),
        ("--dev", "-1"),
    ):
        got = processes.run([binary, *args])
        same(
            got.returncode,
            2,
            "the exit status of slotproxy %s, which said %r"
            % (" ".join(args), got.stdout + got.stderr),
        )
        check(got.stderr or got.stdout, "slotproxy %s says something" % " ".join(args))


@test
def ready_is_said_once_all_listeners_accept(fresh):
    shop = fresh(start=False)
    shop.proxy = Proxy(
        shop.binary, "--config", shop.config_path, log_path=os.path.join(shop.folder, "proxy.log")
    )
    shop.proxies.append(shop.proxy)
    shop.proxy.wait_ready()
    for address in (shop.forward, shop.endpoint(0), shop.endpoint(1), shop.endpoint(2)):
        same(Wire(address).raw("PING"), PONG)
    same(
        sum(line.startswith("ready") for line in shop.proxy.lines),
        1,
        "the number of lines that begin with `ready`",
    )
    same(Wire(shop.admin, "admin").raw("PING"), PONG)


@test
def the_admin_socket_is_for_its_owner_only(fresh):
    shop = fresh()
    same(oct(os.stat(shop.admin).st_mode & 0o777), "0o600", "the mode of the socket")
    folder = os.stat(os.path.dirname(shop.admin)).st_mode & 0o777
    same(oct(folder & 0o077), "0o0", "what others may do in its folder")


@test
def a_stale_admin_socket_does_not_stop_the_start(fresh):
    shop = fresh()
    shop.proxy.kill()
    check(os.path.exists(shop.admin), "the killed proxy left its socket")
    shop.start()
    same(shop.slotctl("status").returncode, 0, "slotctl status")
    same(shop.proxy.end(), None, "the end of the second proxy")
    check(not os.path.exists(shop.admin), "a clean end takes the socket away")


# Drain


@test
def idle_clients_are_closed_and_the_end_is_quick(fresh):
    shop = fresh()
    clients = [shop.client("client %d" % n) for n in range(20)] + [shop.at(0)]
    for client in clients:
        client.ask("PING")
    began = time.monotonic()
    shop.proxy.signal(signal.SIGTERM)
    for client in clients:
        same(client.read_until_closed(), b"")
    same(shop.proxy.wait_exit(), 0, "the exit status")
    check(
        time.monotonic() - began < 1.5,
        "it took %.1f s with nothing to wait for" % (time.monotonic() - began),
    )


@test
def sigint_ends_it_the_same_way(fresh):
    shop = fresh()
    client = shop.client()
    client.ask("SET", A, 1)
    shop.proxy.signal(signal.SIGINT)
    same(client.read_until_closed(), b"")
    same(shop.proxy.wait_exit(), 0, "the exit status")


@test
def requests_under_way_are_answered_before_the_close(fresh):
    shop = fresh(config={"timeouts": {"node_silent": "10s", "drain": "10s"}})
    client, idle = shop.client("client with requests"), shop.client("idle client")
    idle.ask("PING")
    client.ask("GET", C)  # Its connection to the node is there.
    shop.node(2).stop()
    try:
        client.send(
            request("ECHO", "x") + request("SET", C, 1) + request("GET", A) + request("GET", C)
        )
        same(client.read(), bulk("x"))
        shop.proxy.signal(signal.SIGTERM)
        same(idle.read_until_closed(), b"")
        eventually(lambda: refuses(shop.forward), 3, "new connections are refused")
        check(client.silent(0.1), "the client with requests waits")
        check(shop.proxy.alive(), "the proxy waits for the node")
    finally:
        shop.node(2).go_on()
    same(client.read_until_closed(), OK + NULL + bulk(1))
    same(shop.proxy.wait_exit(), 0, "the exit status")


def refuses(address):
    try:
        with socket.create_connection(address, 1):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:
        return False


@test
def the_drain_has_a_limit(fresh):
    shop = fresh(config={"timeouts": {"node_silent": "60s", "drain": "500ms"}})
    client = shop.client()
    client.ask("GET", C)  # Its connection to the node is there.
    shop.node(2).stop()
    try:
        client.send(request("ECHO", "x") + request("SET", C, 1))
        same(client.read(), bulk("x"))
        began = time.monotonic()
        shop.proxy.signal(signal.SIGTERM)
        rest = client.read_until_closed()
        check(
            rest == b"" or (rest[:1] == b"-" and b"outcome unknown" in rest),
            "the unanswered request got %r" % rest,
        )
        same(shop.proxy.wait_exit(), 0, "the exit status")
        took = time.monotonic() - began
        check(0.3 < took < 3, "a drain limited to 0.5 s took %.1f s" % took)
    finally:
        shop.node(2).go_on()


@test
def a_drain_under_load_ends_every_client_at_a_reply_boundary(fresh):
    shop = fresh()
    clients = [shop.client("client %d" % n, timeout=10) for n in range(30)]
    keys = [key_on(n % 3, "drain", n) for n in range(30)]
    batch = {
        key: b"".join(
            request("SET", key, key + "x" * 2000) + request("GET", key) + request("MGET", A, key, C)
            for _ in range(50)
        )
        for key in keys
    }
    for client, key in zip(clients, keys):
        client.socket.sendall(batch[key])
    clients[0].read_many(20)
    shop.proxy.signal(signal.SIGTERM)
    for n, (client, key) in enumerate(zip(clients, keys)):
        text = bulk(key + "x" * 2000)
        kinds = [OK, text, array(NULL, text, NULL)]
        data, position, count = client.read_until_closed(), 0, 20 if n == 0 else 0
        while position < len(data):
            end = resp.frame_end(data, position)
            check(end > 0, "%s was cut within a reply: …%r" % (client.name, data[-60:]))
            same(data[position:end], kinds[count % 3], "reply %d of %s" % (count, client.name))
            position, count = end, count + 1
    same(shop.proxy.wait_exit(), 0, "the exit status")


@test
def a_client_that_does_not_read_does_not_hold_the_end_up(fresh):
    shop = fresh(config={"timeouts": {"drain": "1s"}})
    client = shop.client("client that never reads", receive_buffer=4096)
    client.ask("SET", A, "v" * 1_000_000)
    client.send(request("GET", A) * 20)
    began = time.monotonic()
    shop.proxy.signal(signal.SIGTERM)
    same(shop.proxy.wait_exit(), 0, "the exit status")
    check(
        time.monotonic() - began < 4,
        "it took %.1f s with a drain of 1 s" % (time.monotonic() - began),
    )


@test
def a_second_signal_ends_it_at_once(fresh):
    shop = fresh(config={"timeouts": {"node_silent": "60s", "drain": "60s"}})
    client = shop.client()
    client.ask("GET", C)  # Its connection to the node is there.
    shop.node(2).stop()
    try:
        client.send(request("ECHO", "x") + request("SET", C, 1))
        same(client.read(), bulk("x"))
        shop.proxy.signal(signal.SIGTERM)
        eventually(lambda: refuses(shop.forward), 3, "it drains")
        began = time.monotonic()
        shop.proxy.signal(signal.SIGTERM)
        shop.proxy.wait_exit()
        check(time.monotonic() - began < 3, "it went on for %.1f s" % (time.monotonic() - began))
    finally:
        shop.node(2).go_on()


@test
def it_ends_cleanly_with_nodes_down(fresh):
    shop = fresh()
    for node in shop.nodes:
        node.kill()
    client = shop.client()
    eventually(lambda: client.raw("GET", A).startswith(b"-CLUSTERDOWN"), 5, "the nodes are down")
    shop.proxy.signal(signal.SIGTERM)
    same(shop.proxy.wait_exit(), 0, "the exit status")


@test
def the_listening_port_is_free_for_a_successor_at_once(fresh):
    shop = fresh()
    for n in range(3):
        client = shop.client()
        same(client.raw("SET", A, n), OK)
        shop.proxy.signal(signal.SIGTERM)
        same(shop.proxy.wait_exit(), 0, "the exit status")
        shop.start()


@test
def a_signal_before_the_nodes_were_looked_at_ends_it_at_once(fresh):
    shop = fresh(start=False, config={"timeouts": {"connect": "20s", "node_silent": "20s"}})
    shop.node(0).stop()
    try:
        proxy = Proxy(
            shop.binary,
            "--config",
            shop.config_path,
            log_path=os.path.join(shop.folder, "proxy.log"),
        )
        shop.proxies.append(proxy)
        eventually(lambda: os.path.exists(shop.admin), 5, "the admin socket is there")
        same(Wire(shop.admin, "admin").raw("PING"), PONG)
        check(not proxy.lines, "it is ready before it knows its nodes: %r" % proxy.lines)
        began = time.monotonic()
        proxy.signal(signal.SIGTERM)
        same(proxy.wait_exit(), 0, "the exit status")
        took = time.monotonic() - began
        check(took < 3, "it took %.1f s to end" % took)
    finally:
        shop.node(0).go_on()


# The embedded way to try it


def children_of(pid):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as stat:
                    fields = stat.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(name))
    return found


def running(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def free_block(count):
    while True:
        first = processes.free_port()
        block = []
        for port in range(first, first + count):
            probe = socket.socket()
            try:
                probe.bind(("127.0.0.1", port))
                block.append(probe)
            except OSError:
                probe.close()
                break
        for probe in block:
            probe.close()
        if len(block) == count:
            return first


class Dev:
    def __init__(self, binary, folder, *args, nodes=3):
        self.port = free_block(nodes + 1)
        self.proxy = Proxy(
            binary,
            "--dev",
            *args,
            "--port",
            str(self.port),
            log_path=os.path.join(folder, "dev.log"),
        )

    def __enter__(self):
        self.proxy.wait_ready()
        return self

    def __exit__(self, *_):
        if self.proxy.alive():
            self.proxy.end()


@test
def dev_starts_servers_serves_and_ends_them_with_itself(binary, folder):
    with Dev(binary, folder) as dev:
        servers = children_of(dev.proxy.pid)
        same(len(servers), 3, "the number of servers")
        with Wire(("127.0.0.1", dev.port)) as client:
            same(client.raw("MSET", A, 1, B, 2, C, 3), OK)
            same(client.raw("MGET", A, B, C), array(bulk(1), bulk(2), bulk(3)))
        got = processes.run(
            ["redis-cli", "-c", "-p", str(dev.port + 1)],
            stdin="GET %s\nGET %s\nGET %s\n" % (A, B, C),
        )
        same(
            [line for line in got.stdout.splitlines() if not line.startswith("->")], ["1", "2", "3"]
        )
        said = "\n".join(dev.proxy.lines)
        has(
            said,
            "redis-cli -p %d" % dev.port,
            "redis-cli -c -p %d" % (dev.port + 1),
            "slotctl",
            what="what it says",
        )
        dev.proxy.signal(signal.SIGTERM)
        same(dev.proxy.wait_exit(), 0, "the exit status")
        eventually(lambda: not any(map(running, servers)), 5, "the servers are gone")


@test
def dev_takes_another_number_of_servers(binary, folder):
    with Dev(binary, folder, "5", nodes=5) as dev:
        same(len(children_of(dev.proxy.pid)), 5, "the number of servers")
        with Wire(("127.0.0.1", dev.port + 5)) as client:
            same(len({entry[2][1] for entry in client.ask("CLUSTER", "SLOTS")}), 5)
        same(dev.proxy.end(), None, "its end")


@test
def dev_s_servers_die_with_a_killed_proxy(binary, folder):
    with Dev(binary, folder) as dev:
        servers = children_of(dev.proxy.pid)
        dev.proxy.kill()
        eventually(lambda: not any(map(running, servers)), 5, "the servers are gone")


@test
def dev_says_clearly_that_a_port_is_taken(binary, folder):
    port = free_block(4)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        got = processes.run([binary, "--dev", "--port", str(port)])
    same(got.returncode, 2, "the exit status")
    has(got.stdout + got.stderr, str(port), what="the message")
    lacks(got.stdout, "ready", what="the output")
