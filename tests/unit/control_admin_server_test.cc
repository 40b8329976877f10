#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "admin/api.h"
#include "proxy/control/admin_server.h"
#include "proxy/resp/command_table.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_loop.h"

using namespace proxy;
using namespace proxy::control;

namespace {

// A proxy of two nodes; its slow answers wait until a test gives them.
class FakePort final : public AdminPort {
 public:
  FakePort() {
    auto table = std::make_shared<RoutingTable>();
    table->cluster = "shop";
    slots::SlotMap::Owners owners{};
    for (std::size_t slot = 8192; slot < slots::kSlotCount; ++slot) owners[slot] = 1;
    table->map = std::make_shared<const slots::SlotMap>(
        *slots::SlotMap::create({{"a", 1.0}, {"b", 1.0}}, owners, 7));
    table->nodes.resize(2);
    table->nodes[0].name = "a";
    table->nodes[0].state = NodeState::Up;
    table->nodes[1].name = "b";
    table->nodes[1].state = NodeState::Down;
    table->nodes[1].reason = "connection refused";
    table->commands = resp::CommandTable::built_in();
    snapshot_.table = table;
    snapshot_.nodes.resize(2);
    snapshot_.config = std::make_shared<conf::Config>();
  }

  AdminSnapshot snapshot() override { return snapshot_; }
  void reload(const AdminPeer& /*peer*/,
              std::function<void(slots::Result<std::vector<std::string>>)> done) override {
    reloads.push_back(std::move(done));
  }
  void count_strays(bool list,
                    std::function<void(slots::Result<std::vector<NodeStrayCount>>)> done) override {
    is_list = list;
    counts.push_back(std::move(done));
  }

  HeatFacts heat() override { return {}; }
  void watch_keys(
      std::chrono::seconds,
      std::function<void(slots::Result<std::shared_ptr<const slots::TopKeys>>)> done) override {
    done(std::make_shared<const slots::TopKeys>(1));
  }

  void plan(const std::vector<std::string>& words, const AdminPeer& peer,
            std::function<void(slots::Result<std::string>)> done) override {
    plan_words = words;
    plan_peer = peer.text();
    plan_peers.push_back(peer);
    done(R"({"id":1})");
  }

  std::vector<std::string> plan_words;
  std::string plan_peer;
  std::vector<AdminPeer> plan_peers;
  std::vector<std::function<void(slots::Result<std::vector<std::string>>)>> reloads;
  std::vector<std::function<void(slots::Result<std::vector<NodeStrayCount>>)>> counts;
  bool is_list = false;

 private:
  AdminSnapshot snapshot_;
};

conf::Address unix_address(const std::string& path) {
  return {.host = {}, .port = 0, .path = path};
}
conf::Address tcp_address() { return {.host = "127.0.0.1", .port = 0, .path = {}}; }

int connected_socket(const conf::Address& address) {
  if (address.is_unix()) {
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un native{};
    native.sun_family = AF_UNIX;
    REQUIRE(address.path.size() < sizeof(native.sun_path));
    std::memcpy(native.sun_path, address.path.data(), address.path.size());
    REQUIRE(::connect(descriptor, reinterpret_cast<const sockaddr*>(&native), sizeof(native)) == 0);
    return descriptor;
  }
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in native{};
  native.sin_family = AF_INET;
  native.sin_port = htons(address.port);
  native.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(descriptor, reinterpret_cast<const sockaddr*>(&native), sizeof(native)) == 0);
  return descriptor;
}

// A client of the admin port, without blocking: the loop that serves it runs in this thread.
class AdminPeerSocket {
 public:
  AdminPeerSocket(tests::TestLoop& loop, const conf::Address& address)
      : loop_(loop), descriptor_(connected_socket(address)) {
    ::fcntl(descriptor_, F_SETFL, O_NONBLOCK);
  }
  ~AdminPeerSocket() { ::close(descriptor_); }
  AdminPeerSocket(const AdminPeerSocket&) = delete;
  AdminPeerSocket& operator=(const AdminPeerSocket&) = delete;

  // How many bytes the server took before the kernel's buffers were full.
  std::size_t send(std::string_view text) {
    std::size_t sent = 0;
    (void)loop_.run_until([&] {
      const ssize_t count =
          ::send(descriptor_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count > 0) sent += static_cast<std::size_t>(count);
      return sent == text.size() || (count < 0 && errno == EPIPE);
    });
    return sent;
  }

  // What was received, once it ends so.
  std::string receive_until(std::string_view end) {
    CHECK(loop_.run_until([&] {
      receive();
      return received_.ends_with(end) || is_closed_;
    }));
    return std::exchange(received_, "");
  }
  std::string ask(std::string_view request) {
    send(request);
    return receive_until("\r\n");
  }
  // What was received until the server closed the connection.
  std::string receive_until_closed() {
    CHECK(loop_.run_until([&] {
      receive();
      return is_closed_;
    }));
    return std::exchange(received_, "");
  }
  [[nodiscard]] bool is_closed() {
    receive();
    return is_closed_;
  }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  void receive() {
    char bytes[65536];
    for (;;) {
      const ssize_t count = ::recv(descriptor_, bytes, sizeof(bytes), 0);
      if (count > 0) {
        received_.append(bytes, static_cast<std::size_t>(count));
        continue;
      }
      is_closed_ = is_closed_ || count == 0 || errno != EAGAIN;
      return;
    }
  }

  tests::TestLoop& loop_;
  int descriptor_;
  std::string received_;
  bool is_closed_ = false;
};

struct Fixture {
  Fixture() : address(unix_address(folder.file("own/admin.sock"))) {
    // As the daemon does: clients that are gone are written to.
    std::signal(SIGPIPE, SIG_IGN);
  }
  explicit Fixture(std::string password) : Fixture() {
    address = tcp_address();
    start(std::move(password));
  }

  void start(std::string password = "") {
    auto opened = AdminServer::open(loop.get(), address, std::move(password), port);
    REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.error().message));
    server = std::move(*opened);
    address = server->address();
  }

  tests::TempFolder folder;
  tests::TestLoop loop;
  FakePort port;
  conf::Address address;
  std::unique_ptr<AdminServer> server;
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("a second server does not take the socket of a running one") {
  Fixture f;
  f.start();
  auto second = AdminServer::open(f.loop.get(), f.address, "", f.port);
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().code == slots::Errc::Conflict);
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(peer.ask("PING\r\n") == "+PONG\r\n");
}

TEST_CASE("the socket file goes with the server") {
  Fixture f;
  f.start();
  REQUIRE(std::filesystem::exists(f.address.path));
  f.server.reset();
  CHECK_FALSE(std::filesystem::exists(f.address.path));
}

TEST_CASE("requests come as RESP or as lines, and answers come in their order") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(peer.ask("*1\r\n$4\r\nping\r\n") == "+PONG\r\n");
  CHECK(peer.ask("  ping  \r\n") == "+PONG\r\n");
  peer.send("\r\n*0\r\nPING\n*1\r\n$6\r\nHEALTH\r\nnonsense\r\n");
  CHECK(peer.receive_until("there is\r\n") ==
        "+PONG\r\n$64\r\n"
        R"({"health":"degraded","nodes":2,"nodes_up":1,"slots_served":8192})"
        "\r\n-ERR unknown verb 'nonsense'; HELP lists what there is\r\n");
}

TEST_CASE("a request may arrive byte by byte") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  for (const char byte : std::string("*2\r\n$7\r\nEXPLAIN\r\n$3\r\nk\r\n\r\n")) {
    peer.send({&byte, 1});
    for (int turn = 0; turn < 3; ++turn) uv_run(f.loop.get(), UV_RUN_NOWAIT);
  }
  CHECK(has(peer.receive_until("\r\n"), R"("key":"k\r\n")"));
}

TEST_CASE("QUIT is answered, then the connection is closed") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  peer.send("QUIT\r\nPING\r\n");
  CHECK(peer.receive_until_closed() == "+OK\r\n");
  CHECK(f.server->clients() == 0);
}

TEST_CASE("a Unix socket needs no AUTH, and says so") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(has(peer.ask("STATUS\r\n"), R"("cluster":"shop")"));
  CHECK(has(peer.ask("AUTH x\r\n"), "go on without AUTH"));
}

TEST_CASE("over TCP everything but PING, HEALTH and QUIT needs the password first") {
  Fixture f("s3cret");
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(peer.ask("PING\r\n") == "+PONG\r\n");
  CHECK(has(peer.ask("HEALTH\r\n"), "degraded"));
  for (const char* verb : {"STATUS", "NODES", "SLOTS", "EXPLAIN k", "STRAYS", "RELOAD", "CONFIG",
                           "HELP", "nonsense"}) {
    CAPTURE(verb);
    CHECK(peer.ask(std::string(verb) + "\r\n").starts_with("-NOAUTH "));
  }
  CHECK(f.port.reloads.empty());
  CHECK(f.port.counts.empty());
  for (const char* wrong : {"AUTH s3cre", "AUTH s3crets", "AUTH \"\"", "AUTH other s3cret"}) {
    CAPTURE(wrong);
    CHECK(peer.ask(std::string(wrong) + "\r\n").front() == '-');
    CHECK(peer.ask("STATUS\r\n").starts_with("-NOAUTH "));
  }
  CHECK(peer.ask("AUTH s3cret\r\n") == "+OK\r\n");
  CHECK(has(peer.ask("STATUS\r\n"), R"("cluster":"shop")"));
}

TEST_CASE("one connection's AUTH is not another's") {
  Fixture f("s3cret");
  AdminPeerSocket first(f.loop, f.address);
  AdminPeerSocket second(f.loop, f.address);
  CHECK(first.ask("AUTH default s3cret\r\n") == "+OK\r\n");
  CHECK(second.ask("STATUS\r\n").starts_with("-NOAUTH "));
}

TEST_CASE("a changed password holds for those who log in later; over TCP it is never empty") {
  Fixture f("old");
  f.server->set_passwords("new", {});
  f.server->set_passwords("", {});
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(peer.ask("AUTH old\r\n").starts_with("-WRONGPASS "));
  CHECK(peer.ask("AUTH new\r\n") == "+OK\r\n");
}

TEST_CASE("the password that was given says who it is") {
  Fixture f("s3cret");
  f.server->set_passwords("s3cret", {{"ana", "secret of ana"}, {"eva", "e"}});
  const auto peer_after = [&](const std::string& login) {
    AdminPeerSocket peer(f.loop, f.address);
    CHECK(peer.ask(login + "\r\n") == "+OK\r\n");
    (void)peer.ask("PLAN LIST\r\n");
    REQUIRE_FALSE(f.port.plan_peers.empty());
    return f.port.plan_peers.back().credential();
  };
  CHECK(peer_after("AUTH s3cret") == "the admin password");
  CHECK(peer_after("AUTH \"secret of ana\"") == "admin user ana");
  CHECK(peer_after("AUTH eva e") == "admin user eva");
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(peer.ask("AUTH ana e\r\n").starts_with("-WRONGPASS "));
  CHECK(peer.ask("AUTH default e\r\n") == "+OK\r\n");
}

TEST_CASE("a TCP address without a password is refused") {
  Fixture f;
  auto opened = AdminServer::open(f.loop.get(), tcp_address(), "", f.port);
  REQUIRE_FALSE(opened.has_value());
  CHECK(has(opened.error().message, "listen.admin_password"));
}

TEST_CASE("a request above 64 KB is refused and the connection closed") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  SUBCASE("as RESP") {
    peer.send("*2\r\n$7\r\nEXPLAIN\r\n$70000\r\n" + std::string(66000, 'x'));
    CHECK(has(peer.receive_until_closed(), "larger than 64 KB"));
  }
  SUBCASE("as a line") {
    peer.send(std::string(66000, 'x'));
    CHECK(peer.receive_until_closed().starts_with("-ERR "));
  }
}

TEST_CASE("a request of nearly 64 KB is answered") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  const std::string key(65000, 'x');
  CHECK(has(peer.ask("*2\r\n$7\r\nEXPLAIN\r\n$65000\r\n" + key + "\r\n"), key));
}

TEST_CASE("what is no request is a protocol error and ends the connection") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  peer.send("*1\r\n:4\r\n");
  CHECK(peer.receive_until_closed().starts_with("-ERR Protocol error"));
}

TEST_CASE("who asks on and on and reads nothing is not read any more") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  std::string requests;
  for (int i = 0; i < 100'000; ++i) requests += "CONFIG\r\nSTATUS\r\n";
  std::size_t sent = 0;
  // Runs until nothing moves any more: the kernel's buffers are full both ways.
  for (int idle = 0; idle < 100;) {
    const ssize_t count =
        ::send(peer.descriptor(), requests.data() + sent, requests.size() - sent, MSG_NOSIGNAL);
    if (count > 0) sent += static_cast<std::size_t>(count);
    idle = count > 0 ? 0 : idle + 1;
    uv_run(f.loop.get(), UV_RUN_NOWAIT);
  }
  CHECK(sent < requests.size());
  AdminPeerSocket other(f.loop, f.address);
  CHECK(other.ask("PING\r\n") == "+PONG\r\n");
}

TEST_CASE("slow verbs leave the server answering others, and their answer comes later") {
  Fixture f;
  f.start();
  AdminPeerSocket first(f.loop, f.address);
  AdminPeerSocket second(f.loop, f.address);
  first.send("STRAYS LIST\r\nPING\r\n");
  REQUIRE(f.loop.run_until([&] { return f.port.counts.size() == 1; }));
  CHECK(f.port.is_list);
  CHECK(has(second.ask("STRAYS\r\n"), "being counted already"));
  StrayReport strays;
  strays.keys = 10;
  strays.strays = 1;
  strays.slots.add(slots::SlotId{9000});
  strays.names = {"lost"};
  strays.is_whole = true;
  f.port.counts.front()(std::vector<NodeStrayCount>{
      {"a", strays}, {"b", slots::fail(slots::Errc::Unavailable, "is down")}});
  const std::string answer = first.receive_until("+PONG\r\n");
  CHECK(has(answer, R"("strays":1,"ranges":["9000"],"names":["lost"])"));
  CHECK(has(answer, R"("error":"is down")"));
  SUBCASE("and then the next one may count") {
    second.send("STRAYS\r\n");
    CHECK(f.loop.run_until([&] { return f.port.counts.size() == 2; }));
    CHECK_FALSE(f.port.is_list);
  }
}

TEST_CASE("a reload answers with its notes, or with why nothing was changed") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  peer.send("RELOAD\r\n");
  REQUIRE(f.loop.run_until([&] { return f.port.reloads.size() == 1; }));
  SUBCASE("notes") {
    f.port.reloads.front()(std::vector<std::string>{"limits.clients: 1 -> 2"});
    CHECK(has(peer.receive_until("\r\n"), R"({"notes":["limits.clients: 1 -> 2"]})"));
  }
  SUBCASE("mistakes, on one line") {
    f.port.reloads.front()(slots::fail(slots::Errc::InvalidArgument, "a:1:2: x\nnothing changed"));
    CHECK(peer.receive_until("\r\n") ==
          "-ERR a:1:2: x; nothing changed; correct the configuration and reload again\r\n");
  }
}

TEST_CASE("an answer whose asker or whose server is gone is nobody's") {
  Fixture f;
  f.start();
  {
    AdminPeerSocket peer(f.loop, f.address);
    peer.send("RELOAD\r\n");
    REQUIRE(f.loop.run_until([&] { return f.port.reloads.size() == 1; }));
  }
  SUBCASE("the asker") {
    f.port.reloads.front()(std::vector<std::string>{});
    CHECK(f.loop.run_until([&] { return f.server->clients() == 0; }));
  }
  SUBCASE("the server") {
    f.server.reset();
    f.port.reloads.front()(std::vector<std::string>{});
  }
}

TEST_CASE("when all places are taken a new connection is turned away") {
  Fixture f;
  f.start();
  std::vector<std::unique_ptr<AdminPeerSocket>> peers;
  for (std::size_t i = 0; i < AdminServer::kClientsMax; ++i) {
    peers.push_back(std::make_unique<AdminPeerSocket>(f.loop, f.address));
    CHECK(f.loop.run_until([&] { return f.server->clients() == peers.size(); }));
  }
  AdminPeerSocket late(f.loop, f.address);
  CHECK(has(late.receive_until_closed(), "all places for admin connections are taken"));
  CHECK(peers.front()->ask("PING\r\n") == "+PONG\r\n");
  peers.pop_back();
  REQUIRE(f.loop.run_until([&] { return f.server->clients() < AdminServer::kClientsMax; }));
  AdminPeerSocket next(f.loop, f.address);
  CHECK(next.ask("PING\r\n") == "+PONG\r\n");
}

TEST_CASE("who has not logged in makes room for others") {
  Fixture f("s3cret");
  AdminPeerSocket operator_socket(f.loop, f.address);
  CHECK(operator_socket.ask("AUTH s3cret\r\n") == "+OK\r\n");
  std::vector<std::unique_ptr<AdminPeerSocket>> strangers;
  while (f.server->clients() < AdminServer::kClientsMax) {
    strangers.push_back(std::make_unique<AdminPeerSocket>(f.loop, f.address));
    REQUIRE(f.loop.run_until([&] { return f.server->clients() == strangers.size() + 1; }));
  }
  AdminPeerSocket late(f.loop, f.address);
  CHECK(late.ask("AUTH s3cret\r\n") == "+OK\r\n");
  CHECK(f.loop.run_until([&] { return strangers.front()->is_closed(); }));
  CHECK(has(operator_socket.ask("STATUS\r\n"), "shop"));
}

TEST_CASE("verbs that take no arguments say so") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  for (const char* verb : {"STATUS", "NODES", "PING", "RELOAD", "HEALTH", "CONFIG", "HELP"}) {
    CAPTURE(verb);
    CHECK(has(peer.ask(std::string(verb) + " x\r\n"), "takes no arguments"));
  }
  CHECK(has(peer.ask("STRAYS everything\r\n"), "[LIST]"));
  CHECK(has(peer.ask("SLOTS everything\r\n"), "[HEAT [N]]"));
  CHECK(has(peer.ask("SLOTS HEAT none\r\n"), "[HEAT [N]]"));
  CHECK(has(peer.ask("HOTKEYS 0\r\n"), "[SECONDS] [N]"));
  CHECK(has(peer.ask("EXPLAIN\r\n"), "KEY..."));
  CHECK(has(peer.ask("EXPLAIN --command\r\n"), "KEY..."));
  CHECK(f.port.reloads.empty());
}

TEST_CASE("PLAN hands its words on, with who is connected") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(has(peer.ask("plan show 1\r\n"), R"({"id":1})"));
  CHECK(f.port.plan_words == std::vector<std::string>{"plan", "show", "1"});
  CHECK(f.port.plan_peer ==
        "uid " + std::to_string(::getuid()) + ", pid " + std::to_string(::getpid()));
}

TEST_CASE("SLOTS HEAT and HOTKEYS answer what slots do") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(has(peer.ask("slots heat 3\r\n"), R"("by_operations":[])"));
  CHECK(has(peer.ask("hotkeys 1 3\r\n"), R"("seconds":1.0,"total":0)"));
}

TEST_CASE("HELP names every verb") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  const std::string help = peer.ask("help\r\n");
  for (const admin::VerbHelp& verb : admin::kVerbs) {
    CHECK(has(help, "\"verb\":\"" + std::string(verb.verb) + "\""));
  }
}

TEST_CASE("CONFIG shows what is set, but no password") {
  Fixture f;
  f.start();
  AdminPeerSocket peer(f.loop, f.address);
  CHECK(has(peer.ask("CONFIG\r\n"), R"({"option":"limits.clients","values":["10000"]})"));
}
