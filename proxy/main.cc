// slotproxy: command line and start. Exit codes: 0 ended as asked, 1 failed at run time, 2 bad
// usage or configuration.

#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "proxy/dev.h"
#include "proxy/load_config.h"
#include "proxy/log.h"
#include "proxy/proxy.h"

namespace {

constexpr int kFailed = 1;
constexpr int kBadConfiguration = 2;

int complain(const std::string& message) {
  std::cerr << "slotproxy: " << message << "\n";
  return kBadConfiguration;
}

// As many descriptors as the system lets us have: each client needs one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(const conf::Config& config, const std::string& config_path,
        const std::function<void(proxy::Proxy&)>& on_ready) {
  ::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  if (auto ready = proxy::set_up_log(config.log); !ready) return complain(ready.error().message);
  auto opened = proxy::Proxy::open(config, config_path);
  if (!opened) return complain(opened.error().message);
  proxy::Proxy& proxy = **opened;
  return proxy.run([&] { on_ready(proxy); });
}

int run_dev(const proxy::DevOptions& options, const std::string& program) {
  auto cluster = proxy::DevCluster::start(options);
  if (!cluster) return complain(cluster.error().message);
  const conf::Config& config = (*cluster)->config();
  std::string folder = program.substr(0, program.find_last_of('/') + 1);
  return run(config, "", [&](proxy::Proxy& proxy) {
    std::cout << proxy::dev_banner(config, proxy.epoch(), folder + "slotctl") << std::flush;
  });
}

int load_and_run(const std::string& path, bool check_only) {
  auto loaded = proxy::load_config(path);
  if (!loaded) {
    std::size_t count = loaded.error().list.size();
    std::cerr << loaded.error().text() << "\n"
              << count << (count == 1 ? " mistake" : " mistakes")
              << (check_only ? "." : "; nothing was started.") << "\n";
    return kBadConfiguration;
  }
  if (check_only) {
    std::cout << path << ": no mistakes found\n";
    return 0;
  }
  return run(*loaded, path, [&](proxy::Proxy& proxy) {
    std::cout << "ready: cluster " << loaded->cluster << ", " << loaded->nodes.size()
              << " nodes, epoch " << proxy.epoch() << ", clients at "
              << loaded->listen.forward.front().text() << std::endl;
  });
}

int run_command_line(int argc, char** argv) {
  CLI::App app{"slotproxy: many ordinary Redis servers as one"};
  std::string config_path;
  std::string check_path;
  proxy::DevOptions dev;
  auto* config_option = app.add_option("--config", config_path, "Serve as this YAML file says");
  auto* check_option = app.add_option("--check", check_path, "Only check a YAML file");
  auto* dev_option =
      app.add_option("--dev", dev.nodes, "Try it: start this many redis-servers (3) and serve them")
          ->expected(0, 1)
          ->default_str("3");
  app.add_option("--port", dev.port,
                 "With --dev: the forward port (6400); the endpoints follow it");
  app.set_version_flag("--version", "slotproxy " SLOTPROXY_VERSION);
  app.footer("Exit codes: 0 ended as asked, 1 failed at run time, 2 bad usage or configuration.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadConfiguration;
  }
  int modes =
      (config_option->count() > 0) + (check_option->count() > 0) + (dev_option->count() > 0);
  if (modes != 1) return complain("say one of --config FILE, --check FILE or --dev; see --help");
  if (dev_option->count() > 0) return run_dev(dev, argv[0]);
  return check_option->count() > 0 ? load_and_run(check_path, true)
                                   : load_and_run(config_path, false);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command_line(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "slotproxy: %s\n", error.what());
    return kFailed;
  }
}
