"""Numbered databases: a client's is its own, whoever shares connections with it, and all of them move."""
import random
import threading
import time

from harness import plans, resp
from harness.check import check, error, eventually, has, lacks, same
from harness.resp import array, bulk
from harness.shop import key_on, keys_on
from harness.tests import test

OK, QUEUED, NULL = b"+OK\r\n", b"+QUEUED\r\n", b"$-1\r\n"
A, B, C = key_on(0), key_on(1), key_on(2)
RANGE = b"-ERR DB index is out of range\r\n"
USED = (0, 2, 9)
MOVED = "0-2047"
QUICK = {"rebalance": {"grace": "300ms"}}


def in_database(where, number, name="client"):
    client = where.client(name)
    same(client.raw("SELECT", number), OK)
    return client


def fields(client, *ask):
    text = client.ask(*ask).decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


@test(stock=True)
def select_answers_as_one_redis(shop):
    client = shop.client()
    same(client.raw("SELECT", 15), OK)
    for number in (16, 99, -1, 2147483647):
        same(client.raw("SELECT", number), RANGE, "the reply to SELECT %s" % number)
    same(client.raw("SELECT", "x"), b"-ERR value is not an integer or out of range\r\n")
    error(client.raw("SELECT"), "ERR wrong number of arguments")
    same(client.raw("SELECT", 0), OK)
    same(client.ask("CONFIG", "GET", "databases"), [b"databases", b"16"])


@test
def clients_of_different_databases_never_see_each_other_s_keys(shop):
    numbers = (0, 1, 2, 15)
    clients = [in_database(shop, number, "client of %d" % number) for number in numbers]
    clients.append(shop.client("client of 1, RESP3").hello3())
    same(clients[-1].raw("SELECT", 1), OK)
    for turn in range(40):
        for number, client in zip(numbers, clients):
            mine = ["%d.%d.%s" % (number, turn, key) for key in (A, B, C)]
            client.send(
                b"".join(
                    (
                        resp.request("MSET", A, mine[0], B, mine[1], C, mine[2]),
                        resp.request("GET", A),
                        resp.request("MGET", A, B, C),
                        resp.request("DEL", B, "nosuch"),
                        resp.request("GET", B),
                    )
                )
            )
        for number, client in zip(numbers, clients):
            mine = [bulk("%d.%d.%s" % (number, turn, key)) for key in (A, B, C)]
            same(client.read_many(5), [OK, mine[0], array(*mine), b":1\r\n", NULL])
        same(clients[-1].raw("GET", A), bulk("1.%d.%s" % (turn, A)), "in RESP3")


@test
def a_client_that_selects_in_its_pipeline_keeps_the_order(shop):
    client = shop.client()
    commands, wanted = [], []
    for turn in range(60):
        number = turn % 4
        commands += [("SELECT", number), ("SET", A, turn), ("SELECT", (number + 1) % 4), ("GET", A)]
        wanted += [OK, OK, OK, bulk(turn - 3) if turn >= 3 else NULL]
    same(client.pipeline(*commands), wanted)
    same(client.pipeline(("SELECT", 3), ("SET", A, "x" * 300000), ("STRLEN", A), ("SELECT", 0), ("STRLEN", A)),
         [OK, OK, b":300000\r\n", OK, b":2\r\n"], "with a large value")


@test
def commands_about_all_keys_mean_the_session_s_database(shop):
    zero, five = shop.client(), in_database(shop, 5)
    zero.pipeline(*[("SET", key, 0) for key in (A, B)])
    names = [key for node in range(3) for key in keys_on(node, 7, "five")]
    five.pipeline(*[("SET", key, 5) for key in names])
    same(five.ask("DBSIZE"), 21)
    same(zero.ask("DBSIZE"), 2)
    same(sorted(five.ask("KEYS", "*")), sorted(name.encode() for name in names))
    check(five.ask("RANDOMKEY").startswith(b"five"), "RANDOMKEY shows a key of database 5")
    seen, cursor = [], b"0"
    while True:
        cursor, page = five.ask("SCAN", cursor, "COUNT", 5)
        seen += page
        if cursor == b"0":
            break
    same(sorted(seen), sorted(name.encode() for name in names), "what SCAN shows")
    same(sorted(zero.ask("KEYS", "*")), sorted(key.encode() for key in (A, B)))
    keyspace = fields(zero, "INFO", "keyspace")
    has(keyspace["db0"], "keys=2,")
    has(keyspace["db5"], "keys=21,")
    same(zero.raw("FLUSHDB"), OK)
    same((zero.ask("DBSIZE"), five.ask("DBSIZE")), (0, 21), "after FLUSHDB in database 0")
    zero.ask("SET", A, 1)
    same(five.pipeline(("SET", B, 1), ("FLUSHDB",), ("DBSIZE",)), [OK, OK, b":0\r\n"])
    same(zero.ask("DBSIZE"), 1, "after FLUSHDB in database 5")
    same(five.pipeline(("SET", B, 1), ("FLUSHALL",), ("DBSIZE",), ("SET", C, 2), ("GET", C)),
         [OK, OK, b":0\r\n", OK, bulk(2)])
    same(zero.ask("DBSIZE"), 0, "after FLUSHALL in database 5")
    for place in range(3):
        has(shop.node(place).ask("GET", "__slotproxy:identity").decode(), "shop/")
        with shop.node(place).client() as wire:
            wire.raw("SELECT", 5)
            lacks(wire.ask("KEYS", "*"), b"__slotproxy:identity")


@test
def transactions_scripts_and_waits_run_in_the_session_s_database(shop):
    zero, three, other = shop.client(), in_database(shop, 3), in_database(shop, 3, "other")
    same(three.pipeline(("MULTI",), ("SET", A, 3), ("GET", A), ("SELECT", 3), ("EXEC",)),
         [OK, QUEUED, QUEUED, QUEUED, array(OK, bulk(3), OK)])
    same(zero.raw("GET", A), NULL)
    error(three.pipeline(("MULTI",), ("SELECT", 0))[1], "ERR", "transaction")
    error(three.raw("EXEC"), "EXECABORT")
    script = "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])"
    same(three.raw("EVAL", script, 1, B, "by script"), bulk("by script"))
    name = three.ask("SCRIPT", "LOAD", script)
    same(three.raw("EVALSHA", name, 1, C, "by name"), bulk("by name"))
    same(zero.ask("MGET", B, C), [None, None])
    # Watched keys are of the database; SELECT would take the watch out of it.
    same(three.raw("WATCH", A), OK)
    zero.ask("SET", A, "another database's")
    error(three.raw("SELECT", 0), "ERR", "watched")
    same(three.pipeline(("MULTI",), ("GET", A), ("EXEC",)), [OK, QUEUED, array(bulk(3))])
    same(three.raw("WATCH", A), OK)
    other.ask("SET", A, 4)
    same(three.pipeline(("MULTI",), ("GET", A), ("EXEC",)), [OK, QUEUED, b"*-1\r\n"])
    three.send(resp.request("BLPOP", "list", 5))
    eventually(lambda: fields(zero, "INFO", "clients")["blocked_clients"] == "1", 5, "it waits")
    zero.ask("RPUSH", "list", "of 0")
    check(three.silent(0.1), "it goes on waiting")
    other.ask("RPUSH", "list", "of 3")
    same(three.read(), array(bulk("list"), bulk("of 3")))
    # Taken back, with a question about the stream of that database.
    other.ask("XADD", "stream", "*", "f", "v")
    three.send(resp.request("XREAD", "BLOCK", 5000, "STREAMS", "stream", "$"))
    eventually(lambda: fields(zero, "INFO", "clients")["blocked_clients"] == "1", 5, "it waits")
    found = [line for line in zero.ask("CLIENT", "LIST").decode().split("\n") if "cmd=xread" in line]
    same(len(found), 1)
    has(found[0], " db=3 ")
    same(zero.raw("CLIENT", "UNBLOCK", found[0].split(" ")[0].split("=")[1]), b":1\r\n")
    same(three.read(), b"*-1\r\n")


@test
def copies_go_between_databases_and_other_ways_are_refused(shop):
    zero, two = shop.client(), in_database(shop, 2)
    zero.ask("SET", A, "v")
    same(zero.raw("COPY", A, A, "DB", 2), b":1\r\n")
    same(two.raw("GET", A), bulk("v"))
    same(zero.raw("COPY", A, A, "DB", 2), b":0\r\n")
    same(zero.pipeline(("MULTI",), ("COPY", A, A, "DB", 2, "REPLACE"), ("EXEC",)), [OK, QUEUED, array(b":1\r\n")])
    same(zero.raw("COPY", A, A, "DB", 16), RANGE)
    same(zero.raw("COPY", A, A, "DB", "x"), b"-ERR value is not an integer or out of range\r\n")
    error(zero.raw("COPY", A, B, "DB", 2), "CROSSSLOT")
    error(zero.raw("MOVE", A, 2), "ERR", "COPY")
    error(zero.raw("SWAPDB", 0, 2), "ERR", "instant")
    with shop.at(0) as endpoint:
        error(endpoint.raw("COPY", A, A, "DB", 2), "ERR", "cluster mode")
        same(endpoint.raw("SELECT", 2), b"-ERR SELECT is not allowed in cluster mode\r\n")


@test
def reset_goes_back_to_database_0_and_hello_does_not(shop):
    client = in_database(shop, 7)
    client.ask("SET", A, 7)
    has(client.ask("CLIENT", "INFO").decode(), " db=7 ")
    client.ask("HELLO", "3")
    same(client.raw("GET", A), bulk(7))
    client.ask("HELLO", "2")
    same(client.pipeline(("RESET",), ("GET", A)), [b"+RESET\r\n", NULL])
    has(client.ask("CLIENT", "INFO").decode(), " db=0 ")


@test
def keyspace_events_name_their_database(shop):
    for place in range(3):
        shop.node(place).ask("CONFIG", "SET", "notify-keyspace-events", "K$")
    with shop.client("listener") as listener:
        listener.raw("SUBSCRIBE", "__keyspace@3__:" + A)
        in_database(shop, 0).ask("SET", A, 0)
        in_database(shop, 3).ask("SET", A, 3)
        same(listener.read(), array(bulk("message"), bulk("__keyspace@3__:" + A), bulk("set")))
        check(listener.silent(0.1), "nothing else is heard")
    for place in range(3):
        shop.node(place).ask("CONFIG", "SET", "notify-keyspace-events", "")


@test
def a_count_of_one_database_allows_no_other(fresh):
    shop = fresh(config={"databases": 1})
    client = shop.client()
    same(client.raw("SELECT", 1), RANGE)
    same(client.ask("CONFIG", "GET", "databases"), [b"databases", b"1"])


@test
def a_node_without_the_database_says_so_and_serves_the_others(fresh):
    shop = fresh(node_args=("--databases", "4"))
    client = in_database(shop, 3)
    client.ask("SET", A, 3)
    same(client.raw("SELECT", 5), OK)
    error(client.raw("GET", A), "CLUSTERDOWN", "database 5")
    shop.proxy.wait_log("does not serve database 5")
    same(client.pipeline(("SELECT", 3), ("GET", A), ("SELECT", 0), ("GET", A)), [OK, bulk(3), OK, NULL])


@test(seconds=60)
def after_a_node_was_killed_each_client_is_in_its_database_again(fresh):
    shop = fresh(node_args=("--appendonly", "yes", "--appendfsync", "always"))
    clients = {number: in_database(shop, number) for number in USED}
    for turn in range(3):
        for number, client in clients.items():
            same(client.raw("SET", A, "%d.%d" % (turn, number)), OK)
        shop.node(0).kill()
        for client in clients.values():
            eventually(lambda: client.raw("GET", A).startswith(b"-"), 5, "the node is missed")
        shop.node(0).start()
        shop.node(0).wait_loaded()
        for number, client in clients.items():
            wanted = bulk("%d.%d" % (turn, number))
            seen = []
            eventually(lambda: (seen.append(client.raw("GET", A)), seen[-1] == wanted)[1], 10,
                       lambda: "database %d answers %s" % (number, seen[-1:]))
            check(all(one == wanted or one.startswith(b"-") for one in seen), "nothing else: %s" % seen)


# --- moves


class Writers:
    """Write keys of the slots that move, and others, in several databases; each key has one writer, so that
    what it must be is known. Of a request without a reply both is right."""

    def __init__(self, shop, databases, late=None):
        self.shop, self.late, self.late_until = shop, late, time.monotonic() + 0.3
        self.maybe = {}  # (database, key) -> what it may be.
        self.failures = []
        self.is_over = False
        self.keys = [key for key in keys_on(0, 60, "w") + keys_on(1, 6, "w")]
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in databases]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        for thread in self.threads:
            thread.join()

    def run(self, number):
        try:
            self.write(number)
        except Exception as failure:  # Told by the test.
            self.failures.append("database %d: %r" % (number, failure))

    def write(self, number):
        dice, turn, client = random.Random(number), 0, None
        while number == self.late and not self.is_over and time.monotonic() < self.late_until:
            time.sleep(0.01)
        while not self.is_over:
            key = dice.choice(self.keys)
            turn += 1
            kind = dice.randrange(10)
            if kind < 6:
                command, after = ("SET", key, "%d.%d" % (number, turn)), b"%d.%d" % (number, turn)
            elif kind < 8:
                command, after = ("DEL", key), None
            else:
                command, after = ("GET", key), "same"
            before = self.maybe.get((number, key), {None})
            try:
                if client is None:
                    client = in_database(self.shop, number, "writer of %d" % number)
                reply = client.raw(*command)
            except Exception:
                reply, client = b"-lost", None
                time.sleep(0.02)
            if reply.startswith(b"-"):
                check(reply.startswith((b"-lost", b"-CLUSTERDOWN", b"-LOADING", b"-ERR node")), repr(reply))
                self.maybe[number, key] = before | ({after} if after != "same" else set())
            elif after == "same":
                value = resp.value(reply)
                check(value in before, "%s of %d is %r and not in %r" % (key, number, value, before))
                self.maybe[number, key] = {value}
            else:
                self.maybe[number, key] = {after}

    def compare(self):
        same(self.failures, [], "what writers have met")
        check(len(self.maybe) > 100, "they have written %d keys" % len(self.maybe))
        for number in sorted({number for number, _ in self.maybe}):
            client = in_database(self.shop, number)
            for (of, key), values in self.maybe.items():
                if of == number:
                    value = resp.value(client.raw("GET", key))
                    check(value in values, "%s of %d is %r and not in %r" % (key, number, value, values))


def fill_databases(shop, numbers, count=400):
    """Keys of many types and sizes: (database, key) -> what DUMP says."""
    filled = {}
    for number in numbers:
        client = in_database(shop, number)
        for key in keys_on(0, count, "f") + keys_on(1, 20, "f"):
            place = len(filled) % 6
            if place == 0:
                client.raw("SET", key, "%d %s" % (number, key))
            elif place == 1:
                client.raw("RPUSH", key, number, *range(place))
            elif place == 2:
                client.raw("HSET", key, "number", number, "more", "x" * 40)
            elif place == 3:
                client.raw("SET", key, number, "EX", 1000)
            elif place == 4:
                client.raw("XADD", key, "1-1", "number", number)
                client.raw("XGROUP", "CREATE", key, "group", "0")
            else:
                client.raw("ZADD", key, number, "member")
            filled[number, key] = client.raw("DUMP", key)
        big = keys_on(0, 1, "big")[0]
        client.pipeline(*[("RPUSH", big, *["%d %s" % (number, "x" * 500)] * 500) for _ in range(8)])
        filled[number, big] = client.ask("LLEN", big)
    return filled


def compare_databases(shop, filled):
    for number in sorted({number for number, _ in filled}):
        client = in_database(shop, number)
        for (of, key), wanted in filled.items():
            if of != number:
                continue
            got = client.ask("LLEN", key) if key.startswith("big") else client.raw("DUMP", key)
            check(got == wanted, "%s of database %d is %r, it was %r" % (key, number, got, wanted))


def no_copies_left(shop):
    owners = plans.owners(shop)
    for place in range(len(shop.nodes)):
        own = owners[shop.name(place)]
        for number in range(16):
            with shop.node(place).client() as wire:
                wire.raw("SELECT", number)
                for key in wire.ask("KEYS", "*"):
                    if not key.startswith(b"__slotproxy:"):
                        check(resp.slot_of(key) in own, "%r of database %d is left on node %d" % (key, number, place))
                    elif number != 0:
                        check(False, "%r is left in database %d of node %d" % (key, number, place))


@test(seconds=90)
def a_plan_moves_slots_in_all_databases_while_clients_write(fresh):
    shop = fresh(config=QUICK)
    filled = fill_databases(shop, USED)
    # Something that an earlier try left at the target, in a database that nobody else uses.
    with shop.node(1).client() as wire:
        wire.raw("SELECT", 12)
        wire.raw("SET", next(key for key in keys_on(0, 50, "left") if resp.slot_of(key) < 2048), "behind")
    with Writers(shop, (0, 2, 4, 9), late=4) as writers:
        plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "8MB/s")
        plans.approve(shop, plan)
        plans.wait(shop, plan, *plans.ENDED, seconds=60)
        same(plans.show(shop, plan["id"])["state"], "done")
        time.sleep(0.2)
    writers.compare()
    compare_databases(shop, filled)
    no_copies_left(shop)


@test(seconds=120)
def a_proxy_that_is_killed_in_the_middle_goes_on_with_all_databases(fresh):
    shop = fresh(config=QUICK)
    filled = fill_databases(shop, USED, 300)
    with Writers(shop, USED) as writers:
        plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "2MB/s")
        plans.approve(shop, plan)
        for copied in (50, 300):

            def is_far_enough():
                report = plans.show(shop, plan["id"])
                return report["state"] in plans.ENDED or report.get("progress", {}).get("keys_copied", 0) > copied

            eventually(is_far_enough, 20, "it copies")
            shop.proxy.kill()
            shop.start()
        plans.wait(shop, plan, *plans.ENDED, seconds=80)
        same(plans.show(shop, plan["id"])["state"], "done")
        time.sleep(0.2)
    writers.compare()
    compare_databases(shop, filled)
    no_copies_left(shop)


@test(seconds=60)
def a_flush_of_one_database_while_its_slots_move_brings_nothing_back(fresh):
    shop = fresh(config=QUICK)
    filled = fill_databases(shop, USED, 300)
    plan = plans.propose(shop, "--move", MOVED + ":inv-vlc", "--limit", "2MB/s")
    plans.approve(shop, plan)
    eventually(lambda: plans.show(shop, plan["id"]).get("progress", {}).get("keys_copied", 0) > 100, 20, "it copies")
    client = in_database(shop, 2)
    same(client.raw("FLUSHDB"), OK)
    plans.ask(shop, "PLAN", "THROTTLE", plan["id"], "unlimited")
    plans.wait(shop, plan, *plans.ENDED, seconds=40)
    same(plans.show(shop, plan["id"])["state"], "done")
    same(client.ask("DBSIZE"), 0, "keys of the database that was flushed")
    compare_databases(shop, {(of, key): value for (of, key), value in filled.items() if of != 2})
    no_copies_left(shop)
