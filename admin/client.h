// AdminClient: slotctl's connection to the daemon's admin port. Blocking.
//
// Errors: Unavailable when the daemon can't be reached or hangs up, Timeout when it does not
//         answer in time, Corrupt for an answer that is none of the admin protocol, and
//         InvalidArgument with the daemon's words for an error answer.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "conf/config.h"
#include "slots/result.h"

struct redisContext;  // NOLINT(readability-identifier-naming): hiredis named it.

namespace admin {

class AdminClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Connects, and logs in when there is a password and the address is TCP: a Unix socket needs
  // none. The timeout is for each of the two.
  [[nodiscard]] static slots::Result<AdminClient> open(const conf::Address& address,
                                                       const std::string& password,
                                                       Milliseconds timeout);

  // Sends one request and waits for its whole answer, no longer than `timeout`. After an error
  // other than an error answer the connection is of no more use.
  [[nodiscard]] slots::Result<std::string> call(const std::vector<std::string>& words,
                                                Milliseconds timeout);

 private:
  struct Closer {
    void operator()(redisContext* context) const;
  };

  AdminClient(redisContext* context, std::string address)
      : context_(context), address_(std::move(address)) {}

  [[nodiscard]] slots::Error failure() const;

  std::unique_ptr<redisContext, Closer> context_;
  std::string address_;
};

}  // namespace admin
