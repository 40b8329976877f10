#include "proxy/control/node_reply.h"

#include <utility>

namespace proxy::control {

namespace {

void append_header(std::string& out, char type, std::int64_t value) {
  out += type;
  out += std::to_string(value);
  out += "\r\n";
}

void append_bulk(std::string& out, std::string_view text) {
  append_header(out, '$', static_cast<std::int64_t>(text.size()));
  out += text;
  out += "\r\n";
}

void append_line(std::string& out, char type, std::string_view text) {
  out += type;
  out += text;
  out += "\r\n";
}

void append_reply(std::string& out, const Reply& reply) {
  switch (reply.type) {
    case Reply::Type::Nil:
      out += "$-1\r\n";
      return;
    case Reply::Type::Status:
      return append_line(out, '+', reply.text);
    case Reply::Type::Error:
      return append_line(out, '-', reply.text);
    case Reply::Type::Integer:
      return append_header(out, ':', reply.integer);
    case Reply::Type::String:
      return append_bulk(out, reply.text);
    case Reply::Type::Array:
      append_header(out, '*', static_cast<std::int64_t>(reply.elements.size()));
      for (const Reply& element : reply.elements) append_reply(out, element);
      return;
  }
}

Reply reply_of(Reply::Type type, std::string text) {
  Reply reply;
  reply.type = type;
  reply.text = std::move(text);
  return reply;
}

}  // namespace

std::string_view Reply::error_word() const {
  if (!is_error()) return {};
  return std::string_view(text).substr(0, text.find(' '));
}

Reply Reply::status(std::string text) { return reply_of(Type::Status, std::move(text)); }
Reply Reply::error(std::string text) { return reply_of(Type::Error, std::move(text)); }
Reply Reply::string(std::string text) { return reply_of(Type::String, std::move(text)); }

Reply Reply::integer_of(std::int64_t value) {
  Reply reply;
  reply.type = Type::Integer;
  reply.integer = value;
  return reply;
}

Reply Reply::array(std::vector<Reply> elements) {
  Reply reply;
  reply.type = Type::Array;
  reply.elements = std::move(elements);
  return reply;
}

std::string encode_resp2(const Reply& reply) {
  std::string out;
  append_reply(out, reply);
  return out;
}

std::string encode_request(const Command& command) {
  std::string out;
  append_header(out, '*', static_cast<std::int64_t>(command.size()));
  for (const std::string& argument : command) append_bulk(out, argument);
  return out;
}

}  // namespace proxy::control
