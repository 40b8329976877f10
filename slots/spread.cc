#include "slots/spread.h"

#include <algorithm>
#include <numeric>

namespace slots {

std::vector<double> fair_shares(const std::vector<double>& weights, double load) {
  const double largest = std::ranges::max(weights);
  double sum = 0;  // In units of the largest weight: the sum of huge weights would overflow.
  for (const double weight : weights) sum += weight / largest;
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(load * (weight / largest / sum));
  return shares;
}

double spread_of(const std::vector<double>& loads, const std::vector<double>& weights) {
  const std::vector<double> shares =
      fair_shares(weights, std::accumulate(loads.begin(), loads.end(), 0.0));
  double largest = 1;
  for (std::size_t node = 0; node < weights.size(); ++node) {
    if (shares[node] > 0) largest = std::max(largest, loads[node] / shares[node]);
  }
  return largest;
}

}  // namespace slots
