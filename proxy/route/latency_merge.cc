#include "proxy/route/latency_merge.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <ranges>
#include <vector>

#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"

namespace proxy::route {

namespace {

using resp::ReplyCursor;

// Pairs of a map, which RESP2 sends as an array.
std::optional<std::int64_t> read_pairs(ReplyCursor& cursor) {
  const auto header = cursor.read_header();
  if (!header || (header->type != '*' && header->type != '%')) return std::nullopt;
  if (header->type == '%') return header->count;
  if (header->count % 2 != 0) return std::nullopt;
  return header->count / 2;
}

std::optional<std::int64_t> read_array(ReplyCursor& cursor) {
  const auto header = cursor.read_header();
  if (!header || header->type != '*') return std::nullopt;
  return header->count;
}

// One command at one node: microseconds to the calls that took no longer.
using Buckets = std::map<std::int64_t, std::int64_t>;

struct Histogram {
  std::int64_t calls = 0;
  std::vector<Buckets> of_nodes;
};

bool read_histogram(ReplyCursor& cursor, Histogram& into) {
  const auto fields = read_pairs(cursor);
  if (!fields) return false;
  for (std::int64_t field = 0; field < *fields; ++field) {
    const auto name = cursor.read_bulk();
    if (!name) return false;
    if (*name == "calls") {
      const auto calls = cursor.read_integer();
      if (!calls) return false;
      into.calls += *calls;
    } else if (*name == "histogram_usec") {
      const auto pairs = read_pairs(cursor);
      if (!pairs) return false;
      Buckets& buckets = into.of_nodes.emplace_back();
      for (std::int64_t i = 0; i < *pairs; ++i) {
        const auto us = cursor.read_integer();
        const auto calls = cursor.read_integer();
        if (!us || !calls) return false;
        buckets[*us] = *calls;
      }
    } else if (!cursor.skip()) {
      return false;
    }
  }
  return true;
}

// A node names only those buckets at which its count grows.
Buckets sum_of(const std::vector<Buckets>& of_nodes) {
  Buckets sum;
  for (const Buckets& buckets : of_nodes) {
    for (const std::int64_t us : buckets | std::views::keys) sum[us] = 0;
  }
  for (auto& [us, calls] : sum) {
    for (const Buckets& buckets : of_nodes) {
      const auto after = buckets.upper_bound(us);
      if (after != buckets.begin()) calls += std::prev(after)->second;
    }
  }
  return sum;
}

struct Spikes {
  std::int64_t newest_at = 0;
  std::int64_t newest_ms = 0;
  std::int64_t longest_ms = 0;
};

}  // namespace

std::optional<std::string> merge_latency_histograms(std::span<const std::string_view> replies,
                                                    bool resp3) {
  std::vector<std::string_view> order;  // As the nodes name them.
  std::map<std::string_view, Histogram> commands;
  for (const std::string_view reply : replies) {
    ReplyCursor cursor(reply);
    const auto pairs = read_pairs(cursor);
    if (!pairs) return std::nullopt;
    for (std::int64_t i = 0; i < *pairs; ++i) {
      const auto name = cursor.read_bulk();
      if (!name) return std::nullopt;
      const auto [place, is_new] = commands.try_emplace(*name);
      if (is_new) order.push_back(*name);
      if (!read_histogram(cursor, place->second)) return std::nullopt;
    }
  }
  std::string out;
  resp::ReplyWriter writer(out, resp3);
  writer.map(order.size());
  for (const std::string_view name : order) {
    const Histogram& histogram = commands[name];
    writer.bulk(name);
    writer.map(2);
    writer.bulk("calls");
    writer.integer(histogram.calls);
    writer.bulk("histogram_usec");
    const Buckets sum = sum_of(histogram.of_nodes);
    writer.map(sum.size());
    for (const auto& [us, calls] : sum) {
      writer.integer(us);
      writer.integer(calls);
    }
  }
  return out;
}

std::optional<std::string> merge_latency_latest(std::span<const std::string_view> replies) {
  std::map<std::string_view, Spikes> events;
  for (const std::string_view reply : replies) {
    ReplyCursor cursor(reply);
    const auto count = read_array(cursor);
    if (!count) return std::nullopt;
    for (std::int64_t i = 0; i < *count; ++i) {
      if (read_array(cursor) != 4) return std::nullopt;
      const auto name = cursor.read_bulk();
      const auto at = cursor.read_integer();
      const auto ms = cursor.read_integer();
      const auto longest_ms = cursor.read_integer();
      if (!name || !at || !ms || !longest_ms) return std::nullopt;
      Spikes& event = events[*name];
      if (*at >= event.newest_at) {
        event.newest_at = *at;
        event.newest_ms = *ms;
      }
      event.longest_ms = std::max(event.longest_ms, *longest_ms);
    }
  }
  std::string out;
  resp::ReplyWriter writer(out, false);
  writer.array(events.size());
  for (const auto& [name, event] : events) {
    writer.array(4);
    writer.bulk(name);
    writer.integer(event.newest_at);
    writer.integer(event.newest_ms);
    writer.integer(event.longest_ms);
  }
  return out;
}

std::optional<std::string> merge_latency_history(std::span<const std::string_view> replies) {
  std::map<std::int64_t, std::int64_t> spikes;  // Second to milliseconds.
  for (const std::string_view reply : replies) {
    ReplyCursor cursor(reply);
    const auto count = read_array(cursor);
    if (!count) return std::nullopt;
    for (std::int64_t i = 0; i < *count; ++i) {
      if (read_array(cursor) != 2) return std::nullopt;
      const auto at = cursor.read_integer();
      const auto ms = cursor.read_integer();
      if (!at || !ms) return std::nullopt;
      spikes[*at] = std::max(spikes[*at], *ms);
    }
  }
  std::string out;
  resp::ReplyWriter writer(out, false);
  writer.array(spikes.size());
  for (const auto& [at, ms] : spikes) {
    writer.array(2);
    writer.integer(at);
    writer.integer(ms);
  }
  return out;
}

}  // namespace proxy::route
