#include "proxy/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

namespace proxy {

void set_log_level(conf::LogLevel level) {
  switch (level) {
    case conf::LogLevel::Debug:
      return spdlog::set_level(spdlog::level::debug);
    case conf::LogLevel::Info:
      return spdlog::set_level(spdlog::level::info);
    case conf::LogLevel::Warn:
      return spdlog::set_level(spdlog::level::warn);
    case conf::LogLevel::Error:
      return spdlog::set_level(spdlog::level::err);
  }
}

slots::Status set_up_log(const conf::LogConfig& log) {
  try {
    auto logger = log.file.empty() ? spdlog::stderr_color_mt("slotproxy")
                                   : spdlog::basic_logger_mt("slotproxy", log.file);
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return slots::fail(slots::Errc::Io, std::string("log.file: ") + error.what());
  }
  set_log_level(log.level);
  return {};
}

}  // namespace proxy
