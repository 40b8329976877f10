"""The checking clients themselves: what they must find, and what they must not mistake for it."""
import time

from harness import resp
from harness.check import Failure, check, has
from harness.checked_key import CheckedKey, Violation
from harness.checking import CheckingCrowd, nothing_elsewhere, normalized
from harness.shop import node_of
from harness.tests import test


def write(key, server, *command):
    key.begin(normalized(command))
    with server.client() as wire:
        key.answered(wire.raw(*command))


def violation(act):
    try:
        act()
    except Violation as why:
        return str(why)
    raise Failure("nothing was noticed")


@test
def a_lost_write_is_found(stock):
    key = CheckedKey("k", "string")
    write(key, stock, "SET", "k", "old")
    write(key, stock, "SET", "k", "new")
    stock.ask("SET", "k", "old")
    has(violation(lambda: write(key, stock, "GET", "k")), "b'old'", "possible are b'new'")


@test
def a_revived_key_is_found(stock):
    key = CheckedKey("k", "hash")
    write(key, stock, "HSET", "k", "f1", "x")
    write(key, stock, "DEL", "k")
    stock.ask("HSET", "k", "f1", "x")
    violation(lambda: write(key, stock, "HGETALL", "k"))


@test
def a_key_that_lives_beyond_its_expiry_is_found(stock):
    key = CheckedKey("k", "string")
    when = int(time.time() * 1000) + 30
    write(key, stock, "SET", "k", "x", "PXAT", when)
    stock.ask("PERSIST", "k")
    while time.time() * 1000 < when + 10:
        time.sleep(0.005)
    violation(lambda: write(key, stock, "GET", "k"))


@test
def an_expiry_that_is_off_by_more_than_50_ms_is_found(stock):
    key = CheckedKey("k", "string")
    when = int(time.time() * 1000) + 60000
    write(key, stock, "SET", "k", "x", "PXAT", when)
    stock.ask("PEXPIREAT", "k", when + 40)
    write(key, stock, "PEXPIRETIME", "k")
    stock.ask("PEXPIREAT", "k", when + 100)
    violation(lambda: write(key, stock, "PEXPIRETIME", "k"))


@test
def another_pending_list_of_the_same_stream_is_found(stock):
    key = CheckedKey("k", "stream")
    write(key, stock, "XADD", "k", "1-1", "field", "x")
    write(key, stock, "XGROUP", "CREATE", "k", "group", "0")
    write(key, stock, "XREADGROUP", "GROUP", "group", "c", "COUNT", 2, "STREAMS", "k", ">")
    write(key, stock, "XPENDING", "k", "group", "-", "+", 10)
    stock.ask("XCLAIM", "k", "group", "d", 0, "1-1", "JUSTID")
    write(key, stock, "XRANGE", "k", "-", "+")
    violation(lambda: write(key, stock, "XPENDING", "k", "group", "-", "+", 10))


@test
def a_command_whose_outcome_is_unknown_may_run_late_or_never_but_not_twice(stock):
    key = CheckedKey("k", "list")
    write(key, stock, "RPUSH", "k", "a")
    key.begin(normalized(("RPUSH", "k", "b")))
    key.unknown()
    write(key, stock, "LRANGE", "k", 0, -1)
    write(key, stock, "RPUSH", "k", "c")
    stock.ask("RPUSH", "k", "b")
    write(key, stock, "LRANGE", "k", 0, -1)
    stock.ask("RPUSH", "k", "b")
    violation(lambda: write(key, stock, "LRANGE", "k", 0, -1))


@test
def a_reader_may_see_what_is_being_written_but_nothing_older_than_acknowledged(stock):
    key = CheckedKey("k", "string")
    get = normalized(("GET", "k"))
    write(key, stock, "SET", "k", "one")
    begun = key.begin_read()
    write(key, stock, "SET", "k", "two")
    key.begin(normalized(("SET", "k", "three")))
    for text in ("one", "two", "three"):
        key.end_read(begun, get, resp.bulk(text))
    begun = key.begin_read()
    key.end_read(begun, get, resp.bulk("three"))
    violation(lambda: key.end_read(begun, get, resp.bulk("one")))


@test
def what_a_server_loses_in_its_own_crash_is_no_violation_when_it_is_said(stock):
    key = CheckedKey("k", "string")
    write(key, stock, "SET", "k", "one")
    when = time.time()
    write(key, stock, "SET", "k", "two")
    write(key, stock, "SET", "k", "three")
    key.may_be_as_since(when)
    stock.ask("SET", "k", "two")
    write(key, stock, "GET", "k")
    stock.ask("SET", "k", "one")
    violation(lambda: write(key, stock, "GET", "k"))


@test
def a_crowd_finds_nothing_where_nothing_is_wrong(shop):
    with CheckingCrowd(shop) as crowd:
        crowd.wait_for(1500)
    crowd.verdict(least=1500)


@test
def a_crowd_finds_one_key_that_somebody_has_put_back(shop):
    with CheckingCrowd(shop, kinds=("string",), keys=40, shared=False) as crowd:
        crowd.wait_for(300)
        crowd.pause()
        name = crowd.keys[0].name
        shop.node(node_of(name)).ask("SET", name, "0:0")
        crowd.stop()
    try:
        crowd.verify()
    except Failure as why:
        return has(str(why), name)
    raise Failure("nothing was noticed")


@test
def a_crowd_finds_a_write_to_a_shared_list_that_is_gone_or_there_twice(shop):
    with CheckingCrowd(shop, kinds=("string",), keys=40) as crowd:
        crowd.wait_for(1000)
    name = crowd.shared.names[0] + ":l"
    last = shop.node(node_of(name)).ask("RPOP", name)
    for found in (0, 2):
        try:
            crowd.verify()
            check(False, "a list with %d times its last element is taken for right" % found)
        except Failure as why:
            has(str(why), "is there %d times, written 1 to 1 times" % found)
        shop.node(node_of(name)).ask("RPUSH", name, last, last)


@test
def a_copy_that_is_left_on_a_node_is_found(shop):
    shop.node((node_of("stray") + 1) % 3).ask("SET", "stray", 1)
    try:
        nothing_elsewhere(shop)
    except Failure as why:
        return has(str(why), "stray")
    raise Failure("nothing was noticed")
