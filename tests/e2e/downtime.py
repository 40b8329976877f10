"""What clients may see while a node is in trouble, and waiting for its end."""
from harness import resp
from harness.check import error, eventually

UNKNOWN = b"outcome unknown"


def down(raw, shop, place, key):
    """The reply says that the node of `key` is down, with its name and the slot."""
    error(
        raw, "CLUSTERDOWN", shop.name(place), str(resp.slot_of(key)), what="the reply for %s" % key
    )


def of_downtime(reply):
    """Errors that a node's trouble may cause: said at once, or after the request was sent; and a
    node that loads."""
    return reply.startswith((b"-CLUSTERDOWN", b"-LOADING")) or UNKNOWN in reply


def wait_down(client, key, seconds=5):
    eventually(
        lambda: client.raw("GET", key).startswith(b"-CLUSTERDOWN"),
        seconds,
        "the node of %s is seen as down" % key,
    )


def wait_back(client, key, wanted, seconds=2):
    """From now on within `seconds`: the proxy's own promise for a node that is reachable again."""
    eventually(
        lambda: client.raw("GET", key) == wanted,
        seconds,
        lambda: "GET %s is %r again (last: %r)" % (key, wanted, client.raw("GET", key)),
    )
