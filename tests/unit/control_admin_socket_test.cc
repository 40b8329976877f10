#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "proxy/control/admin_socket.h"
#include "tests/support/temp_folder.h"

using namespace proxy::control;
using slots::Errc;
namespace fs = std::filesystem;

namespace {

// The socket's folder is not there yet.
struct Fixture {
  tests::TempFolder folder;
  std::string own_folder = folder.file("own");
  conf::Address address{.host = {}, .port = 0, .path = folder.file("own/admin.sock")};

  // Leaves a socket file behind that nobody listens on.
  void leave_stale_socket() const {
    fs::create_directory(own_folder);
    const int dead = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un native{};
    native.sun_family = AF_UNIX;
    std::memcpy(native.sun_path, address.path.data(), address.path.size());
    REQUIRE(::bind(dead, reinterpret_cast<const sockaddr*>(&native), sizeof(native)) == 0);
    ::close(dead);
    REQUIRE(fs::exists(address.path));
  }
};

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

slots::Error error_of(const conf::Address& address) {
  const auto opened = AdminSocket::open(address);
  REQUIRE_FALSE(opened.has_value());
  return opened.error();
}

}  // namespace

TEST_CASE("the admin socket is its owner's alone, in a folder that is its owner's alone") {
  const Fixture f;
  const auto socket = AdminSocket::open(f.address);
  REQUIRE(socket.has_value());
  CHECK((fs::status(f.own_folder).permissions() & fs::perms::all) == fs::perms::owner_all);
  CHECK((fs::status(f.address.path).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("several missing folders are made") {
  Fixture f;
  f.address.path = f.folder.file("a/b/admin.sock");
  CHECK(AdminSocket::open(f.address).has_value());
  CHECK((fs::status(f.folder.file("a")).permissions() & fs::perms::all) == fs::perms::owner_all);
}

TEST_CASE("the socket file goes with the socket") {
  const Fixture f;
  {
    CHECK(AdminSocket::open(f.address).has_value());
  }
  CHECK_FALSE(fs::exists(f.address.path));
}

TEST_CASE("a file that another one put in our place stays when the socket goes") {
  const Fixture f;
  {
    const auto socket = AdminSocket::open(f.address);
    REQUIRE(socket.has_value());
    fs::remove(f.address.path);
    std::ofstream(f.address.path) << "somebody else's";
  }
  CHECK(fs::exists(f.address.path));
}

TEST_CASE("a socket of a running daemon is in use and stays") {
  const Fixture f;
  const auto running = AdminSocket::open(f.address);
  REQUIRE(running.has_value());
  const slots::Error error = error_of(f.address);
  CHECK(error.code == Errc::Conflict);
  CHECK(has(error.message, "in use"));
  CHECK(has(error.message, f.address.path));
  CHECK(fs::exists(f.address.path));
}

TEST_CASE("the stale socket of a dead daemon is replaced") {
  const Fixture f;
  f.leave_stale_socket();
  CHECK(AdminSocket::open(f.address).has_value());
}

TEST_CASE("a file that is no socket is never replaced") {
  const Fixture f;
  fs::create_directory(f.own_folder);
  std::ofstream(f.address.path) << "precious";
  CHECK(error_of(f.address).code == Errc::AlreadyExists);
  CHECK(fs::file_size(f.address.path) == 8);
}

TEST_CASE("a folder that others may write to is refused") {
  const Fixture f;
  fs::create_directory(f.own_folder);
  fs::permissions(f.own_folder, fs::perms::all);
  const slots::Error error = error_of(f.address);
  CHECK(error.code == Errc::InvalidArgument);
  CHECK(has(error.message, "open to all users"));
}

TEST_CASE("a path that does not fit into a socket address is refused with the limit") {
  Fixture f;
  f.address.path = f.folder.file(std::string(120, 'x'));
  const slots::Error error = error_of(f.address);
  CHECK(error.code == Errc::InvalidArgument);
  CHECK(has(error.message, "107"));
}

TEST_CASE("a TCP address says which port it got, and is in use for others") {
  const auto first = AdminSocket::open({.host = "127.0.0.1", .port = 0, .path = {}});
  REQUIRE(first.has_value());
  CHECK(first->address().port != 0);
  CHECK(error_of(first->address()).code == Errc::Conflict);
}

TEST_CASE("a host that can't be looked up is a mistake in the address") {
  CHECK(error_of({.host = "no host", .port = 1, .path = {}}).code == Errc::InvalidArgument);
}
