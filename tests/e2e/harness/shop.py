"""Shop: three stock redis-servers with a slotproxy in front of them, and the clients of a test.

The same specifications run against the real thing: StockShop puts one stock redis-server in the
place of the forward
port and a real three-node Redis Cluster in the place of the endpoints.
"""
import copy
import json
import os
import shutil
import tempfile

from . import processes, resp
from .check import Failure, Skip, eventually, same
from .proxy import Proxy, find_slotctl, yaml
from .relay import Relay
from .servers import RedisCluster, RedisServer
from .tap import Tap
from .wire import Wire

NAMES = ("inv-bcn", "inv-vlc", "inv-gir")
RANGES = RedisCluster.RANGES
PRIVATE = "__slotproxy:"
HOST = "127.0.0.1"


def node_of(key):
    """The place of the node that owns the key's slot, in the usual layout of three."""
    return node_of_slot(resp.slot_of(key))


def node_of_slot(slot):
    return next(i for i, (first, last) in enumerate(RANGES) if first <= slot <= last)


def key_on(node, prefix="k", skip=0):
    """A key that the node of that place owns."""
    keys = (prefix + str(i) for i in range(100000))
    return next(key for n, key in enumerate(k for k in keys if node_of(k) == node) if n == skip)


def keys_on(node, count, prefix="k"):
    found, i = [], 0
    while len(found) < count:
        if node_of(prefix + str(i)) == node:
            found.append(prefix + str(i))
        i += 1
    return found


def as_json(got):
    """What a slotctl that ended well has printed."""
    same(got.returncode, 0, "slotctl's exit status: " + got.stdout + got.stderr)
    return json.loads(got.stdout)


def merge(base, over):
    for key, val in over.items():
        if isinstance(val, dict) and isinstance(base.get(key), dict):
            merge(base[key], val)
        elif val is None:
            base.pop(key, None)
        else:
            base[key] = val
    return base


class Shop:
    def __init__(
        self,
        binary,
        config=None,
        node_args=(),
        relays=(),
        taps=(),
        start=True,
        workers=2,
        endpoints=True,
        nodes=None,
        env=None,
        edit=None,
    ):
        """`config` is merged over the usual file (None deletes a key); `relays`: places of nodes
        that get a Relay in
        between, `taps`: a Tap; `nodes`: RedisServers to use instead of three new ones; `edit` changes
        the finished dict.
        """
        self.binary, self.env = binary, env
        self.folder = tempfile.mkdtemp(prefix="e2e-shop-")
        self.own_nodes = nodes is None
        self.nodes = nodes or [RedisServer(*node_args) for _ in NAMES]
        self.relays = {place: Relay(self.nodes[place].address) for place in relays}
        self.relays.update((place, Tap(self.nodes[place].address)) for place in taps)
        self.proxy = None
        self.proxies = []
        self.config_path = os.path.join(self.folder, "shop.yaml")
        self.admin = os.path.join(self.folder, "admin", "admin.sock")
        self.forward_port = processes.free_port()
        self.endpoint_ports = [processes.free_port() for _ in self.nodes] if endpoints else []
        self.config = merge(self._usual_config(workers), copy.deepcopy(config or {}))
        if edit:
            edit(self.config)
        self.write_config()
        if start:
            self.start()

    def _usual_config(self, workers):
        nodes = []
        for place, node in enumerate(self.nodes):
            address = self.relays[place].address if place in self.relays else node.address
            entry = {
                "name": NAMES[place] if place < len(NAMES) else "inv-%d" % place,
                "address": "%s:%d" % address,
            }
            if self.endpoint_ports:
                entry["endpoint"] = "%s:%d" % (HOST, self.endpoint_ports[place])
            if len(self.nodes) == len(RANGES):
                entry["slots"] = "%d-%d" % RANGES[place]
            nodes.append(entry)
        return {
            "cluster": "shop",
            "listen": {"forward": "%s:%d" % (HOST, self.forward_port), "admin": self.admin},
            "workers": workers,
            "state_dir": os.path.join(self.folder, "state"),
            "nodes": nodes,
            "timeouts": {"connect": "500ms", "node_silent": "700ms", "drain": "3s"},
        }

    def write_config(self):
        with open(self.config_path, "w") as file:
            file.write(yaml(self.config))

    def start(self, *args, wait_nodes=True):
        """Starts the proxy and waits until it is ready and, unless told otherwise, until every slot
        is served."""
        self.proxy = Proxy(
            self.binary,
            "--config",
            self.config_path,
            *args,
            env=self.env,
            log_path=os.path.join(self.folder, "proxy.log")
        )
        self.proxies.append(self.proxy)
        self.proxy.wait_ready()
        if wait_nodes:
            self.wait_served()
        return self

    def wait_served(self, seconds=10):
        with self.client("readiness") as wire:
            for place in range(min(len(self.nodes), len(RANGES))):
                key = key_on(place) if len(self.nodes) == len(RANGES) else "k%d" % place
                eventually(
                    lambda: not wire.raw("EXISTS", key).startswith(b"-"),
                    seconds,
                    lambda: "node %d is served (%s)" % (place, wire.raw("EXISTS", key)),
                )

    @property
    def forward(self):
        return (HOST, self.forward_port)

    def endpoint(self, place):
        return (HOST, self.endpoint_ports[place])

    def client(self, name="client", **more):
        """A plain client at the forward port."""
        return Wire(self.forward, name, **more)

    def at(self, place, name=None, **more):
        """A client at the endpoint of the node of that place."""
        return Wire(self.endpoint(place), name or "client at node %d" % place, **more)

    def node(self, place):
        """The redis-server itself."""
        return self.nodes[place]

    def name(self, place):
        return NAMES[place]

    def slotctl(self, *args, timeout=20, admin=True, env=None):
        program = find_slotctl(self.binary)
        if not os.path.exists(program):
            raise Failure("there is no slotctl beside %s" % self.binary)
        return processes.run(
            [program, *args, *(["--admin", self.admin] if admin else [])], timeout=timeout, env=env
        )

    def empty(self):
        """Between two tests: no keys, no scripts. Past the proxy, so that it owes nothing to what
        is tested."""
        for node in self.nodes:
            node.empty(PRIVATE)

    def end(self):
        wrong = []
        for proxy in self.proxies:
            problem = proxy.end()
            if problem:
                wrong.append(problem)
        for relay in self.relays.values():
            relay.end()
        if self.own_nodes:
            for node in self.nodes:
                node.end()
        if not os.environ.get("E2E_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)
        return "\n".join(wrong) or None


class StockShop:
    """The judge: real servers where the proxy's ports would be. What only a proxy has is
    skipped."""

    proxy = None

    def __init__(self):
        self.standalone = RedisServer()
        self.cluster = RedisCluster()

    @property
    def forward(self):
        return self.standalone.address

    def endpoint(self, place):
        return self.cluster.nodes[place].address

    def client(self, name="client", **more):
        return Wire(self.forward, name, **more)

    def at(self, place, name=None, **more):
        return Wire(self.endpoint(place), name or "client at node %d" % place, **more)

    def node(self, place):
        raise Skip("needs the proxy's own nodes")

    def __getattr__(self, name):
        raise Skip("only a proxy has %r" % name)

    def empty(self):
        self.standalone.empty()
        for node in self.cluster.nodes:
            with node.client() as wire:
                wire.raw("FLUSHALL")
                wire.raw("SCRIPT", "FLUSH")
                wire.raw("FUNCTION", "FLUSH")

    def end(self):
        self.standalone.end()
        self.cluster.end()
