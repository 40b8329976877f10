// ReplyWriter: the replies that the proxy itself says, in the client's protocol version.
//
// Every error that is the proxy's own is named here once, with Redis's leading word where clients
// look at it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "slots/slot.h"

namespace proxy::resp {

class ReplyWriter {
 public:
  // Appends to `out`, which must outlive the writer.
  ReplyWriter(std::string& out, bool resp3) : out_(out), resp3_(resp3) {}

  void simple(std::string_view text);
  void error(std::string_view text);  // Without the leading '-'; line breaks become blanks.
  void integer(std::int64_t value);
  void bulk(std::string_view bytes);
  void verbatim(std::string_view text);  // A bulk in RESP2.
  void null();
  void array(std::size_t count);
  void map(std::size_t pairs);  // An array of 2 * pairs in RESP2.
  void set(std::size_t count);
  void raw(std::string_view bytes) { out_.append(bytes); }

 private:
  void header(char type, std::int64_t number);

  std::string& out_;
  bool resp3_;
};

// What stands for an array that there is none of (EXEC, BLPOP), a whole reply.
[[nodiscard]] constexpr std::string_view null_array(bool resp3) {
  return resp3 ? "_\r\n" : "*-1\r\n";
}

// Appends the RESP form of a request.
void append_request(std::string& out, std::initializer_list<std::string_view> args);
void append_bulk(std::string& out, std::string_view bytes);
void append_array_header(std::string& out, std::size_t count);

// Error texts of the proxy's own, without '-' and CRLF.
namespace errors {
inline constexpr std::string_view kCrossSlot =
    "CROSSSLOT Keys in request don't hash to the same slot";
inline constexpr std::string_view kClusterDisabled =
    "ERR This instance has cluster support disabled";
inline constexpr std::string_view kNoAuth = "NOAUTH Authentication required.";
inline constexpr std::string_view kWrongPass =
    "WRONGPASS invalid username-password pair or user is disabled.";
inline constexpr std::string_view kReservedKey =
    "ERR keys that begin with __slotproxy: are reserved for the proxy itself";
inline constexpr std::string_view kDatabaseRange = "ERR DB index is out of range";
inline constexpr std::string_view kSelectInCluster = "ERR SELECT is not allowed in cluster mode";
inline constexpr std::string_view kNodeLeft =
    "CLUSTERDOWN this endpoint's node is not in the map any more";
inline constexpr std::string_view kSyntax = "ERR syntax error";
inline constexpr std::string_view kNotInteger = "ERR value is not an integer or out of range";

// A node that is loading its data set is no outage: clients know LOADING, and wait.
inline constexpr std::string_view kLoadingReason = "is loading its data set";
// Nor is one that is busy with a script: clients know BUSY, and what they can do then.
inline constexpr std::string_view kBusyReason = "is busy running a script";
// Whole error replies, '-' and CRLF included. The slot may be kNoSlot.
std::string node_reply(std::string_view node, std::string_view address, std::string_view reason,
                       slots::SlotId slot);
std::string outcome_unknown(std::string_view node, std::string_view address, std::string_view why);
std::string not_supported(std::string_view command, std::string_view why);
// `limit`: of limits in the YAML, the one of this kind of connection.
std::string connections_in_use(std::string_view limit, std::string_view node);
}  // namespace errors

}  // namespace proxy::resp
