#include "proxy/control/function_copy.h"

#include <utility>

namespace proxy::control {

FunctionCopy::FunctionCopy(uv_loop_t* loop, AskedNode source, AskedNode target,
                           std::string client_name, conf::Milliseconds connect,
                           conf::Milliseconds answer, std::function<void(slots::Status)> done)
    : source_(std::move(source)),
      target_(std::move(target)),
      client_name_(std::move(client_name)),
      connect_(connect),
      answer_(answer),
      done_(std::move(done)),
      from_(loop),
      to_(loop) {
  ask(from_, source_, {"FUNCTION", "DUMP"}, [this](const Reply& dump) {
    if (!dump.is_string()) return end({});
    ask(to_, target_, {"FUNCTION", "RESTORE", dump.text, "REPLACE"}, [this](const Reply& restored) {
      if (!restored.is_error()) return end({});
      end(slots::fail(slots::Errc::Unavailable, target_.name + " does not take the functions of " +
                                                    source_.name + ": " + restored.text));
    });
  });
}

void FunctionCopy::ask(NodeClient& client, const AskedNode& node, Command command,
                       std::function<void(const Reply&)> next) {
  client.connect(node.address, connect_,
                 [this, &client, &node, command = std::move(command),
                  next = std::move(next)](slots::Status connected) {
                   if (!connected) return end(std::move(connected));
                   client.log_in(node.username, node.password, client_name_, answer_,
                                 [this, &client, command, next](slots::Status in) {
                                   if (!in) return end(std::move(in));
                                   client.call(
                                       command, answer_, [this, next](slots::Result<Reply> reply) {
                                         if (!reply)
                                           return end(std::unexpected(std::move(reply).error()));
                                         next(*reply);
                                       });
                                 });
                 });
}

void FunctionCopy::end(slots::Status status) {
  if (done_) std::exchange(done_, nullptr)(std::move(status));
}

}  // namespace proxy::control
