// Spread: how unevenly a load lies on nodes. Pure.
#pragma once

#include <vector>

namespace slots {

// The load of each node when every share follows its weight. At least one weight above 0.
[[nodiscard]] std::vector<double> fair_shares(const std::vector<double>& weights, double load);

// Largest over fair share; 1 is perfect. `loads`: of each node, beside its weight.
[[nodiscard]] double spread_of(const std::vector<double>& loads,
                               const std::vector<double>& weights);

}  // namespace slots
