// check(): what no single option can know: required keys, names and addresses used twice, slots
// that overlap or are left out, options that need or exclude each other.
#pragma once

#include <vector>

#include "conf/config.h"
#include "conf/loader.h"
#include "conf/written.h"

namespace conf {

// `config` holds what could be read; options whose mistakes were reported already are marked bad in
// `written`, and nothing that follows from them is reported.
[[nodiscard]] std::vector<Mistake> check(const Config& config, const Written& written);

// The part about slots: overlaps, gaps, owners of weight 0.
[[nodiscard]] std::vector<Mistake> check_slots(const Config& config, const Written& written);

// The part about addresses: used twice, the proxy's own, of no use to cluster clients.
[[nodiscard]] std::vector<Mistake> check_addresses(const Config& config, const Written& written);

}  // namespace conf
