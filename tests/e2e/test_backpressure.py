"""Back-pressure: a client that writes far ahead finishes; one that never reads costs a bounded
amount and nobody's time."""
import resource
import select
import time

from harness import processes
from harness.check import check, eventually, same
from harness.load import Latency, best_of
from harness.resp import bulk, request
from harness.shop import as_json, key_on, keys_on
from harness.tests import test
from harness.wire import is_ready

OK, PONG, NULL = b"+OK\r\n", b"+PONG\r\n", b"$-1\r\n"
MB = 1_000_000


def fill(shop, count, size):
    """Keys over all nodes with values of `size` bytes; {key: value}."""
    keys = [key for place in (0, 1, 2) for key in keys_on(place, count // 3, "bp")]
    values = {key: (key * (size // len(key) + 1))[:size] for key in keys}
    shop.client(timeout=20).pipeline(*[("SET", key, text) for key, text in values.items()])
    return values


def stuff(client, data, seconds):
    """Writes `data` again and again and never reads, until the other side takes no more; bytes that
    it took."""
    client.socket.setblocking(False)
    taken, deadline, offset = 0, time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        if not is_ready(client.socket, select.POLLOUT, 0.5):
            break
        try:
            sent = client.socket.send(memoryview(data)[offset:])
        except BlockingIOError:
            continue
        except OSError:
            break
        taken += sent
        offset = (offset + sent) % len(data)
    client.socket.setblocking(True)
    return taken


@test(stock=True, long=True, seconds=90)
def a_million_gets_written_before_the_first_read_finish_in_order(shop):
    values = fill(shop, 999, 32)
    keys = list(values)
    round_ = b"".join(request("GET", key) for key in keys)
    wanted = b"".join(bulk(text) for text in values.values())
    client = shop.client("eager client", timeout=60)
    client.socket.settimeout(60)
    rounds = 1_000_000 // len(keys) + 1
    for _ in range(rounds):
        client.socket.sendall(round_)
    for n in range(rounds):
        got = client.read_exactly(len(wanted))
        if got != wanted:
            same(got, wanted, "round %d of the replies" % n)
    same(client.raw("PING"), PONG)


@test(seconds=60, long=True)
def a_client_beyond_the_limit_is_not_read_from_until_it_reads(fresh):
    shop = fresh(config={"limits": {"unread_replies": "4MB"}})
    values = fill(shop, 300, 1000)
    keys = list(values)
    data = b"".join(request("GET", key) for key in keys)
    wanted = b"".join(bulk(text) for text in values.values())
    client = shop.client("stalled client", timeout=30)
    before = shop.proxy.memory()
    taken = stuff(client, data, 20)
    grown = shop.proxy.memory() - before
    check(grown < 24 * MB, "the proxy grew by %.1f MB with a limit of 4 MB" % (grown / MB))
    whole = taken // len(data)
    check(whole > 0, "it took %d bytes only" % taken)
    for n in range(whole):
        got = client.read_exactly(len(wanted))
        if got != wanted:
            same(got, wanted, "round %d of the replies" % n)
    for place in (0, 1, 2):
        same(shop.client().raw("SET", key_on(place), 1), OK)


@test(seconds=90, long=True)
def a_client_that_never_reads_costs_bounded_memory_and_nobody_s_time(fresh, stock):
    shop = fresh()
    values = fill(shop, 300, 10_000)
    data = b"".join(request("GET", key) for key in values)
    before = shop.proxy.memory()
    nodes_before = [processes.memory(node.process.pid) for node in shop.nodes]

    def never_read():
        nonlocal client, taken
        if client:
            client.close()
        client = shop.client("client that never reads")
        waiting = Latency(shop.forward, stock.address, "GET", key_on(1))
        taken = stuff(client, data, 30)
        time.sleep(1.0)  # Time in which memory would grow on if anything still flowed.
        return waiting.delay(0.1, "beside a client that never reads")

    client, taken = None, 0
    best_of(3, never_read)
    grown = shop.proxy.memory() - before
    check(
        grown < 64 * MB + 8 * MB,
        "the proxy grew by %.1f MB after taking %.1f MB of requests" % (grown / MB, taken / MB),
    )
    for place, node in enumerate(shop.nodes):
        more = processes.memory(node.process.pid) - nodes_before[place]
        check(more < 64 * MB, "redis %d grew by %.1f MB" % (place, more / MB))
    client.close()
    eventually(
        lambda: shop.proxy.memory() - before < 16 * MB,
        5,
        lambda: "the memory comes back (%.1f MB are still held)"
        % ((shop.proxy.memory() - before) / MB),
    )


@test(seconds=60)
def a_client_that_does_not_read_on_is_closed_and_counted(fresh):
    limits = {"unread_replies": "1MB"}
    shop = fresh(config={"timeouts": {"stalled_client": "500ms"}, "limits": limits})
    values = fill(shop, 30, 10_000)
    client, idle = shop.client("stalled client"), shop.client("idle client")
    stuff(client, b"".join(request("GET", key) for key in values), 10)
    gone(shop, client)
    same(idle.raw("PING"), PONG, "an idle client's reply")
    status = as_json(shop.slotctl("status", "--json"))
    counted = sum(worker["counters"]["stalled_clients"] for worker in status["workers"])
    check(counted == 1, "%d stalled clients were counted" % counted)


@test
def a_client_that_never_ends_its_request_is_closed(fresh):
    shop = fresh(config={"timeouts": {"stalled_client": "500ms"}})
    idle = shop.client("idle client")
    for data in (request("GET", "a")[:7], request("SET", "a", "v" * 300_000)[:200_000], b"PIN"):
        half = shop.client("client with half a request")
        half.send(data)
        gone(shop, half)
    same(idle.raw("PING"), PONG, "an idle client's reply")


def gone(shop, client, seconds=5):
    """Until the proxy knows the client no more."""
    lister, mark = shop.client("lister"), address_in_list(client)
    eventually(
        lambda: mark not in lister.ask("CLIENT", "LIST"), seconds, "the %s is closed" % client.name
    )


def address_in_list(client):
    return b" addr=127.0.0.1:%d " % client.socket.getsockname()[1]


@test(seconds=60)
def a_slow_reader_that_makes_progress_is_not_closed(fresh):
    shop = fresh(config={"timeouts": {"stalled_client": "500ms"}})
    client = shop.client("slow reader", receive_buffer=4096)
    text = b"v" * 3_000_000
    client.ask("SET", "a", text)
    client.send(request("GET", "a"))
    got = b""
    began = time.monotonic()
    while time.monotonic() - began < 1.5:
        got += client.socket.recv(20_000)
        time.sleep(0.02)
    client.socket.settimeout(20)
    while len(got) < len(bulk(text)):
        part = client.socket.recv(1 << 20)
        check(part, "closed after %d bytes" % len(got))
        got += part
    same(got, bulk(text))


@test(seconds=60, long=True)
def the_client_with_most_is_closed_when_all_together_hold_too_much(fresh):
    limits = {"unread_replies": "20MB", "unread_replies_total": "30MB"}
    shop = fresh(config={"limits": limits}, workers=1)
    values = fill(shop, 300, 10_000)
    data = b"".join(request("GET", key) for key in values)
    before = shop.proxy.memory()
    clients = [shop.client("client %d" % n) for n in range(4)]
    for client in clients:
        stuff(client, data, 10)
    lister = shop.client("lister")
    listed = lister.ask("CLIENT", "LIST")
    held = sum(address_in_list(client) in listed for client in clients)
    check(1 <= held < 4, "%d of 4 clients are left" % held)
    same(lister.raw("SET", key_on(0), 1), OK)
    eventually(
        lambda: shop.proxy.memory() - before < 60 * MB,
        5,
        lambda: "%.1f MB are held with 30 MB for all" % ((shop.proxy.memory() - before) / MB),
    )


@test(seconds=60, long=True)
def one_client_may_hold_as_much_as_its_own_limit_allows(fresh):
    """However many workers share the limit for all."""
    limits = {"unread_replies": "20MB", "unread_replies_total": "30MB"}
    shop = fresh(config={"limits": limits}, workers=4)
    values = fill(shop, 300, 10_000)
    data = b"".join(request("GET", key) for key in values)
    wanted = b"".join(bulk(text) for text in values.values())
    client = shop.client("client that reads late", timeout=20)
    taken = stuff(client, data, 10)
    for n in range(taken // len(data)):
        got = client.read_exactly(len(wanted))
        if got != wanted:
            same(got, wanted, "round %d of the replies" % n)


@test(seconds=60, long=True)
def one_greedy_pipeline_does_not_slow_the_others_down(fresh, stock):
    shop = fresh(workers=1)
    values = fill(shop, 300, 32)
    data = b"".join(request("GET", key) for key in values)
    size = sum(len(bulk(text)) for text in values.values())
    client = shop.client("greedy client", timeout=30)

    def be_greedy():
        waiting = Latency(shop.forward, stock.address, "GET", key_on(0))
        began = time.monotonic()
        while time.monotonic() - began < 3:
            client.socket.sendall(data * 20)
            client.read_exactly(size * 20)
        return waiting.delay(0.05, "beside a greedy pipeline", median=0.02)

    best_of(3, be_greedy)


@test
def too_many_clients_are_told_so(fresh):
    shop = fresh(config={"limits": {"clients": 20}})
    clients = [shop.client("client %d" % n) for n in range(18)]
    for client in clients:
        same(client.raw("PING"), PONG)
    extra = [shop.client("extra %d" % n) for n in range(10)]
    refused = [client for client in extra if not client_is_served(client)]
    check(refused, "none of 28 clients was refused with a limit of 20")
    same(clients[0].raw("PING"), PONG)
    for client in clients[1:] + extra:
        client.close()
    eventually(lambda: client_is_served(shop.client("later client")), 3, "there is room again")


def client_is_served(client):
    """False when it was told that there are too many (Redis: an error, then a close)."""
    try:
        client.send(b"PING\r\n")
        got = client.read()
    except AssertionError:
        return False
    check(
        got == PONG or got == b"-ERR max number of clients reached\r\n",
        "a client beyond the limit got %r" % got,
    )
    return got == PONG


def starve(shop):
    """Leaves the proxy eight file descriptors and takes them; the clients that did."""
    _, hard = resource.prlimit(shop.proxy.pid, resource.RLIMIT_NOFILE)
    few = shop.proxy.descriptors() + 8
    resource.prlimit(shop.proxy.pid, resource.RLIMIT_NOFILE, (few, hard))
    return [shop.client("client %d" % n) for n in range(40)]


def feed(shop):
    _, hard = resource.prlimit(shop.proxy.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(shop.proxy.pid, resource.RLIMIT_NOFILE, (hard, hard))


def processor_ticks(pid):
    with open("/proc/%d/stat" % pid) as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


@test
def running_out_of_file_descriptors_hurts_only_new_clients(fresh):
    shop = fresh()
    client = shop.client()
    same(client.raw("SET", "a", 1), OK)
    crowd = starve(shop)
    for n in range(50):
        same(client.pipeline(("SET", "a", n), ("GET", "a")), [OK, bulk(n)])
    began = processor_ticks(shop.proxy.pid)
    time.sleep(1.0)  # Accepting in a vain loop would show as processor time.
    spent = processor_ticks(shop.proxy.pid) - began
    check(spent < 60, "it spins: %d ticks in a second" % spent)
    for each in crowd:
        each.close()
    feed(shop)
    eventually(
        lambda: client_is_served(shop.client("later client")), 5, "new clients are served again"
    )


@test
def a_request_that_needs_a_connection_when_there_is_no_descriptor_gets_an_answer(fresh):
    shop = fresh()
    clients = [shop.client("client %d" % n, timeout=10) for n in range(8)]  # On both workers.
    for client in clients:
        client.hello3()  # No connection to a node speaks RESP3 yet.
    crowd = starve(shop)
    for client in clients:
        got = client.raw("SET", "a", 1)
        check(got == OK or got[:1] == b"-", "the reply is %r" % got)
        same(client.raw("PING"), PONG)
    for each in crowd:
        each.close()
    feed(shop)
    for client in clients:
        eventually(lambda: client.raw("SET", "a", 1) == OK, 5, "%s is served" % client.name)


@test(long=True, seconds=60)
def five_thousand_clients_come_and_go_and_leave_no_memory_behind(fresh):
    shop = fresh()
    for n in range(50):
        shop.client().raw("SET", key_on(n % 3), n)
    for client in list_of_clients(shop, 200):
        client.close()
    start, descriptors = settled(shop), shop.proxy.descriptors()
    clients = list_of_clients(shop, 5000 if room_for(5000) else 400)
    idle = (shop.proxy.memory() - start) / len(clients)
    check(idle < 1024 + 512, "%d bytes per fresh idle client" % idle)
    bursts = (
        (request("SET", "k1", "v" * 100) + request("GET", "k1")) * 50,  # Many replies to wait for.
        request("SET", "k1", "v" * 60_000),  # More than one read.
        request("MGET", *[key_on(n % 3) for n in range(50)]),
    )
    for burst in bursts:
        for client in clients:
            client.send(burst)
        for client in clients:
            client.read_many(burst.count(b"*"))
        eventually(
            lambda: (shop.proxy.memory() - start) / len(clients) < 2048 + 512,
            5,
            lambda: "idle clients cost %d bytes each after %r"
            % ((shop.proxy.memory() - start) / len(clients), burst[:40]),
        )
    for client in clients:
        client.close()
    eventually(
        lambda: shop.proxy.descriptors() <= descriptors + 4, 5, "the descriptors are free again"
    )
    eventually(
        lambda: shop.proxy.memory() - start < 10 * MB,
        5,
        lambda: "the memory comes back (%.1f MB are held)" % ((shop.proxy.memory() - start) / MB),
    )


def room_for(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count + 200 <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count + 200, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= count + 200


def list_of_clients(shop, count):
    return [shop.client("client %d" % n, timeout=20) for n in range(count)]


def settled(shop):
    """The proxy's memory once it has stopped changing."""
    last = shop.proxy.memory()
    for _ in range(20):
        time.sleep(0.05)
        now = shop.proxy.memory()
        if abs(now - last) < 65536:
            return now
        last = now
    return last
