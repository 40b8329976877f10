#include "proxy/control/node_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace proxy::control {

namespace {

constexpr std::uint64_t kReplicaLagSecondsMax = 10;
constexpr std::size_t kPayloadFooterBytes = 10;  // Two of the version, eight of the checksum.

// Parts of `text` between marks, one after the other.
template <class Take>
void each_part(std::string_view text, char mark, Take take) {
  while (!text.empty()) {
    const std::size_t end = text.find(mark);
    take(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

// "ip=10.0.0.9,port=6379,state=online,offset=42,lag=0".
void take_replica(NodeFinding& finding, std::string_view text) {
  std::string ip;
  std::string port;
  std::string state;
  std::uint64_t lag = 0;
  each_part(text, ',', [&](std::string_view part) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos) return;
    const std::string_view name = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    if (name == "ip") ip = value;
    if (name == "port") port = value;
    if (name == "state") state = value;
    if (name == "lag") lag = number_of(value);
  });
  if (state != "online") {
    finding.late_replicas.push_back(fmt::format("{}:{} is not in step ({})", ip, port, state));
  } else if (lag > kReplicaLagSecondsMax) {
    finding.late_replicas.push_back(fmt::format("{}:{} is {} s behind", ip, port, lag));
  }
}

bool is_numbered(std::string_view name, std::string_view word) {
  return name.size() > word.size() && name.starts_with(word) &&
         name.find_first_not_of("0123456789", word.size()) == std::string_view::npos;
}

void take_fact(NodeFinding& finding, std::string_view name, std::string_view value) {
  if (name == "aof_enabled" || name == "connected_slaves") finding.is_persistent |= value != "0";
  if (name == "total_system_memory") finding.machine_memory = number_of(value);
  if (name == "aof_last_write_status" && value == "err")
    finding.persistence_problems.emplace_back("its last write to the AOF failed");
  if (name == "rdb_last_bgsave_status" && value == "err")
    finding.persistence_problems.emplace_back("its last RDB file could not be saved");
  if (is_numbered(name, "slave")) take_replica(finding, value);
  if (is_numbered(name, "db") && name != "db0") {
    finding.other_databases.push_back(number_of(name.substr(2)));
  }
}

// "normal 0 0 0 slave 268435456 67108864 60 ...": the smaller of the two limits of normal clients.
std::uint64_t reply_limit_of(std::string_view text) {
  std::vector<std::string_view> words;
  each_part(text, ' ', [&](std::string_view word) { words.push_back(word); });
  const auto normal = std::ranges::find(words, "normal");
  if (words.end() - normal < 3) return 0;
  const std::uint64_t hard = number_of(*(normal + 1));
  const std::uint64_t soft = number_of(*(normal + 2));
  return hard == 0 || soft == 0 ? std::max(hard, soft) : std::min(hard, soft);
}

struct Version {
  int major = 0;
  int minor = 0;
};

Version version_of(const NodeFinding& finding) {
  Version version;
  const std::string& text = finding.facts.version;
  const char* end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, version.major);
  if (error == std::errc{} && after != end) std::from_chars(after + 1, end, version.minor);
  return version;
}

}  // namespace

void take_info(NodeFinding& finding, const Reply& reply) {
  if (!reply.is_string()) {
    finding.problem = "does not answer INFO: " + reply.text;
    return;
  }
  finding.facts = parse_info(reply.text);
  each_part(reply.text, '\n', [&](std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos)
      take_fact(finding, line.substr(0, colon), line.substr(colon + 1));
  });
}

void take_time(NodeFinding& finding, const Reply& reply, std::int64_t sent_at_ms,
               std::int64_t now_ms) {
  if (!reply.is_array() || reply.elements.size() != 2) return;
  const std::int64_t seconds = std::atoll(reply.elements[0].text.c_str());
  const std::int64_t micros = std::atoll(reply.elements[1].text.c_str());
  finding.clock_ms_doubt = (now_ms - sent_at_ms + 1) / 2;
  finding.clock_ms_ahead = seconds * 1000 + micros / 1000 - (sent_at_ms + now_ms) / 2;
}

void take_config(NodeFinding& finding, const Reply& reply) {
  if (!reply.is_array() || reply.elements.size() != 2) return;
  const std::string& name = reply.elements[0].text;
  const std::string& value = reply.elements[1].text;
  if (name == "save") finding.is_persistent |= !value.empty();
  if (name == "databases") finding.databases = number_of(value);
  if (name == "maxmemory-clients") finding.evicts_clients = value != "0";
  if (name == "client-output-buffer-limit") finding.reply_limit = reply_limit_of(value);
}

void take_payload(NodeFinding& finding, const Reply& reply) {
  if (!reply.is_string() || reply.text.size() < kPayloadFooterBytes) return;
  const std::size_t at = reply.text.size() - kPayloadFooterBytes;
  const auto byte = [&](std::size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(reply.text[i]));
  };
  finding.payload_version = byte(at) | byte(at + 1) << 8U;
}

// Each library is a flat list of names and values in RESP2.
void take_libraries(NodeFinding& finding, const Reply& reply) {
  if (!reply.is_array()) return;
  for (const Reply& library : reply.elements) {
    std::string name;
    std::string code;
    for (std::size_t i = 0; i + 1 < library.elements.size(); i += 2) {
      if (library.elements[i].text == "library_name") name = library.elements[i + 1].text;
      if (library.elements[i].text == "library_code") code = library.elements[i + 1].text;
    }
    if (!name.empty()) finding.libraries[name] = code;
  }
}

int major_version(const NodeFinding& finding) { return version_of(finding).major; }

std::optional<unsigned> payload_version_of(const NodeFinding& finding) {
  if (finding.payload_version) return finding.payload_version;
  const auto [major, minor] = version_of(finding);
  if (major == 0 || major > 7) return std::nullopt;
  if (major < 7) return 9;
  return minor < 2 ? 10 : minor < 4 ? 11 : 12;
}

}  // namespace proxy::control
