"""Include directions: which folder may include which. The folders are the architecture; this keeps the arrows."""
import re

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
FOLDERS = ("slots", "conf", "proxy", "admin", "tests")

# (who, must not include, but for, why)
RULES = (
    ("slots/", ("conf/", "proxy/", "admin/", "tests/"), (), "slots/ is the pure domain: it includes nothing else here"),
    ("conf/", ("proxy/", "admin/", "tests/"), (), "conf/ includes slots/ alone"),
    ("proxy/", ("admin/", "tests/"), ("admin/api.h", "admin/heat_api.h", "admin/plan_api.h"),
     "the daemon shares the reports of admin/*_api.h with slotctl and nothing more"),
    ("admin/", ("proxy/", "tests/"), (), "slotctl knows the daemon by its admin port alone"),
    ("proxy/session/", ("proxy/control/",), (), "data plane and control plane meet in proxy.h and worker.h alone"),
    ("proxy/control/", ("proxy/session/",), (), "data plane and control plane meet in proxy.h and worker.h alone"),
    ("proxy/resp/", ("proxy/net/", "proxy/route/", "proxy/backend/", "proxy/session/", "proxy/control/"), (),
     "proxy/resp/ is pure"),
    ("proxy/acl/", ("proxy/net/", "proxy/route/", "proxy/backend/", "proxy/pubsub/", "proxy/session/", "proxy/control/"),
     ("proxy/pubsub/glob.h",), "proxy/acl/ is pure"),
    ("proxy/route/", ("proxy/net/", "proxy/backend/", "proxy/session/", "proxy/control/"), (), "proxy/route/ is pure"),
    ("proxy/net/", ("proxy/resp/", "proxy/route/", "proxy/pubsub/", "proxy/backend/", "proxy/session/", "proxy/control/"), (),
     "proxy/net/ knows bytes, not commands"),
    ("proxy/backend/", ("proxy/pubsub/", "proxy/session/", "proxy/control/"), (), "a backend connection does not know who waits"),
    ("proxy/pubsub/", ("proxy/route/", "proxy/backend/", "proxy/session/", "proxy/control/", "proxy/mover/"), (),
     "the hub knows nodes and topics; sessions come to it"),
    ("proxy/tracking/", ("proxy/route/", "proxy/backend/", "proxy/session/", "proxy/control/", "proxy/mover/"), (),
     "feeds know nodes and keys; sessions come to them"),
    ("proxy/mover/", ("proxy/route/", "proxy/backend/", "proxy/session/", "proxy/control/"), (),
     "the mover knows nodes and its MoveHost alone"),
)


def check(texts):
    """Complaints about `texts`, a dict of file name to content."""
    complaints = []
    for name, text in sorted(texts.items()):
        for match in INCLUDE.finditer(text):
            included = match.group(1)
            place = "%s:%d" % (name, text.count("\n", 0, match.start(1)) + 1)
            if not included.startswith(tuple(folder + "/" for folder in FOLDERS)):
                complaints.append('%s: "%s" should be named from the top of the tree' % (place, included))
                continue
            for who, forbidden, allowed, why in RULES:
                if name.startswith(who) and included.startswith(forbidden) and included not in allowed:
                    complaints.append('%s: may not include "%s": %s' % (place, included, why))
    return complaints
