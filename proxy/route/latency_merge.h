// What several nodes say to LATENCY, as one server would say it.
//
// Pure. Replies of a server that is no Redis give nothing.
// Protocol: https://redis.io/commands/latency-histogram/, latency-latest, latency-history
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace proxy::route {

// Each takes a whole RESP reply per node and makes one. Calls and buckets are added up.
[[nodiscard]] std::optional<std::string> merge_latency_histograms(
    std::span<const std::string_view> replies, bool resp3);
// Per event: the newest spike, and the longest of all.
[[nodiscard]] std::optional<std::string> merge_latency_latest(
    std::span<const std::string_view> replies);
// The spikes of one event in the order of time; of those of one second the longest.
[[nodiscard]] std::optional<std::string> merge_latency_history(
    std::span<const std::string_view> replies);

}  // namespace proxy::route
