#include "proxy/control/admin_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

namespace proxy::control {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using slots::Status;

constexpr int kBacklog = 64;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  [[nodiscard]] int get() const { return value_; }
  [[nodiscard]] bool is_open() const { return value_ >= 0; }
  int release() { return std::exchange(value_, -1); }

 private:
  int value_;
};

std::unexpected<slots::Error> system_failure(const std::string& doing) {
  return fail(Errc::Io, fmt::format("{}: {}", doing, std::strerror(errno)));
}

std::unexpected<slots::Error> in_use(const conf::Address& address) {
  return fail(Errc::Conflict,
              fmt::format("admin address {} is in use; stop who uses it, or set another "
                          "listen.admin",
                          address.text()));
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status make_folders(const std::string& folder) {
  for (std::size_t slash = folder.find('/', 1);; slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return system_failure("making the folder " + part + " of the admin socket");
    }
    if (slash == std::string::npos) return {};
  }
}

// In a folder of somebody else, or one that anybody may write to, another user could put a socket
// of his own in our place.
Status check_folder(const std::string& folder, int descriptor) {
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return system_failure("looking at " + folder);
  const bool is_foreign = facts.st_uid != ::geteuid() && facts.st_uid != 0;
  const bool is_open_to_all = (facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) == 0;
  if (!is_foreign && !is_open_to_all) return {};
  return fail(Errc::InvalidArgument,
              fmt::format("the folder {} of the admin socket {}; set listen.admin to a path in a "
                          "folder of your own",
                          folder, is_foreign ? "belongs to another user" : "is open to all users"));
}

std::optional<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return std::nullopt;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Makes room at the path: nothing there, or the file of a daemon that is gone.
Status clear_path(const conf::Address& address, const sockaddr_un& native) {
  struct stat facts{};
  if (::lstat(address.path.c_str(), &facts) != 0) {
    return errno == ENOENT ? Status{} : system_failure("looking at " + address.path);
  }
  if (!S_ISSOCK(facts.st_mode)) {
    return fail(Errc::AlreadyExists,
                fmt::format("{} exists and is no socket; remove it, or set another listen.admin",
                            address.path));
  }
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.is_open()) return system_failure("probing " + address.path);
  // Anything but a refusal, a full backlog (EAGAIN) included, means that somebody may listen there.
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&native), sizeof(native)) == 0 ||
      errno == EAGAIN) {
    return in_use(address);
  }
  if (errno == ENOENT) return {};
  if (errno != ECONNREFUSED) return system_failure("probing " + address.path);
  if (::unlink(address.path.c_str()) != 0 && errno != ENOENT) {
    return system_failure("removing the stale socket " + address.path);
  }
  return {};
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<AddressList> resolve(const conf::Address& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &found);
  if (code != 0) {
    return fail(Errc::InvalidArgument, fmt::format("admin address {}: {}; correct listen.admin",
                                                   address.text(), ::gai_strerror(code)));
  }
  return AddressList(found, &::freeaddrinfo);
}

std::uint16_t bound_port(int descriptor) {
  sockaddr_storage storage{};
  socklen_t length = sizeof(storage);
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return 0;
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

}  // namespace

Result<AdminSocket> AdminSocket::open(const conf::Address& address) {
  return address.is_unix() ? open_unix(address) : open_tcp(address);
}

Result<AdminSocket> AdminSocket::open_unix(const conf::Address& address) {
  const auto native = unix_address(address.path);
  if (!native) {
    return fail(Errc::InvalidArgument,
                fmt::format("{} is {} bytes long, a socket's path at most {}; set a shorter "
                            "listen.admin",
                            address.path, address.path.size(), sizeof(native->sun_path) - 1));
  }
  const std::string folder = folder_of(address.path);
  if (Status made = make_folders(folder); !made) return std::unexpected(std::move(made.error()));
  const Descriptor lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.is_open()) return system_failure("opening the folder " + folder);
  if (Status safe = check_folder(folder, lock.get()); !safe) {
    return std::unexpected(std::move(safe.error()));
  }
  // From the probe until we listen nobody else may think that this path is free or stale.
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return in_use(address);
  if (Status cleared = clear_path(address, *native); !cleared) {
    return std::unexpected(std::move(cleared.error()));
  }
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return system_failure("making the admin socket");
  // Linux gives the file the mode of the socket, so that it is never open to others, not even
  // between bind() and a later chmod().
  if (::fchmod(socket.get(), 0600) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*native), sizeof(*native)) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    return system_failure("listening on " + address.path);
  }
  AdminSocket result;
  result.descriptor_ = socket.release();
  result.address_ = address;
  struct stat facts{};
  if (::lstat(address.path.c_str(), &facts) == 0) {
    result.has_file_ = true;
    result.file_ = {facts.st_dev, facts.st_ino, facts.st_ctim};
  }
  return result;
}

Result<AdminSocket> AdminSocket::open_tcp(const conf::Address& address) {
  const auto list = resolve(address);
  if (!list) return std::unexpected(list.error());
  for (const addrinfo* entry = list->get(); entry != nullptr; entry = entry->ai_next) {
    Descriptor socket(
        ::socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    const int yes = 1;
    if (!socket.is_open() ||
        ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        ::bind(socket.get(), entry->ai_addr, entry->ai_addrlen) != 0 ||
        ::listen(socket.get(), kBacklog) != 0) {
      continue;
    }
    AdminSocket result;
    result.address_ = address;
    result.address_.port = bound_port(socket.get());
    result.descriptor_ = socket.release();
    return result;
  }
  if (errno == EADDRINUSE) return in_use(address);
  return system_failure("listening on " + address.text());
}

AdminSocket::AdminSocket(AdminSocket&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      address_(std::move(other.address_)),
      has_file_(std::exchange(other.has_file_, false)),
      file_(other.file_) {}

AdminSocket::~AdminSocket() {
  struct stat facts{};
  if (has_file_ && ::lstat(address_.path.c_str(), &facts) == 0 && facts.st_dev == file_.device &&
      facts.st_ino == file_.inode && facts.st_ctim.tv_sec == file_.changed.tv_sec &&
      facts.st_ctim.tv_nsec == file_.changed.tv_nsec) {
    ::unlink(address_.path.c_str());
  }
  if (descriptor_ >= 0) ::close(descriptor_);
}

int AdminSocket::release() { return std::exchange(descriptor_, -1); }

}  // namespace proxy::control
