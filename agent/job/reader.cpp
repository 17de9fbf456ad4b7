#include "agent/job/reader.hpp"

#include <algorithm>
#include <tuple>

namespace spotter::config {
namespace {

std::string join(const std::vector<std::string_view>& words) {
  std::string joined;
  for (const auto word : words) joined.append(joined.empty() ? "" : ", ").append(word);
  return joined;
}

std::string below(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

std::vector<std::string_view> keys_of(const Reader::Fields& fields) {
  std::vector<std::string_view> keys;
  for (const auto& field : fields) keys.push_back(field.key);
  return keys;
}

std::string unknown_key(const std::string& key, const Reader::Fields& fields) {
  const auto valid = keys_of(fields);
  const auto meant = nearest(key, valid);
  const std::string start = "unknown key '" + key.substr(0, 60) + "'; ";
  if (!meant.empty()) return start + "did you mean '" + std::string(meant) + "'?";
  return start + "valid here: " + join(valid);
}

// The same key earlier in the map, or nullptr.
const Node* earlier(const Node& map, std::size_t index) {
  for (std::size_t i = 0; i < index; ++i)
    if (map.keys[i].text == map.keys[index].text) return &map.keys[i];
  return nullptr;
}

}  // namespace

tl::unexpected<std::vector<Problem>> in_file_order(std::vector<Problem> problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return tl::unexpected(std::move(problems));
}

void Reader::map(const Node& node, const std::string& path, const Fields& fields) {
  if (!is_map(node, path, "a mapping with the keys " + join(keys_of(fields)))) return;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const Node& key = node.keys[i];
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const Field& each) { return each.key == key.text; });
    if (field == fields.end())
      problem(key, path, unknown_key(key.text, fields));
    else if (const Node* first = earlier(node, i))
      problem(
          key, path,
          "'" + key.text + "' is given twice; the first is in line " + std::to_string(first->line));
    else
      field->take(node.items[i], below(path, field->key));
  }
  for (const auto& field : fields) {
    const bool given = std::any_of(node.keys.begin(), node.keys.end(),
                                   [&](const Node& key) { return key.text == field.key; });
    if (field.need == required && !given)
      problem(node, path, "the key '" + std::string(field.key) + "' is missing");
  }
}

Reader::Take Reader::pairs(std::string_view expected, TakePair each) {
  return [this, expected, each = std::move(each)](const Node& node, const std::string& path) {
    if (!is_map(node, path, std::string(expected))) return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const Node& key = node.keys[i];
      if (const Node* first = earlier(node, i))
        problem(key, path,
                "'" + key.text + "' is given twice; the first is in line " +
                    std::to_string(first->line));
      else
        each(key, node.items[i], below(path, key.text));
    }
  };
}

Reader::Take Reader::texts(std::vector<std::string>& to, const Scalar<std::string>& type) {
  return [this, &to, &type](const Node& node, const std::string& path) {
    const auto add = [&](const Node& item) {
      std::string text;
      expanded(text, type)(item, path);
      to.push_back(std::move(text));
    };
    to.clear();
    if (node.kind != Node::Kind::List) return add(node);
    for (const Node& item : node.items) add(item);
    if (node.items.empty()) problem(node, path, "the list is empty");
  };
}

void Reader::problem(const Node& node, const std::string& path, const std::string& message) {
  problems_.push_back({node.line, node.column, path.empty() ? message : path + ": " + message});
}

bool Reader::is_text(const Node& node, const std::string& path, std::string_view expected) {
  if (node.kind == Node::Kind::Text) return true;
  if (node.kind == Node::Kind::Null)
    problem(node, path, "the value is missing; expected " + std::string(expected));
  else
    problem(node, path, "expected " + std::string(expected) + ", found " + describe(node));
  return false;
}

bool Reader::is_map(const Node& node, const std::string& path, const std::string& expected) {
  if (node.kind == Node::Kind::Map) return true;
  if (node.kind == Node::Kind::Null)
    problem(node, path, "the value is missing; expected " + expected);
  else  // does not print a text, which may be a secret: `secrets: hunter2`
    problem(node, path,
            "expected " + expected + ", found " +
                (node.kind == Node::Kind::Text ? "text" : describe(node)));
  return false;
}

}  // namespace spotter::config
