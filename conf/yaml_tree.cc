#include "conf/yaml_tree.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "conf/words.h"
#include "conf/yaml_text.h"

namespace conf {
namespace {

using ValuePtr = std::shared_ptr<const YamlValue>;
using Kind = YamlValue::Kind;

// Leaves yaml-cpp's parser from within one of its callbacks; caught in read_yaml().
struct StopReading {
  Mistake mistake;
};

// Whether the text begins with a quote that nothing in it closes.
bool has_open_quote(std::string_view text) {
  if (text.empty() || (text.front() != '"' && text.front() != '\'')) return false;
  const char quote = text.front();
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (text[i] == quote) {
      const bool is_doubled = quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
      if (!is_doubled) return false;
      ++i;
    }
  }
  return true;
}

// Builds the tree from the parser's events.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const TextLines& lines) : lines_(lines) {}

  [[nodiscard]] ValuePtr root() const { return root_; }
  // Where the innermost "[" or "{" that is still open stands.
  [[nodiscard]] std::optional<Place> open_bracket() const {
    for (auto frame = open_.rbegin(); frame != open_.rend(); ++frame) {
      if (frame->is_flow) return frame->value->place;
    }
    return {};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    const Place place = place_of(mark);
    if (lines_.line(place.line).starts_with("---")) {
      stop(place, "a second YAML document begins here; a configuration is one document");
    }
    stop(place, "this line belongs to nothing above it; check its indentation");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Place place = place_of(mark);
    // A value that is left out is reported at whatever comes next, lines below; it belongs to its
    // key.
    if (const Frame* frame = innermost();
        frame != nullptr && frame->key && frame->key->place.line != place.line) {
      place = frame->key->place;
    }
    finish(std::make_shared<YamlValue>(YamlValue{Kind::Null, place, {}, {}, {}}), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const Place place = place_of(mark);
    check_tag(place, tag);
    // yaml-cpp takes the end of the file for a closing quote when a line break comes before it.
    if (has_open_quote(lines_.rest(mark.line, mark.column))) {
      stop(place, "not YAML: the quote that opens here is not closed");
    }
    finish(std::make_shared<YamlValue>(YamlValue{Kind::Scalar, place, text, {}, {}}), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchors_.find(anchor);
    if (known == anchors_.end()) stop(place_of(mark), "this alias stands inside what it refers to");
    place_into_parent(known->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(Kind::List, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(Kind::Map, mark, tag, anchor, style);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    std::shared_ptr<YamlValue> value;
    YAML::anchor_t anchor = 0;
    bool is_flow = false;
    ValuePtr key;  // Map: the key whose value is awaited.
  };

  [[noreturn]] static void stop(Place place, std::string message) {
    throw StopReading{{place.line, place.column, std::move(message)}};
  }

  [[nodiscard]] Place place_of(const YAML::Mark& mark) const {
    return lines_.place(mark.line, mark.column);
  }
  [[nodiscard]] const Frame* innermost() const { return open_.empty() ? nullptr : &open_.back(); }

  // "?" and "!" are yaml-cpp's words for plain and quoted.
  static void check_tag(Place place, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:")) return;
    stop(place,
         fmt::format("the tag {} means nothing here; write the value alone", in_quotes(tag)));
  }

  void open(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    const Place place = place_of(mark);
    check_tag(place, tag);
    if (open_.size() >= kYamlDepthMax) {
      stop(place,
           fmt::format("nested more than {} levels deep; a configuration needs 4", kYamlDepthMax));
    }
    auto value = std::make_shared<YamlValue>(YamlValue{kind, place, {}, {}, {}});
    open_.push_back({std::move(value), anchor, style == YAML::EmitterStyle::Flow, nullptr});
  }

  void close() {
    Frame frame = std::move(open_.back());
    open_.pop_back();
    finish(std::move(frame.value), frame.anchor);
  }

  // Anchors are known only once their value is whole, so that no value can contain itself.
  void finish(ValuePtr value, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = value;
    place_into_parent(std::move(value));
  }

  void place_into_parent(ValuePtr value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& parent = open_.back();
    if (parent.value->kind == Kind::List) {
      parent.value->items.push_back(std::move(value));
    } else if (!parent.key) {
      parent.key = std::move(value);
    } else {
      parent.value->entries.push_back({std::exchange(parent.key, nullptr), std::move(value)});
    }
  }

  const TextLines& lines_;
  std::vector<Frame> open_;
  std::map<YAML::anchor_t, ValuePtr> anchors_;
  ValuePtr root_;
  int documents_ = 0;
};

struct Explanation {
  std::string_view parser_says;
  std::string_view in_words;
};

const std::array<Explanation, 10> kExplanations{{
    {YAML::ErrorMsg::MAP_VALUE,
     "a \":\" where no key can stand; check this line's indentation, and that the line above has "
     "\"key: value\" with a "
     "blank after the colon; a value that contains \": \" must be quoted"},
    {YAML::ErrorMsg::MAP_KEY, "a key can't stand here; check the indentation"},
    {YAML::ErrorMsg::BLOCK_ENTRY, "a \"- \" where no list can begin; check the indentation"},
    {YAML::ErrorMsg::END_OF_MAP,
     "this can't follow the value before it; check the indentation and the quotes"},
    {YAML::ErrorMsg::END_OF_SEQ,
     "this can't follow the list item before it; check the indentation and the quotes"},
    {YAML::ErrorMsg::FLOW_END, "a closing bracket that was never opened"},
    {YAML::ErrorMsg::EOF_IN_SCALAR, "the file ends inside a quoted text; close the quote"},
    {YAML::ErrorMsg::UNKNOWN_TOKEN, "a value can't begin with this character; quote the value"},
    {YAML::ErrorMsg::TAB_IN_INDENTATION, "a tab in the indentation; YAML indents with spaces only"},
    {YAML::ErrorMsg::UNKNOWN_ANCHOR,
     "this alias refers to nothing above it; a value that begins with \"*\" must be quoted"},
}};

// A colon with no blank after it, in a line that looks like a key and its value: the most frequent
// slip of all.
bool lacks_blank_after_colon(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" -");
  if (begin == std::string_view::npos) return false;
  const std::size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", begin);
  return end != std::string_view::npos && end > begin && line[end] == ':' &&
         end + 1 < line.size() && line[end + 1] != ' ';
}

// An IPv6 address that was not quoted reads as a list.
bool has_bare_ipv6(std::string_view line) {
  const std::size_t bracket = line.find(": [");
  return bracket != std::string_view::npos && line.find("]:", bracket) != std::string_view::npos;
}

Mistake explain(const YAML::Exception& error, const TextLines& lines, const TreeBuilder& tree) {
  Place place = lines.place(error.mark.line, error.mark.column);
  std::string message;
  const bool bracket_left_open =
      error.msg == YAML::ErrorMsg::END_OF_SEQ_FLOW || error.msg == YAML::ErrorMsg::END_OF_MAP_FLOW;
  if (bracket_left_open) {
    place = tree.open_bracket().value_or(place);
    message = "the bracket that opens here is not closed, or holds something that needs quotes";
  }
  for (const Explanation& known : kExplanations) {
    if (error.msg == known.parser_says) message = known.in_words;
  }
  if (message.empty()) message = error.msg;
  for (const int number : {place.line, place.line - 1}) {
    if (error.msg == YAML::ErrorMsg::MAP_VALUE && lacks_blank_after_colon(lines.line(number))) {
      const std::string_view line = lines.line(number);
      place = {number, static_cast<int>(line.find(':')) + 1};
      message = "a blank is missing after the colon";
      break;
    }
  }
  if (has_bare_ipv6(lines.line(place.line))) {
    message = "an IPv6 address in brackets must be quoted, as in \"[::1]:7001\"";
  }
  return {place.line, place.column, "not YAML: " + message};
}

}  // namespace

std::string_view kind_in_words(Kind kind) {
  switch (kind) {
    case Kind::Null:
      return "nothing";
    case Kind::Scalar:
      return "a single value";
    case Kind::List:
      return "a list";
    case Kind::Map:
      return "a group of keys";
  }
  return {};
}

std::expected<ValuePtr, std::vector<Mistake>> read_yaml(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const TextLines lines(text);
  if (auto mistakes = check_text(text, lines); !mistakes.empty())
    return std::unexpected(std::move(mistakes));
  TreeBuilder tree(lines);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    // A second document is a mistake, which OnDocumentStart() reports.
    while (parser.HandleNextDocument(tree)) {
    }
  } catch (const StopReading& stop) {
    return std::unexpected(std::vector{stop.mistake});
  } catch (const YAML::Exception& error) {
    return std::unexpected(std::vector{explain(error, lines, tree)});
  } catch (const std::exception& error) {
    return std::unexpected(std::vector{Mistake{1, 1, fmt::format("not YAML: {}", error.what())}});
  }
  if (tree.root()) return tree.root();
  return std::make_shared<const YamlValue>(YamlValue{Kind::Null, {1, 1}, {}, {}, {}});
}

}  // namespace conf
