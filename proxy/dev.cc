#include "proxy/dev.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include "slots/slot.h"

namespace proxy {

namespace {

using slots::Errc;
using slots::fail;
using slots::Result;
using slots::Status;
using Clock = std::chrono::steady_clock;

constexpr std::uint16_t kUsualPort = 6400;
constexpr std::string_view kUsualAdmin = "/tmp/slotproxy/admin.sock";
constexpr std::string_view kFolderPrefix = "slotproxy-dev-";
constexpr std::string_view kLockName = "in-use";
constexpr std::chrono::seconds kStartTime{10};
constexpr std::chrono::seconds kEndTime{3};
constexpr std::chrono::milliseconds kPoll{5};
constexpr std::size_t kListedEndpointsMax = 6;

std::unexpected<slots::Error> system_failure(const std::string& doing) {
  return fail(Errc::Io, fmt::format("{}: {}", doing, std::strerror(errno)));
}

// The program's path, as execvp() would find it: looked up before the fork, where a message is
// still possible.
Result<std::string> find_program(const std::string& name) {
  std::vector<std::string> candidates;
  if (name.find('/') != std::string::npos) {
    candidates.push_back(name);
  } else if (const char* path = std::getenv("PATH"); path != nullptr) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const std::size_t colon = std::min(rest.find(':'), rest.size());
      if (colon > 0) candidates.push_back(fmt::format("{}/{}", rest.substr(0, colon), name));
      rest.remove_prefix(std::min(colon + 1, rest.size()));
    }
  }
  for (const std::string& candidate : candidates) {
    std::error_code error;
    if (std::filesystem::is_regular_file(candidate, error) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return fail(Errc::NotFound, name +
                                  " was not found: --dev starts redis-servers of its own; "
                                  "install one with: apt-get install redis-server");
}

// Bound without SO_REUSEPORT, so that another slotproxy's listener is seen as well.
Status check_port_free(const conf::Address& address) {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe < 0) return system_failure("looking for free ports");
  const int on = 1;
  ::setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(address.port);
  ::inet_pton(AF_INET, address.host.c_str(), &name.sin_addr);
  const int bound = ::bind(probe, reinterpret_cast<const sockaddr*>(&name), sizeof name);
  const int reason = errno;
  ::close(probe);
  if (bound == 0) return {};
  return fail(
      Errc::Conflict,
      fmt::format("port {} can't be listened on ({}): is another slotproxy running? "
                  "Other ports: slotproxy --dev --port {}",
                  address.port, std::strerror(reason),
                  address.port >= kUsualPort && address.port < kUsualPort + 1000 ? kUsualPort + 1000
                                                                                 : kUsualPort));
}

Status check_ports_free(const conf::Config& config) {
  if (auto status = check_port_free(config.listen.forward.front()); !status) return status;
  for (const conf::NodeConfig& node : config.nodes) {
    if (auto status = check_port_free(*node.endpoint); !status) return status;
  }
  return {};
}

// Takes the lock that lives as long as the process that uses `folder`: its descriptor, or -1 when
// somebody else has it (or, without `create`, when there is none yet).
int take_lock(const std::string& folder, bool create) {
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT | O_EXCL : 0);
  const int lock = ::open((folder + "/" + std::string(kLockName)).c_str(), flags, 0600);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  if (lock >= 0) ::close(lock);
  return -1;
}

// What dev clusters of this user left behind that had no time to clean up.
void remove_abandoned(const std::string& parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    struct stat facts{};
    if (!entry.path().filename().string().starts_with(kFolderPrefix) ||
        ::lstat(entry.path().c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) ||
        facts.st_uid != ::geteuid()) {
      continue;
    }
    const int lock = take_lock(entry.path(), false);
    if (lock < 0) continue;
    std::error_code ignored;
    std::filesystem::remove_all(entry.path(), ignored);
    ::close(lock);
  }
}

// The child's part: between fork and exec only async-signal-safe calls are allowed.
[[noreturn]] void become_server(pid_t parent, const char* folder, const char* const* arguments) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // It died before the line above could count.
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = ::open("/dev/null", O_RDONLY);
  if (input < 0 || ::chdir(folder) != 0) ::_exit(127);
  const int log = ::open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (log < 0) ::_exit(127);
  ::dup2(input, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execv(arguments[0], const_cast<char* const*>(arguments));
  ::_exit(127);
}

Result<pid_t> start_server(const std::string& program, const std::string& folder,
                           const std::string& socket_path) {
  if (::mkdir(folder.c_str(), 0700) != 0) return system_failure("making " + folder);
  const std::array<const char*, 14> arguments = {program.c_str(),
                                                 "--port",
                                                 "0",
                                                 "--unixsocket",
                                                 socket_path.c_str(),
                                                 "--unixsocketperm",
                                                 "700",
                                                 "--save",
                                                 "",
                                                 "--appendonly",
                                                 "no",
                                                 "--daemonize",
                                                 "no",
                                                 nullptr};
  if (socket_path.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(Errc::InvalidArgument, socket_path + " is too long for the path of a socket");
  }
  const pid_t parent = ::getpid();
  // No signal may find the child with handlers that are the parent's.
  sigset_t all;
  sigset_t usual;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &usual);
  const pid_t child = ::fork();
  const int reason = errno;
  if (child == 0) become_server(parent, folder.c_str(), arguments.data());
  ::pthread_sigmask(SIG_SETMASK, &usual, nullptr);
  errno = reason;
  if (child < 0) return system_failure("starting " + program);
  return child;
}

bool answers_ping(const std::string& socket_path) {
  const int connection = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0) return false;
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  ::setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socket_path.copy(name.sun_path, sizeof name.sun_path - 1);
  constexpr std::string_view kPing = "PING\r\n";
  std::array<char, 8> reply{};
  const bool answered =
      ::connect(connection, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0 &&
      ::send(connection, kPing.data(), kPing.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(kPing.size()) &&
      ::recv(connection, reply.data(), reply.size(), 0) > 0 && reply[0] == '+';
  ::close(connection);
  return answered;
}

// The end of what a server wrote, for a message about its early death.
std::string last_words(const std::string& folder) {
  std::ifstream log(folder + "/log");
  const std::string text{std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()};
  constexpr std::size_t kShown = 500;
  return text.size() > kShown ? text.substr(text.size() - kShown) : text;
}

// Waits until all of `servers` have ended or the time is over; those that ended leave the list.
void reap(std::vector<pid_t>& servers, Clock::duration patience) {
  const auto deadline = Clock::now() + patience;
  for (;;) {
    std::erase_if(servers, [](pid_t server) {
      const pid_t ended = ::waitpid(server, nullptr, WNOHANG);
      return ended == server || (ended < 0 && errno == ECHILD);
    });
    if (servers.empty() || Clock::now() >= deadline) return;
    std::this_thread::sleep_for(kPoll);
  }
}

std::string number_word(std::size_t number) {
  constexpr std::array<std::string_view, 10> kWords = {"no",   "one", "two",   "three", "four",
                                                       "five", "six", "seven", "eight", "nine"};
  return number < kWords.size() ? std::string(kWords[number]) : fmt::format("{}", number);
}

std::string with_thousands(std::size_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string endpoint_list(const std::vector<conf::NodeConfig>& nodes) {
  std::string list;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool is_left_out = nodes.size() > kListedEndpointsMax && i >= 3 && i + 1 < nodes.size();
    if (is_left_out) {
      if (i == 3) list += " · …";
      continue;
    }
    list += fmt::format("{}{} {}", i == 0 ? "" : " · ", nodes[i].endpoint->port, nodes[i].name);
  }
  return list;
}

}  // namespace

Result<conf::Config> dev_config(const DevOptions& options, const std::string& folder) {
  if (options.nodes < 1 || options.nodes > kDevNodesMax) {
    return fail(Errc::InvalidArgument,
                fmt::format("--dev {}: from 1 to {} nodes, please", options.nodes, kDevNodesMax));
  }
  if (options.port == 0 || options.port + options.nodes > 65535) {
    return fail(Errc::InvalidArgument,
                fmt::format("--port {}: {} ports from it on are needed, so from 1 to {}, please",
                            options.port, options.nodes + 1, 65535 - options.nodes));
  }
  const auto local = [&options](unsigned offset) {
    return conf::Address{
        .host = "127.0.0.1", .port = static_cast<std::uint16_t>(options.port + offset), .path = {}};
  };
  conf::Config config;
  config.cluster = "dev";
  config.listen.forward = {local(0)};
  config.listen.admin.path = options.port == kUsualPort
                                 ? std::string(kUsualAdmin)
                                 : fmt::format("/tmp/slotproxy/admin-{}.sock", options.port);
  config.state_dir = folder + "/state";
  config.log.level = conf::LogLevel::Warn;  // The banner is what there is to read.
  for (unsigned i = 0; i < options.nodes; ++i) {
    conf::NodeConfig node;
    node.name = std::string(1, static_cast<char>('a' + i));
    node.address.path = fmt::format("{}/{}.sock", folder, node.name);
    node.endpoint = local(i + 1);
    config.nodes.push_back(std::move(node));
  }
  return config;
}

std::string dev_banner(const conf::Config& config, slots::Epoch epoch, std::string_view slotctl) {
  const std::uint16_t port = config.listen.forward.front().port;
  const std::size_t count = config.nodes.size();
  const std::string& admin = config.listen.admin.path;
  const std::string cluster_clients =
      fmt::format("redis-cli -c -p {}", config.nodes.front().endpoint->port);
  return fmt::format(
      "slotproxy {} · cluster \"{}\" · {} node{} · {} slots · epoch {}\n"
      "  plain clients     redis-cli -p {}\n"
      "  cluster clients   {:<28}({})\n"
      "  operator          {}{} status\n"
      "ready. Ctrl-C stops the proxy and the {} it started.\n",
      SLOTPROXY_VERSION, config.cluster, count, count == 1 ? "" : "s",
      with_thousands(slots::kSlotCount), epoch, port, cluster_clients, endpoint_list(config.nodes),
      slotctl, admin == kUsualAdmin ? "" : " --admin " + admin,
      count == 1 ? "redis-server" : number_word(count) + " redis-servers");
}

Result<std::unique_ptr<DevCluster>> DevCluster::start(const DevOptions& options) {
  // Checked in full before anything is made.
  auto planned = dev_config(options, options.scratch_parent);
  if (!planned) return std::unexpected(std::move(planned).error());
  auto program = find_program(options.redis_server);
  if (!program) return std::unexpected(std::move(program).error());
  if (auto status = check_ports_free(*planned); !status) {
    return std::unexpected(std::move(status).error());
  }

  remove_abandoned(options.scratch_parent);
  std::string folder = fmt::format("{}/{}XXXXXX", options.scratch_parent, kFolderPrefix);
  if (::mkdtemp(folder.data()) == nullptr) return system_failure("making " + folder);
  std::unique_ptr<DevCluster> cluster(new DevCluster(folder, take_lock(folder, true)));
  if (cluster->lock_ < 0) return system_failure("locking " + folder);
  auto config = dev_config(options, folder);
  if (!config) return std::unexpected(std::move(config).error());
  cluster->config_ = std::move(*config);
  if (auto status = cluster->start_servers(*program); !status) {
    return std::unexpected(std::move(status).error());
  }
  if (auto status = cluster->await_servers(); !status) {
    return std::unexpected(std::move(status).error());
  }
  return cluster;
}

Status DevCluster::start_servers(const std::string& program) {
  for (const conf::NodeConfig& node : config_.nodes) {
    auto server = start_server(program, folder_ + "/" + node.name, node.address.path);
    if (!server) return std::unexpected(std::move(server).error());
    servers_.push_back(*server);
  }
  return {};
}

Status DevCluster::await_servers() {
  const auto deadline = Clock::now() + kStartTime;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    const conf::NodeConfig& node = config_.nodes[i];
    while (!answers_ping(node.address.path)) {
      if (::waitpid(servers_[i], nullptr, WNOHANG) == servers_[i]) {
        servers_.erase(servers_.begin() + static_cast<std::ptrdiff_t>(i));
        return fail(Errc::Io, fmt::format("redis-server of node {} ended at once: {}", node.name,
                                          last_words(folder_ + "/" + node.name)));
      }
      if (Clock::now() >= deadline) {
        return fail(Errc::Timeout,
                    fmt::format("redis-server of node {} did not answer within {} s: {}", node.name,
                                kStartTime.count(), last_words(folder_ + "/" + node.name)));
      }
      std::this_thread::sleep_for(kPoll);
    }
  }
  return {};
}

DevCluster::~DevCluster() {
  for (const int number : {SIGTERM, SIGKILL}) {
    for (const pid_t server : servers_) {
      ::kill(server, number);
      ::kill(server, SIGCONT);  // One that somebody stopped to see what happens can end, too.
    }
    reap(servers_, kEndTime);
    if (servers_.empty()) break;
  }
  std::error_code ignored;  // What can't be removed from /tmp is no reason to fail at the end.
  std::filesystem::remove_all(folder_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace proxy
