#include "proxy/resp/reply_writer.h"

#include <fmt/format.h>

#include "slots/key_slot.h"

namespace proxy::resp {

void ReplyWriter::header(char type, std::int64_t number) {
  fmt::format_int text(number);
  out_.push_back(type);
  out_.append(text.data(), text.size());
  out_.append("\r\n", 2);
}

void ReplyWriter::simple(std::string_view text) {
  out_.push_back('+');
  out_.append(text);
  out_.append("\r\n", 2);
}

void ReplyWriter::error(std::string_view text) {
  out_.push_back('-');
  for (char c : text) out_.push_back(c == '\r' || c == '\n' ? ' ' : c);
  out_.append("\r\n", 2);
}

void ReplyWriter::integer(std::int64_t value) { header(':', value); }

void ReplyWriter::bulk(std::string_view bytes) { append_bulk(out_, bytes); }

void ReplyWriter::verbatim(std::string_view text) {
  if (!resp3_) return bulk(text);
  header('=', static_cast<std::int64_t>(text.size()) + 4);
  out_.append("txt:").append(text).append("\r\n", 2);
}

void ReplyWriter::null() { out_.append(resp3_ ? "_\r\n" : "$-1\r\n"); }
void ReplyWriter::array(std::size_t count) { header('*', static_cast<std::int64_t>(count)); }
void ReplyWriter::map(std::size_t pairs) {
  header(resp3_ ? '%' : '*', static_cast<std::int64_t>(resp3_ ? pairs : 2 * pairs));
}
void ReplyWriter::set(std::size_t count) {
  header(resp3_ ? '~' : '*', static_cast<std::int64_t>(count));
}

void append_array_header(std::string& out, std::size_t count) {
  fmt::format_int text(count);
  out.push_back('*');
  out.append(text.data(), text.size());
  out.append("\r\n", 2);
}

void append_bulk(std::string& out, std::string_view bytes) {
  fmt::format_int text(bytes.size());
  out.push_back('$');
  out.append(text.data(), text.size());
  out.append("\r\n", 2);
  out.append(bytes);
  out.append("\r\n", 2);
}

void append_request(std::string& out, std::initializer_list<std::string_view> args) {
  append_array_header(out, args.size());
  for (std::string_view arg : args) append_bulk(out, arg);
}

namespace errors {

std::string node_reply(std::string_view node, std::string_view address, std::string_view reason,
                       slots::SlotId slot) {
  std::string out;
  ReplyWriter writer(out, false);
  const bool has_slot = slot != slots::kNoSlot;
  std::string where = fmt::format("node {} ({})", node, address);
  if (reason.find(kLoadingReason.substr(3)) != std::string_view::npos) {
    if (has_slot) where += fmt::format(", slot {}", slot);
    writer.error(fmt::format("LOADING Redis is loading the dataset in memory ({})", where));
  } else if (reason == kBusyReason) {
    if (has_slot) where += fmt::format(", slot {}", slot);
    writer.error(fmt::format(
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
        "NOSAVE. ({})",
        where));
  } else {
    const std::string what = has_slot ? fmt::format("slot {}", slot) : "the command";
    writer.error(fmt::format("CLUSTERDOWN {} can't serve {}: {}", where, what, reason));
  }
  return out;
}

std::string outcome_unknown(std::string_view node, std::string_view address, std::string_view why) {
  return fmt::format("ERR outcome unknown: {} of node {} ({}); the command may or may not have run",
                     why, node, address);
}

std::string not_supported(std::string_view command, std::string_view why) {
  return fmt::format("ERR '{}' is not supported by slotproxy: {}", command, why);
}

std::string connections_in_use(std::string_view limit, std::string_view node) {
  return fmt::format("ERR all limits.{} connections to node {} are in use; try again", limit, node);
}

}  // namespace errors

}  // namespace proxy::resp
