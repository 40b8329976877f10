#include "proxy/control/plan_surveys.h"

#include <utility>

namespace proxy::control {

namespace {

constexpr conf::Milliseconds kSampleTime{1000};

}  // namespace

const KeySamples& PlanSurveys::of(slots::PlanId plan) const {
  static const KeySamples kNothing;
  const auto known = known_.find(plan);
  return known == known_.end() ? kNothing : known->second;
}

void PlanSurveys::forget_others(const ClusterState& state) {
  std::erase_if(known_, [&](const auto& each) { return !state.plans.contains(each.first); });
}

void PlanSurveys::sample(slots::PlanId plan, std::vector<SampledNode> nodes, Patience patience,
                         std::function<void()> done) {
  const std::uint64_t number = next_work_++;
  works_[number] = std::make_unique<KeySampler>(
      loop_, std::move(nodes), client_name_, patience.connect, patience.answer, kSampleTime,
      [this, number, plan, done = std::move(done)](KeySamples samples) {
        put_away(number);
        known_[plan] = std::move(samples);
        done();
      });
}

// Not from inside its own completion.
void PlanSurveys::put_away(std::uint64_t number) {
  over_.push_back(number);
  sweeper_.start(std::chrono::milliseconds(0), [this] {
    for (const std::uint64_t over : std::exchange(over_, {})) works_.erase(over);
  });
}

}  // namespace proxy::control
