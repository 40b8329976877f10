#include "proxy/control/key_sampler.h"

#include <algorithm>
#include <utility>

#include "proxy/resp/reserved_key.h"
#include "slots/key_slot.h"

namespace proxy::control {

namespace {

constexpr const char* kKeysPerScan = "100";

// "groups" of XINFO STREAM, a flat list of names and values in RESP2.
std::uint64_t groups_of(const Reply& stream) {
  for (std::size_t i = 0; i + 1 < stream.elements.size(); i += 2) {
    if (stream.elements[i].text == "groups")
      return static_cast<std::uint64_t>(std::max<std::int64_t>(stream.elements[i + 1].integer, 0));
  }
  return 0;
}

}  // namespace

void take_largest(std::vector<SampledKey>& largest, const SampledKey& key) {
  // SCAN shows keys twice while the node's table grows or shrinks.
  if (std::ranges::find(largest, key.name, &SampledKey::name) != largest.end()) return;
  const auto place = std::ranges::find_if(
      largest, [&](const SampledKey& other) { return other.bytes < key.bytes; });
  largest.insert(place, key);
  if (largest.size() > KeySample::kNamedMax) largest.pop_back();
}

KeySampler::KeySampler(uv_loop_t* loop, std::vector<SampledNode> nodes, std::string client_name,
                       conf::Milliseconds connect, conf::Milliseconds answer,
                       conf::Milliseconds time, std::function<void(KeySamples)> done)
    : loop_(loop),
      client_name_(std::move(client_name)),
      connect_(connect),
      answer_(answer),
      done_(std::move(done)),
      ends_at_ms_(uv_now(loop) + static_cast<std::uint64_t>(time.count())),
      waiting_(nodes.size()) {
  for (SampledNode& sampled : nodes) {
    Node& node = nodes_.emplace_back();
    node.sampled = std::move(sampled);
    node.client = std::make_unique<NodeClient>(loop);
    node.pause = std::make_unique<net::LoopTimer>(loop);
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) start(i);
}

void KeySampler::start(std::size_t index) {
  Node& node = nodes_[index];
  node.client->on_lost([this, index](const slots::Error&) { end(index); });
  node.client->connect(node.sampled.asked.address, connect_, [this, index](slots::Status open) {
    if (!open) return end(index);
    const AskedNode& asked = nodes_[index].sampled.asked;
    nodes_[index].client->log_in(asked.username, asked.password, client_name_, answer_,
                                 [this, index](slots::Status in) {
                                   if (!in) return end(index);
                                   nodes_[index].has_begun = true;
                                   scan(index);
                                 });
  });
}

void KeySampler::scan(std::size_t index) {
  Node& node = nodes_[index];
  node.asked_at_ms = uv_now(loop_);
  node.page.clear();
  ask(index, {"SCAN", node.cursor, "COUNT", kKeysPerScan},
      [this, index](const Reply& reply) { on_page(index, reply); });
}

void KeySampler::on_page(std::size_t index, const Reply& reply) {
  Node& node = nodes_[index];
  if (!reply.is_array() || reply.elements.size() != 2 || !reply.elements[1].is_array())
    return end(index);
  node.cursor = reply.elements[0].text;
  node.page.reserve(reply.elements[1].elements.size());
  for (const Reply& name : reply.elements[1].elements) {
    if (resp::is_reserved_key(name.text)) continue;
    const slots::SlotId slot = slots::slot_of_key(name.text);
    if (node.sampled.slots.contains(slot)) node.page.push_back({name.text, slot, {}, 0, 0});
  }
  for (std::size_t i = 0; i < node.page.size(); ++i) {
    SampledKey& key = node.page[i];
    ask(index, {"MEMORY", "USAGE", key.name}, [&key](const Reply& usage) {
      key.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(usage.integer, 0));
    });
    ask(index, {"TYPE", key.name}, [this, index, &key](const Reply& type) {
      key.type = type.text;
      if (type.text != "stream") return;
      ask(index, {"XINFO", "STREAM", key.name},
          [&key](const Reply& stream) { key.groups = groups_of(stream); });
    });
  }
}

void KeySampler::ask(std::size_t index, const Command& command,
                     std::function<void(const Reply&)> take) {
  ++nodes_[index].waiting;
  nodes_[index].client->call(command, answer_,
                             [this, index, take = std::move(take)](slots::Result<Reply> reply) {
                               if (!reply) return end(index);
                               take(*reply);
                               if (nodes_[index].has_ended) return;
                               if (--nodes_[index].waiting == 0) on_measured(index);
                             });
}

void KeySampler::on_measured(std::size_t index) {
  Node& node = nodes_[index];
  for (const SampledKey& key : node.page) {
    if (key.bytes == 0) continue;  // Gone meanwhile.
    ++node.sample.keys;
    node.sample.bytes += key.bytes;
    take_largest(node.sample.largest, key);
    if (key.groups == 0) continue;
    ++node.sample.streams_with_groups;
    take_largest(node.sample.streams, key);
  }
  node.sample.is_whole = node.cursor == "0";
  const std::uint64_t now_ms = uv_now(loop_);
  if (node.sample.is_whole || now_ms >= ends_at_ms_) return end(index);
  // As long idle as the node was asked to work.
  node.pause->start(conf::Milliseconds(static_cast<std::int64_t>(now_ms - node.asked_at_ms)),
                    [this, index] { scan(index); });
}

void KeySampler::end(std::size_t index) {
  Node& node = nodes_[index];
  if (node.has_ended) return;
  node.has_ended = true;
  if (--waiting_ > 0) return;
  KeySamples samples;
  for (Node& each : nodes_) {
    if (each.has_begun) samples[each.sampled.asked.name] = std::move(each.sample);
  }
  done_(std::move(samples));
}

}  // namespace proxy::control
