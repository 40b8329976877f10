"""Users: who may log in, what for, and what a reload makes of it."""
import hashlib
import os
import re
import signal

from harness import resp
from harness.check import check, error, eventually, has, lacks, same
from harness.resp import bulk
from harness.servers import RedisServer
from harness.shop import key_on
from harness.tests import test
from harness.wire import timed

ID = re.compile(rb"(?<=\$2\r\nid\r\n):\d+")  # In HELLO's answer.
OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
NOAUTH = b"-NOAUTH Authentication required.\r\n"


def hash_of(password):
    return hashlib.sha256(password.encode()).hexdigest()


def user(name, rules, password="pw", **more):
    return dict({"name": name, "passwords": [hash_of(password)], "rules": rules}, **more)


APP = (
    "+@read +set -mget +config|get +multi +exec +discard +publish +subscribe +psubscribe +eval "
    "+watch %R~{a}r* %W~{a}w* ~{a}x* &c*"
)
WIDE = "+@all -@dangerous +info ~* &*"
PARTS = "+@all -@admin -flushall +acl|whoami ~{a}k (+@read %R~{a}other) (+set ~{a}set)"
USERS = {"app": APP, "wide": WIDE, "parts": PARTS}

# Lines of one connection each; a tuple alone is a command.
CONVERSATIONS = (
    [
        ("AUTH", "app", "bad"),
        ("AUTH", "nobody", "pw"),
        ("AUTH", "app", "pw", "more"),
        ("AUTH", "app", "pw"),
        ("ACL", "WHOAMI"),
        ("GET", "{a}r1"),
        ("GET", "{a}w1"),
        ("SET", "{a}r1", "1"),
        ("SET", "{a}w1", "1"),
        ("SET", "{a}w1", "1", "GET"),
        ("SET", "{a}x1", "1", "GET"),
        ("MGET", "{a}x1"),
        ("EXISTS", "{a}w1"),
        ("EXISTS", "{a}x1", "{a}z"),
        ("STRLEN", "{a}w1"),
        ("CONFIG", "SET", "a", "b"),
        ("CONFIG", "nosuch"),
        ("CONFIG",),
        ("CLIENT", "ID"),
        ("EVAL", "return 1", "1", "{a}x1"),
        ("EVAL", "return 1", "1", "{a}r1"),
        ("EVAL", "return 1", "0"),
        ("EVAL", "return 1", "x"),
        ("WATCH", "{a}z"),
        ("PUBLISH", "d", "1"),
        ("PUBLISH", "c", "1"),
        ("PSUBSCRIBE", "c1"),
        ("SUBSCRIBE", "c1", "d"),
        ("nosuch",),
        ("GET",),
        ("QUIT",),
    ],
    [
        ("AUTH", "app", "pw"),
        ("MULTI",),
        ("GET", "{a}r1"),
        ("GET", "{a}zz"),
        ("EXEC",),
        ("MULTI",),
        ("GET", "{a}r1"),
        ("DEL", "{a}x1"),
        ("EXEC",),
        ("MULTI",),
        ("SET", "{a}x1", "2"),
        ("GET", "{a}x1"),
        ("EXEC",),
        ("RESET",),
        ("ACL", "WHOAMI"),
    ],
    [
        ("HELLO", "3", "AUTH", "wide", "bad"),
        ("HELLO", "2", "AUTH", "wide", "pw", "SETNAME", "me"),
        ("ACL", "WHOAMI"),
        ("CLIENT", "GETNAME"),
        ("KEYS", "*"),
        ("FLUSHALL",),
        ("SORT", "{a}k"),
        ("CLIENT", "KILL", "ID", "1"),
        ("ACL", "LIST"),
        ("ACL", "DRYRUN", "wide", "GET", "x"),
    ],
    [
        ("AUTH", "parts", "pw"),
        ("ACL", "WHOAMI"),
        ("ACL", "LIST"),
        ("SET", "{a}k", "1"),
        ("SET", "{a}set", "1"),
        ("GET", "{a}set"),
        ("GET", "{a}other"),
        ("SET", "{a}other", "1"),
        ("COPY", "{a}k", "{a}other"),
        ("COPY", "{a}other", "{a}k"),
        ("SORT", "{a}k", "STORE", "{a}other"),
        ("BLPOP", "{a}nokey", "1"),
        ("XREAD", "BLOCK", "1", "STREAMS", "{a}k2", "0"),
        ("ZUNIONSTORE", "{a}k3", "1", "{a}k"),
        ("GEORADIUS", "{a}k", "1", "1", "1", "km", "STORE", "{a}s"),
        ("SUBSCRIBE", "x"),
        ("SPUBLISH", "x", "1"),
        ("FLUSHALL",),
        ("MULTI",),
        ("ACL", "LIST"),
        ("EXEC",),
    ],
    [
        ("ACL", "WHOAMI"),
        ("ACL", "USERS"),
        ("ACL", "CAT"),
        ("ACL", "CAT", "nosuch"),
        ("ACL", "CAT", "a", "b"),
        ("ACL", "GETUSER", "nobody"),
        ("ACL", "GENPASS", "0"),
        ("ACL", "GENPASS", "4097"),
        ("ACL", "GENPASS", "x"),
        ("ACL", "GENPASS", "1", "2"),
        ("ACL", "LOG", "x"),
        ("ACL", "LOG", "1", "2"),
        ("ACL", "DRYRUN", "nobody", "GET", "x"),
        ("ACL", "DRYRUN", "app", "nosuch", "x"),
        ("ACL", "DRYRUN", "app", "GET"),
        ("ACL", "DRYRUN", "app", "GET", "{a}r1"),
        ("ACL", "DRYRUN", "app", "GET", "x"),
        ("ACL", "DRYRUN", "app", "CONFIG", "SET", "a", "b"),
        ("ACL", "DRYRUN", "app", "CONFIG", "nosuch"),
        ("ACL", "DRYRUN", "app", "PUBLISH", "x", "1"),
        ("ACL", "nosuch"),
        ("AUTH", "x"),
        ("AUTH", "default", "whatever"),
        ("CLIENT", "KILL", "USER", "nobody"),
        ("CLIENT", "KILL", "TYPE", "nosuch"),
    ],
)


@test
def users_are_answered_as_by_one_redis(fresh):
    shop = fresh(config={"users": [user(name, rules) for name, rules in USERS.items()]})
    redis = RedisServer()
    try:
        for name, rules in USERS.items():
            same(redis.ask("ACL", "SETUSER", name, "on", ">pw", *rules_of(rules)), "OK")
        for conversation in CONVERSATIONS:
            with shop.client() as ours, redis.client() as theirs:
                for command in conversation:
                    mine, real = (ID.sub(b"id", client.raw(*command)) for client in (ours, theirs))
                    same(mine, real, " ".join(command))
        with shop.client() as ours, redis.client() as theirs:
            for command in [("ACL", "CAT", name) for name in ("read", "dangerous", "transaction")]:
                added = {b"client|no-touch", b"client|setinfo", b"cluster|myshardid"}
                same(set(ours.ask(*command)) - added, set(theirs.ask(*command)), " ".join(command))
            same(entries(ours), entries(theirs), "ACL LOG")
            same(ours.raw("ACL", "LOG", "RESET"), OK)
            same(ours.raw("ACL", "LOG"), b"*0\r\n")
    finally:
        redis.end()


def rules_of(text):
    """The arguments of ACL SETUSER: what stands in parentheses is one."""
    words, open_at = [], None
    for word in text.split():
        if open_at is None:
            words.append(word)
            open_at = len(words) if word.startswith("(") else None
        else:
            words[-1] += " " + word
        if word.endswith(")"):
            open_at = None
    return words


def entries(client):
    """What ACL LOG says, without times and clients."""
    found = []
    for entry in client.ask("ACL", "LOG", "100"):
        fields = dict(zip(entry[::2], entry[1::2]))
        same(sorted(fields)[0], b"age-seconds")
        check(0 <= float(fields[b"age-seconds"]) < 60, "an age in seconds")
        has(fields[b"client-info"], "id=", "addr=127.0.0.1:", "cmd=", "user=")
        wanted = (b"count", b"reason", b"context", b"object", b"username")
        found.append([fields[key] for key in wanted])
    return found


@test
def a_user_is_held_to_its_rights_on_every_port_and_way(fresh):
    shop = fresh(config={"users": [user("app", "+@all ~{a}* -acl|list")]})
    mine, other = "{a}1", key_on(1)
    denied = (
        b"-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
    )
    for client in (shop.client(), shop.at(0), shop.at(1), shop.at(2)):
        same(client.raw("AUTH", "app", "pw"), OK)
        check(client.raw("SET", mine, "v")[:3] in (b"+OK", b"-MO"), "its own key is served")
        for command in (
            ("SET", other, "v"),
            ("GET", other),
            ("MGET", mine, other),
            ("MSET", mine, "1", other, "2"),
            ("DEL", mine, other),
            ("SET", other, "x" * 100_000),
            ("BLPOP", mine, other, "0"),
            ("WATCH", other),
            ("EVALSHA", "0" * 40, "1", other),
            ("SORT", mine, "STORE", other),
        ):
            same(client.raw(*command), denied, "%s of another key" % command[0])
        same(
            client.raw("ACL", "LIST"),
            b"-NOPERM this user has no permissions to run the 'acl|list' command\r\n",
        )
    client = shop.client()
    same(client.raw("AUTH", "app", "pw"), OK)
    large = "x" * 1_000_000
    same(client.raw("SET", mine, large), OK)
    same(client.raw("GET", mine), bulk(large))
    for subcommand in ("SETUSER", "DELUSER", "LOAD", "SAVE"):
        more = ["x"] if subcommand.endswith("USER") else []
        error(client.raw("ACL", subcommand, *more), "ERR", "slotctl reload")


@test
def passwords_come_from_a_file_too_and_default_may_need_one(fresh):
    def edit(config):
        folder = os.path.dirname(config["state_dir"])
        with open(os.path.join(folder, "app.passwords"), "w") as file:
            file.write("first\n#%s\n\n" % hash_of("second"))

    shop = fresh(
        config={
            "users": [
                {"name": "app", "passwords_file": "app.passwords", "rules": "+@all ~*"},
                user("default", "+get ~*", password="sesame"),
                {"name": "off", "enabled": False, "nopass": True, "rules": "+@all"},
                {"name": "open", "nopass": True, "rules": "+ping"},
            ]
        },
        edit=edit,
        start=False,
    )
    shop.start(wait_nodes=False)
    client = shop.client()
    for command in (("PING",), ("GET", "x"), ("MULTI",), ("ACL", "WHOAMI"), ("CLIENT", "ID")):
        same(client.raw(*command), NOAUTH, command[0])
    error(client.raw("HELLO", "3"), "NOAUTH HELLO must be called")
    same(client.raw("AUTH", "first"), WRONGPASS)
    same(client.raw("AUTH", "app", "third"), WRONGPASS)
    same(client.raw("AUTH", "off", "any"), WRONGPASS)
    same(client.raw("AUTH", "sesame"), OK)
    eventually(lambda: client.raw("GET", "x") == NULL, 10, "the node is served")
    error(client.raw("SET", "x", "1"), "NOPERM")
    for password in ("first", "second"):
        same(client.raw("AUTH", "app", password), OK)
        same(client.raw("SET", "x", "1"), OK)
        same(client.raw("AUTH", "default", "sesame"), OK)
        error(client.raw("SET", "x", "1"), "NOPERM")
    same(client.raw("AUTH", "open", "any"), OK)
    same(client.raw("PING"), PONG)
    same(client.raw("RESET"), b"+RESET\r\n")
    same(client.raw("PING"), NOAUTH)
    has(client.ask("HELLO", "3", "AUTH", "open", "") or {}, b"proto")


@test
def a_reload_changes_users_and_drops_only_whose_login_is_void(fresh):
    shop = fresh(
        config={"users": [user(name, "+@all ~*") for name in ("app", "eva", "ana")]},
    )
    clients = {}
    for name in ("app", "eva", "ana"):
        clients[name] = shop.client(name)
        same(clients[name].raw("AUTH", name, "pw"), OK)
    plain = shop.client("nobody in particular")
    same(plain.raw("SET", "x", "1"), OK)
    same(clients["app"].raw("MULTI"), OK)
    same(clients["app"].raw("SET", "x", "2"), b"+QUEUED\r\n")
    shop.config["users"] = [
        dict(user("app", "+@read +exec ~*"), passwords=[hash_of("pw"), hash_of("new")]),
        user("eva", "+@all ~*", password="another"),
    ]
    shop.write_config()
    got = shop.slotctl("reload")
    same(got.returncode, 0, "slotctl reload: " + got.stdout + got.stderr)
    has(got.stdout, "users changed")
    export = shop.slotctl("config", "export").stdout
    has(export, "users:", "name: app", "+@read +exec ~*")
    lacks(export, hash_of("new"))
    error(clients["app"].raw("EXEC")[4:], "NOPERM ACLs rules changed")
    same(clients["app"].raw("GET", "x"), bulk("1"))
    error(clients["app"].raw("SET", "x", "3"), "NOPERM")
    for name in ("eva", "ana"):
        same(clients[name].read_until_closed(), b"", "what %s reads" % name)
    same(plain.raw("GET", "x"), bulk("1"))
    with shop.client() as late:
        same(late.raw("AUTH", "app", "new"), OK)
        same(late.raw("AUTH", "ana", "pw"), WRONGPASS)
    shop.config["users"][0]["enabled"] = False
    shop.write_config()
    shop.proxy.signal(signal.SIGHUP)
    same(clients["app"].read_until_closed(), b"", "what a user reads who is switched off")


@test
def a_mistake_in_the_rules_is_named_with_file_line_and_value(fresh):
    shop = fresh(config={"users": [user("app", "+@all ~*")]})
    shop.config["users"] = [user("app", "+@raed +get ~*")]
    shop.write_config()
    got = shop.slotctl("reload")
    check(got.returncode != 0, "slotctl reload ended with 0")
    has(got.stdout + got.stderr, "shop.yaml:", "users[0].rules", '"+@raed"', "did you mean +@read?")
    with shop.client() as client:
        same(client.raw("AUTH", "app", "pw"), OK)


@test
def failed_logins_are_logged_and_slowed_down_and_nobody_is_locked_out(fresh):
    shop = fresh(config={"users": [user("app", "+@all ~*")]})
    guessers = [shop.client("guesser %d" % n) for n in range(18)]
    for n, guesser in enumerate(guessers):
        guesser.send(resp.request("AUTH", "app", "guess %d" % n))
    same({guesser.read() for guesser in guessers}, {WRONGPASS})
    other = shop.client("who knows the password")
    reply, seconds = timed(lambda: other.raw("AUTH", "app", "pw"))
    same(reply, OK)
    check(0.5 < seconds < 4, "a login is looked at after a second, it was %.2f s" % seconds)
    reply, seconds = timed(lambda: shop.client().raw("GET", "x"))
    check(seconds < 0.5, "who does not log in does not wait")
    lines = [line for line in shop.proxy.log().splitlines() if "login failed" in line]
    check(1 <= len(lines) <= 15, "few lines for 18 failures, there are %d" % len(lines))
    has(lines[0], 'user "app"', "127.0.0.1:")
    lacks("\n".join(lines), "guess")
    same(len(other.ask("ACL", "LOG")), 1, "alike failures are one entry")


@test
def a_user_has_only_so_many_connections(fresh):
    shop = fresh(config={"users": [user("app", "+@all ~*", connections=3)]})
    clients = [shop.client() for _ in range(4)]
    for client in clients[:3]:
        same(client.raw("AUTH", "app", "pw"), OK)
    refused = "ERR max number of connections of user 'app' reached"
    error(clients[3].raw("AUTH", "app", "pw"), refused)
    same(clients[3].raw("SET", "x", "1"), OK)
    clients[0].close()
    eventually(lambda: clients[3].raw("AUTH", "app", "pw") == OK, 5, "there is room again")


@test
def clients_are_listed_and_ended_by_user(fresh):
    shop = fresh(config={"users": [user("app", "+@all ~*")]})
    app, plain = shop.client(), shop.client()
    same(app.raw("AUTH", "app", "pw"), OK)
    lines = plain.ask("CLIENT", "LIST").decode().splitlines()
    same(sorted("user=app " in line for line in lines), [False, True])
    same(plain.raw("CLIENT", "KILL", "USER", "app"), b":1\r\n")
    same(app.read_until_closed(), b"", "what who was ended reads")
    error(plain.raw("CLIENT", "KILL", "USER", "nobody"), "ERR No such user 'nobody'")


@test
def reset_returns_a_session_to_its_first_state(fresh):
    shop = fresh(config={"users": [user("app", "+@all ~* &*")]})
    client = shop.client()
    client.ask("HELLO", "3", "AUTH", "app", "pw", "SETNAME", "me")
    same(client.raw("WATCH", "x"), OK)
    client.raw("SUBSCRIBE", "news")
    same(client.raw("MULTI"), OK)
    same(client.raw("SET", "x", "1"), b"+QUEUED\r\n")
    client.send(resp.request("RESET"))
    same(client.read(), b"+RESET\r\n")
    same(client.raw("GET", "x"), NULL)  # RESP2 again, and what was queued is forgotten.
    same(client.raw("ACL", "WHOAMI"), bulk("default"))
    same(client.raw("CLIENT", "GETNAME"), NULL)
    error(client.raw("EXEC"), "ERR EXEC without MULTI")
    line = client.ask("CLIENT", "INFO").decode()
    has(line, "sub=0", "multi=-1", "resp=2", "user=default", "name= ")
    with shop.client() as other:
        same(other.raw("PUBLISH", "news", "x"), b":0\r\n")
    client.send(resp.request("CLIENT", "REPLY", "OFF"))
    client.send(resp.request("RESET") + resp.request("PING"))
    same(client.read(), b"+RESET\r\n")
    same(client.read(), PONG)


@test
def commands_are_refused_and_allowed_as_the_operator_says(fresh):
    shop = fresh(
        config={
            "refused_commands": ["keys", "append", "config|set"],
            "allowed_commands": ["lastsave"],
            "allow_config": True,
        }
    )
    for client in (shop.client(), shop.at(0)):
        for command in (("KEYS", "*"), ("APPEND", "x", "1"), ("CONFIG", "SET", "timeout", "0")):
            error(client.raw(*command), "ERR", "refused_commands", what=command[0])
        has(client.ask("CONFIG", "GET", "maxmemory"), b"maxmemory")
        same(client.raw("MULTI"), OK)
        error(client.raw("APPEND", "x", "1"), "ERR", "refused_commands")
        error(client.raw("EXEC"), "EXECABORT")
        for command in (("SHUTDOWN",), ("SAVE",), ("REPLICAOF", "NO", "ONE"), ("BGSAVE",)):
            error(client.raw(*command), "ERR", "is not supported", what=command[0])
    error(shop.client().raw("LASTSAVE"), "ERR", "acts on one server")
    check(shop.at(1).raw("LASTSAVE").startswith(b":"), "LASTSAVE of the endpoint's node")
    shop.config["refused_commands"] = []
    shop.config["allowed_commands"] = ["monitor"]
    shop.write_config()
    got = shop.slotctl("reload")
    check(got.returncode != 0, "slotctl reload ended with 0")
    has(got.stdout + got.stderr, '"monitor" can\'t be allowed')
    shop.config["allowed_commands"] = []
    shop.write_config()
    same(shop.slotctl("reload").returncode, 0, "slotctl's exit status")
    same(shop.client().raw("APPEND", "x", "1"), b":1\r\n")
    error(shop.at(1).raw("LASTSAVE"), "ERR", "acts on one server")


@test
def config_resetstat_begins_the_proxys_counts_anew(fresh):
    shop = fresh(config={"allow_config": True})
    client = shop.client()

    def field(name):
        text = client.ask("INFO", "stats").decode()
        fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        return int(fields[name])

    client.pipeline(*[("PING",)] * 200)
    check(field("total_commands_processed") >= 200, "commands were counted")
    same(client.raw("CONFIG", "RESETSTAT"), OK)
    check(field("total_commands_processed") < 20, "the count has begun anew")
    check(field("total_connections_received") < 5, "so has that of connections")
