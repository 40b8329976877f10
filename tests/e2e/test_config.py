"""Configuration: mistakes and their messages, passwords and addresses of every kind."""
import os
import re

from harness import processes
from harness.check import check, eventually, has, lacks, same
from harness.proxy import find_slotctl
from harness.resp import bulk
from harness.servers import RedisServer
from harness.shop import RANGES
from harness.tests import test
from harness.wire import Wire

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
A, B, C = "bar", "c", "foo"

GOOD = """\
cluster: shop
listen:
  forward: 127.0.0.1:6400
  admin: /tmp/slotproxy-e2e/admin.sock
state_dir: /tmp/slotproxy-e2e/state
nodes:
  - name: inv-bcn
    address: 127.0.0.1:7001
    endpoint: 127.0.0.1:6401
    slots: 0-8191
  - name: inv-vlc
    address: 127.0.0.1:7002
    endpoint: 127.0.0.1:6402
    slots: 8192-16383
"""

# A change of GOOD (old, new), the line and column of the mistake (None: any), words that its
# message must have.
MISTAKES = (
    ("    slots: 0-8191", "    slots: 0-8192", 14, ("slots", "8192", "inv-bcn")),
    ("slots: 8192-16383", "slots: 8193-16383", None, ("8192",)),
    ("slots: 8192-16383", "slots: 8192-16384", 14, ("16384", "16383")),
    ("slots: 8192-16383", "slots: 8192-16000", None, ("16001",)),
    ("slots: 8192-16383", "slots: 16383-8192", 14, ("16383-8192",)),
    ("slots: 8192-16383", "slots: abc", 14, ("abc",)),
    ("    slots: 0-8191", "    wieght: 2\n    slots: 0-8191", 10, ("wieght", "weight")),
    ("cluster: shop", "cluster: shop\nclusters: x", 2, ("clusters",)),
    ("name: inv-vlc", "name: inv-bcn", 11, ("inv-bcn",)),
    ("address: 127.0.0.1:7002", "address: 127.0.0.1:7001", 12, ("127.0.0.1:7001",)),
    ("endpoint: 127.0.0.1:6402", "endpoint: 127.0.0.1:6401", 13, ("6401",)),
    ("endpoint: 127.0.0.1:6402", "endpoint: 127.0.0.1:6400", 13, ("6400",)),
    ("    endpoint: 127.0.0.1:6402\n", "", None, ("endpoint",)),
    ("endpoint: 127.0.0.1:6402", "endpoint: 0.0.0.0:6402", 13, ("announce",)),
    ("address: 127.0.0.1:7002", "address: 127.0.0.1", 12, ("127.0.0.1",)),
    ("address: 127.0.0.1:7002", "address: 127.0.0.1:99999", 12, ("99999",)),
    ("address: 127.0.0.1:7002", "address: 127.0.0.1:port", 12, ("port",)),
    ("    address: 127.0.0.1:7002\n", "", None, ("address",)),
    ("  - name: inv-vlc\n", "  - weight: 1\n", None, ("name",)),
    ("    slots: 0-8191", "    weight: -1\n    slots: 0-8191", 10, ("weight",)),
    ("    slots: 0-8191", "    weight: heavy\n    slots: 0-8191", 10, ("weight", "heavy")),
    ("cluster: shop", "cluster: shop\ntimeouts: {connect: 1x}", 2, ("1x",)),
    ("cluster: shop", "cluster: shop\ntimeouts: {connect: 5}", 2, ("connect",)),
    ("cluster: shop", "cluster: shop\nlimits: {merged_reply: 64XB}", 2, ("64XB",)),
    ("cluster: shop", "cluster: shop\nlimits: {nosuch: 1MB}", 2, ("nosuch",)),
    ("cluster: shop", "cluster: shop\nworkers: many", 2, ("workers",)),
    ("cluster: shop", "cluster: shop\nworkers: 0", 2, ("workers",)),
    ("cluster: shop", "cluster: shop\nplacement: random", 2, ("placement", "balanced")),
    ("cluster: shop", "cluster: shop\nlisten: {forward: 127.0.0.1:1}", None, ("listen",)),
    ("cluster: shop", "cluster: [shop]", 1, ("cluster",)),
    ("listen:", "listen: here", None, ()),
    ("  admin:", "\tadmin:", 4, ("tab",)),
    ("  admin: /tmp/slotproxy-e2e/admin.sock", "  admin: 127.0.0.1:6500", 4, ("admin_password",)),
    ("nodes:", "nodes: []\nothers:", None, ("nodes",)),
)


def checked(binary, text, folder, name="shop.yaml"):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path, processes.run([binary, "--check", path])


@test
def a_good_file_passes_the_check_and_nothing_is_started(binary, folder):
    path, got = checked(binary, GOOD, folder)
    same(got.returncode, 0, "the exit status: " + got.stdout + got.stderr)
    check(not os.path.exists("/tmp/slotproxy-e2e"), "the check created something")
    _, got = checked(
        binary,
        GOOD.replace("    slots: 0-8191\n", "").replace("    slots: 8192-16383\n", ""),
        folder,
    )
    same(got.returncode, 0, "no node lists slots: " + got.stdout + got.stderr)
    _, got = checked(
        binary, GOOD.replace("slots: 0-8191", "slots: [0-8000, 8001, 8002-8191]"), folder
    )
    same(got.returncode, 0, "a list of ranges: " + got.stdout + got.stderr)


@test
def the_sample_file_passes_the_check(binary, folder):
    sample = os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "..", "..", "conf", "slotproxy.yaml"
    )
    got = processes.run([binary, "--check", sample])
    same(got.returncode, 0, "the exit status: " + got.stdout + got.stderr)


@test
def every_mistake_is_told_with_its_place_and_what_would_be_right(binary, folder):
    wrong = []
    for old, new, line, words in MISTAKES:
        path, got = checked(binary, GOOD.replace(old, new), folder)
        said = got.stdout + got.stderr
        if got.returncode != 2:
            wrong.append("%r: exit status %s, wanted 2; it said %r" % (new, got.returncode, said))
            continue
        places = re.findall(r"shop\.yaml:(\d+):(\d+): ", said)
        if not places or (line and str(line) not in [place[0] for place in places]):
            wrong.append("%r: no message for line %s in %r" % (new, line or "(any)", said))
        wrong += [
            "%r: the message lacks %r: %r" % (new, word, said) for word in words if word not in said
        ]
    check(
        not wrong,
        "%d of %d mistakes:\n     %s" % (len(wrong), len(MISTAKES), "\n     ".join(wrong)),
    )


@test
def several_mistakes_are_told_together(binary, folder):
    text = GOOD.replace("slots: 8192-16383", "slots: 8000-16383").replace(
        "cluster: shop", "cluster: shop\nnosuch: 1"
    )
    path, got = checked(
        binary, text.replace("address: 127.0.0.1:7002", "address: 127.0.0.1:99999"), folder
    )
    same(got.returncode, 2, "the exit status")
    said = got.stdout + got.stderr
    has(said, "nosuch", "8000", "99999", what="the messages")


@test
def files_that_are_no_configuration_are_refused(binary, folder):
    for text in (
        "",
        "\n\n",
        "# only a comment\n",
        "just text\n",
        "- a\n- list\n",
        "a: [1, 2\n",
        "a: b: c\n",
        "\x00\x01\x02",
        "---\n",
        "cluster: shop\ncluster: shop\n",
        "{}\n",
    ):
        _, got = checked(binary, text, folder)
        same(
            got.returncode,
            2,
            "the exit status for %r, which said %r" % (text, got.stdout + got.stderr),
        )
        has(got.stdout + got.stderr, "shop.yaml", what="the message for %r" % text)
    got = processes.run([binary, "--check", folder + "/nosuch.yaml"])
    same(got.returncode, 2, "the exit status for a missing file")
    has(got.stdout + got.stderr, "nosuch.yaml", what="the message")
    got = processes.run([binary, "--check", folder])
    same(got.returncode, 2, "the exit status for a folder")


@test
def slotctl_checks_the_same_way(binary, folder):
    path, _ = checked(binary, GOOD, folder)
    same(
        processes.run([find_slotctl(binary), "config", "check", path]).returncode, 0, "a good file"
    )
    path, ours = checked(binary, GOOD.replace("slots: 8192-16383", "slots: 8000-16383"), folder)
    got = processes.run([find_slotctl(binary), "config", "check", path])
    same(got.returncode, 2, "the exit status for an overlap")
    has(got.stdout + got.stderr, "8000", "shop.yaml:14:", what="the message")


@test
def a_start_with_a_mistake_ends_with_2_and_starts_nothing(binary, folder):
    path, _ = checked(binary, GOOD.replace("slots: 8192-16383", "slots: 8000-16383"), folder)
    got = processes.run([binary, "--config", path])
    same(got.returncode, 2, "the exit status")
    has(got.stdout + got.stderr, "8000", "shop.yaml:14:", what="the message")


@test
def passwords_come_from_files_too(fresh):
    shop = fresh(start=False, node_args=("--requirepass", "node-secret"))
    for name, text in (("client.password", "client-secret\n"), ("node.password", "node-secret\n")):
        with open(os.path.join(shop.folder, name), "w") as file:
            file.write(text)
    shop.config["listen"]["password_file"] = os.path.join(shop.folder, "client.password")
    for node in shop.config["nodes"]:
        node["password_file"] = os.path.join(shop.folder, "node.password")
    shop.write_config()
    shop.start(wait_nodes=False)
    client = shop.client()
    same(client.raw("AUTH", "client-secret"), OK)
    eventually(lambda: client.raw("MSET", A, 1, B, 2, C, 3) == OK, 5, "the nodes are logged in to")
    lacks(shop.proxy.log(), "node-secret", "client-secret", what="the log")
    same(shop.client().raw("GET", A), b"-NOAUTH Authentication required.\r\n")


@test
def an_acl_user_of_a_node_is_used(fresh):
    nodes = [
        RedisServer(*"--user proxy on >secret ~* &* +@all --user default off".split())
        for _ in RANGES
    ]

    def users(config):
        for node in config["nodes"]:
            node.update(username="proxy", password="secret")

    try:
        shop = fresh(nodes=nodes, edit=users)
        same(shop.client().raw("MSET", A, 1, B, 2, C, 3), OK)
    finally:
        for node in nodes:
            node.end()


@test
def several_forward_addresses_and_a_unix_socket_are_served(fresh):
    shop = fresh(start=False)
    ports = [processes.free_port() for _ in range(2)]
    path = os.path.join(shop.folder, "forward.sock")
    shop.config["listen"]["forward"] = [
        "127.0.0.1:%d" % shop.forward_port,
        "127.0.0.1:%d" % ports[0],
        "[::1]:%d" % ports[1],
        path,
    ]
    shop.write_config()
    shop.start()
    for n, address in enumerate((("127.0.0.1", ports[0]), ("::1", ports[1]), path)):
        clients = [Wire(address, "client at %s" % (address,)) for _ in range(8)]
        for client in clients:
            same(client.raw("SET", A, n), OK)
            same(client.raw("MGET", A, C), b"*2\r\n" + bulk(n) + NULL)


@test
def nodes_behind_unix_sockets_are_served(fresh):
    nodes = [RedisServer("--unixsocket", "node.sock") for _ in RANGES]

    def sockets(config):
        for entry, node in zip(config["nodes"], nodes):
            entry["address"] = os.path.join(node.folder, "node.sock")

    try:
        shop = fresh(nodes=nodes, edit=sockets)
        same(shop.client().raw("MSET", A, 1, B, 2, C, 3), OK)
        same(nodes[2].ask("GET", C), b"3")
    finally:
        for node in nodes:
            node.end()
