// Parses YAML into a plain tree with positions. Stricter than YAML: one document, no aliases (a few
// lines of them can expand to gigabytes), UTF-8 text only.
#pragma once

#include <functional>
#include <utility>

#include "agent/config/values.hpp"

namespace spotter::config {

struct Node {
  enum class Kind : std::uint8_t { Null, Text, List, Map };
  Kind kind = Kind::Null;
  int line = 1;
  int column = 1;
  std::string text;         // Text: as written, without quotes
  bool plain = false;       // Text: it had no quotes, so 1 may be a number
  std::vector<Node> keys;   // Map: keys[i] belongs to items[i]; duplicates are kept
  std::vector<Node> items;  // Map or List
};

// The root is Null for an empty text. A longer one than `limit` is refused.
Result<Node, std::vector<Problem>> parse_yaml(std::string_view text,
                                              std::size_t limit = job_size_limit);

// "a list", "the text 'abc'": for messages.
std::string describe(const Node& node);

// Reads a YAML tree by tables of fields, collecting every problem. Adding a key to job.yaml is one
// line in a table of job.cpp.

// A failure with the problems, sorted by position.
tl::unexpected<std::vector<Problem>> in_file_order(std::vector<Problem> problems);

class Reader {
 public:
  // Stores one value. `path` ("trainer.command") is for messages.
  using Take = std::function<void(const Node& value, const std::string& path)>;
  enum class Need : bool { Optional, Required };
  struct Field {
    std::string_view key;
    Need need;
    Take take;
  };
  using Fields = std::vector<Field>;

  // REQUIRES: both outlive the reader.
  Reader(const Environment& environment, std::vector<Problem>& problems)
      : environment_(environment), problems_(problems) {}

  // Passes each known key's value to its field; reports unknown, duplicate and missing keys.
  void map(const Node& node, const std::string& path, const Fields& fields);

  // The fields' targets must outlive the map() call that uses them.
  template <class Target, class T>
  Take scalar(Target& to, const Scalar<T>& type) {
    return [this, &to, &type](const Node& node, const std::string& path) {
      if (!is_kind(Node::Kind::Text, node, path, type.expected)) return;
      store(to, type.parse(node.text), node, path);
    };
  }
  // The same, with ${NAME} expanded first.
  template <class Target, class T>
  Take expanded(Target& to, const Scalar<T>& type) {
    return [this, &to, &type](const Node& node, const std::string& path) {
      if (!is_kind(Node::Kind::Text, node, path, type.expected)) return;
      const auto text = expand(node.text, environment_.variables);
      if (!text) return problem(node, path, text.error().message);
      store(to, type.parse(*text), node, path);
    };
  }
  template <class T>
  Take object(auto& to, Fields (*fields)(Reader&, T&)) {
    return [this, &to, fields](const Node& node, const std::string& path) {
      map(node, path, fields(*this, made(to)));
    };
  }
  // By a function of its own.
  template <class T>
  Take by(void (*read)(Reader&, const Node&, const std::string&, T&), auto& to) {
    return [this, read, &to](const Node& node, const std::string& path) {
      read(*this, node, path, made(to));
    };
  }
  // One text, or a list of at least one, with ${NAME} expanded.
  template <class T>
  Take texts(std::vector<T>& to, const Scalar<T>& type) {
    return [this, &to, &type](const Node& node, const std::string& path) {
      const auto add = [&](const Node& item) { expanded(to.emplace_back(), type)(item, path); };
      to.clear();
      if (node.kind != Node::Kind::List) return add(node);
      for (const Node& item : node.items) add(item);
      if (node.items.empty()) problem(node, path, "the list is empty");
    };
  }
  // A mapping whose keys are the user's: `each` reads one pair.
  using TakePair = std::function<void(const Node& key, const Node& value, const std::string& path)>;
  Take pairs(std::string_view expected, TakePair each);
  // The same with a value of `type` for each key; `wrong` says what is wrong with a key, if
  // anything is.
  template <class T>
  Take table(std::map<std::string, T>& to, const Scalar<T>& type, std::string_view expected,
             std::string (*wrong)(std::string_view key)) {
    return pairs(expected, [this, &to, &type, wrong](const Node& key, const Node& value,
                                                     const std::string& path) {
      if (const auto why = wrong(key.text); !why.empty()) return problem(key, path, why);
      scalar(to[key.text], type)(value, path);
    });
  }

  const Environment& environment() const { return environment_; }
  void problem(const Node& node, const std::string& path, const std::string& message);

  // The value at "checkpoints.s3" of the outermost map; nullptr: it is not given.
  const Node* given(std::string_view path) const;
  // Reports where that path is, or as much of it as is given.
  void problem(const std::string& path, const std::string& message);

 private:
  bool is_repeated(const Node& map, std::size_t index, const std::string& path);
  template <class T>
  static T& made(T& to) {
    return to;
  }
  template <class T>
  static T& made(std::optional<T>& to) {
    return to.emplace();
  }
  bool is_kind(Node::Kind kind, const Node& node, const std::string& path,
               std::string_view expected);
  template <class Target, class T>
  void store(Target& to, Result<T> value, const Node& node, const std::string& path) {
    if (value)
      to = *std::move(value);
    else
      problem(node, path, value.error().message);
  }

  const Environment& environment_;
  std::vector<Problem>& problems_;
  const Node* root_ = nullptr;  // of the outermost map
};

inline constexpr Reader::Need required = Reader::Need::Required;
inline constexpr Reader::Need optional = Reader::Need::Optional;

// Those of the whole job.yaml (values.cpp).
Reader::Fields job_fields(Reader& reader, Job& job);

// The value of a map's key; nullptr: the map lacks it.
inline const Node* child(const Node& map, std::string_view key) {
  for (std::size_t i = 0; i < map.keys.size() && i < map.items.size(); ++i)
    if (map.keys[i].text == key) return &map.items[i];
  return nullptr;
}

// The same as JSON; `leaf` makes that of a text.
template <class Json>
Json json_of(const Node& node, Json (*leaf)(const Node& text)) {
  if (node.kind == Node::Kind::Text) return leaf(node);
  Json json;
  if (node.kind == Node::Kind::List) json = Json::array();
  if (node.kind == Node::Kind::Map) json = Json::object();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (node.kind == Node::Kind::List)
      json.push_back(json_of(node.items[i], leaf));
    else
      json[node.keys[i].text] = json_of(node.items[i], leaf);
  }
  return json;
}

}  // namespace spotter::config
