#include "proxy/route/slowlog_merge.h"

#include <algorithm>
#include <vector>

#include "proxy/resp/reply_cursor.h"
#include "proxy/resp/reply_writer.h"

namespace proxy::route {

namespace {

struct Entry {
  std::int64_t id = 0;
  std::int64_t at_seconds = 0;
  std::int64_t fields = 0;
  std::string_view rest;  // RESP: all fields but the id.
};

std::optional<Entry> read_entry(resp::ReplyCursor& cursor) {
  Entry entry;
  const auto header = cursor.read_header();
  if (!header || header->type != '*' || header->count < 2) return std::nullopt;
  entry.fields = header->count;
  const auto id = cursor.read_integer();
  if (!id) return std::nullopt;
  entry.id = *id;
  const std::string_view time = cursor.read_raw();
  const auto at_seconds = resp::ReplyCursor(time).read_integer();
  if (!at_seconds) return std::nullopt;
  entry.at_seconds = *at_seconds;
  std::size_t bytes = time.size();
  for (std::int64_t i = 2; i < header->count; ++i) {
    const std::string_view field = cursor.read_raw();
    if (field.empty()) return std::nullopt;
    bytes += field.size();
  }
  entry.rest = {time.data(), bytes};
  return entry;
}

}  // namespace

std::optional<std::string> merge_slowlogs(std::span<const std::string_view> replies,
                                          std::uint64_t count) {
  std::vector<Entry> entries;
  const auto nodes = static_cast<std::int64_t>(replies.size());
  for (std::int64_t node = 0; node < nodes; ++node) {
    resp::ReplyCursor cursor(replies[static_cast<std::size_t>(node)]);
    const auto header = cursor.read_header();
    if (!header || header->type != '*') return std::nullopt;
    for (std::int64_t i = 0; i < header->count; ++i) {
      auto entry = read_entry(cursor);
      if (!entry) return std::nullopt;
      entry->id = entry->id * nodes + node;
      entries.push_back(*entry);
    }
  }
  // Each node's own order is kept: of entries of one second the first is the newest.
  std::ranges::stable_sort(entries, std::ranges::greater{}, &Entry::at_seconds);
  if (entries.size() > count) entries.resize(count);
  std::string out;
  resp::ReplyWriter writer(out, false);
  writer.array(entries.size());
  for (const Entry& entry : entries) {
    writer.array(static_cast<std::size_t>(entry.fields));
    writer.integer(entry.id);
    writer.raw(entry.rest);
  }
  return out;
}

}  // namespace proxy::route
