#include "proxy/session/tracking_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "proxy/resp/arguments.h"
#include "proxy/resp/reply_writer.h"

namespace proxy::session {

namespace {

slots::Status bad(std::string text) {
  return slots::fail(slots::Errc::InvalidArgument, std::move(text));
}

bool overlap(std::string_view a, std::string_view b) {
  const std::size_t size = std::min(a.size(), b.size());
  return a.substr(0, size) == b.substr(0, size);
}

slots::Status check_prefixes(const std::vector<std::string>& wanted, const Prefixes& prefixes) {
  constexpr std::string_view kText =
      "ERR Prefix '{}' overlaps with {} prefix '{}'. Prefixes for a single client must not "
      "overlap.";
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const std::string& prefix : prefixes) {
      if (overlap(prefix, wanted[i]))
        return bad(fmt::format(kText, wanted[i], "an existing", prefix));
    }
    for (std::size_t k = i + 1; k < wanted.size(); ++k) {
      if (overlap(wanted[i], wanted[k]))
        return bad(fmt::format(kText, wanted[i], "another provided", wanted[k]));
    }
  }
  return {};
}

}  // namespace

TrackingWords read_tracking_words(resp::Args words) {
  TrackingWords read;
  TrackingOptions& options = read.options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool has_value = i + 1 < words.size();
    if (resp::is_word(words[i], "redirect") && has_value) {
      if (options.redirect != 0) {
        read.error = "ERR A client can only redirect to a single other client";
        return read;
      }
      const auto id = resp::integer_of(words[++i]);
      if (!id) {
        read.error = resp::errors::kNotInteger;
        return read;
      }
      if (*id <= 0) {  // No client has such an id.
        read.error = kNoRedirectTarget;
        return read;
      }
      options.redirect = static_cast<std::uint64_t>(*id);
    } else if (resp::is_word(words[i], "bcast")) {
      options.is_broadcast = true;
    } else if (resp::is_word(words[i], "optin")) {
      options.opt_in = true;
    } else if (resp::is_word(words[i], "optout")) {
      options.opt_out = true;
    } else if (resp::is_word(words[i], "noloop")) {
      options.no_loop = true;
    } else if (resp::is_word(words[i], "prefix") && has_value) {
      read.prefixes.emplace_back(words[++i]);
    } else {
      read.error = resp::errors::kSyntax;
      return read;
    }
  }
  return read;
}

slots::Status check_tracking(const TrackingWords& wanted, const TrackingOptions* now,
                             const Prefixes& prefixes) {
  const TrackingOptions& options = wanted.options;
  if (!options.is_broadcast && !wanted.prefixes.empty())
    return bad("ERR PREFIX option requires BCAST mode to be enabled");
  if (now != nullptr && now->is_broadcast != options.is_broadcast) {
    return bad(
        "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and "
        "then re-enabling it with a different mode.");
  }
  if (options.is_broadcast && (options.opt_in || options.opt_out))
    return bad("ERR OPTIN and OPTOUT are not compatible with BCAST");
  if (options.opt_in && options.opt_out)
    return bad("ERR You can't specify both OPTIN mode and OPTOUT mode");
  if (now != nullptr && ((options.opt_in && now->opt_out) || (options.opt_out && now->opt_in))) {
    return bad(
        "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and "
        "then re-enabling it with a different mode.");
  }
  if (options.is_broadcast) return check_prefixes(wanted.prefixes, prefixes);
  return {};
}

}  // namespace proxy::session
