// Written: which options stand in the file, where and in which words, so that a check can point at
// them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "conf/yaml_tree.h"

namespace conf {

// Options go by their full path, as messages show it: "listen.admin", "nodes[1].slots",
// "nodes[1].slots[0]".
class Written {
 public:
  struct Value {
    Place place;
    std::string text;  // Of a scalar.
    bool is_good =
        true;  // False once a mistake in it was reported: what follows from it is no news.
  };

  void put(const std::string& path, Place place, std::string text) {
    values_[path] = {place, std::move(text), true};
  }
  void mark_bad(const std::string& path) {
    if (const auto found = values_.find(path); found != values_.end())
      found->second.is_good = false;
  }

  [[nodiscard]] bool has(const std::string& path) const { return values_.contains(path); }
  [[nodiscard]] bool is_good(const std::string& path) const {
    const auto found = values_.find(path);
    return found != values_.end() && found->second.is_good;
  }
  [[nodiscard]] std::string_view text(const std::string& path) const {
    const auto found = values_.find(path);
    return found == values_.end() ? std::string_view{} : std::string_view(found->second.text);
  }
  // Where the option stands; for one that is not written, where what encloses it begins.
  [[nodiscard]] Place place(std::string path) const {
    while (!path.empty()) {
      if (const auto found = values_.find(path); found != values_.end()) return found->second.place;
      const std::size_t end = path.find_last_of(".[");
      path.resize(end == std::string::npos ? 0 : end);
    }
    return {1, 1};
  }

 private:
  std::map<std::string, Value> values_;
};

}  // namespace conf
