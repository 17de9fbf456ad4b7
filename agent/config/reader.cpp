#include "agent/config/reader.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>
#include <tuple>

#include "agent/base/text.hpp"

namespace spotter::config {
namespace {

// Builds the tree from the parser's events: YAML::Node would expand aliases and lose the keys'
// positions.
class TreeBuilder : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(at(mark, Node::Kind::Null)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    problems_.push_back(
        {mark.line + 1, mark.column + 1, "an alias (*name) is not supported: write the value out"});
    add(at(mark, Node::Kind::Null));
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    Node node = at(mark, Node::Kind::Text);
    node.text = value;
    node.plain = tag == "?";
    add(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open_.push_back(at(mark, Node::Kind::List));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open_.push_back(at(mark, Node::Kind::Map));
  }
  void OnMapEnd() override { close(); }

  Node take_root() { return std::move(root_); }
  std::vector<Problem> take_problems() { return std::move(problems_); }

 private:
  static Node at(const YAML::Mark& mark, Node::Kind kind) {
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }
  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }
  void add(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Node& parent = open_.back();
    const bool is_key = parent.kind == Node::Kind::Map && parent.keys.size() == parent.items.size();
    if (is_key && node.kind != Node::Kind::Text)
      problems_.push_back({node.line, node.column, "a key must be text, not " + describe(node)});
    (is_key ? parent.keys : parent.items).push_back(std::move(node));
  }

  std::vector<Node> open_;
  Node root_;
  std::vector<Problem> problems_;
};

// The length of the UTF-8 sequence at `text`; 0: it is invalid, or a control character.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    const bool printable = first >= 0x20 && first != 0x7f;
    return printable || first == '\n' || first == '\r' || first == '\t' ? 1 : 0;
  }
  const std::size_t length = first >= 0xf5   ? 0
                             : first >= 0xf0 ? 4
                             : first >= 0xe0 ? 3
                             : first >= 0xc2 ? 2
                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

std::vector<Problem> check_text(std::string_view text, std::size_t limit) {
  if (text.size() > limit) {
    const std::string most = std::to_string(limit >> 10U);
    return {{0, 0, "the file is larger than " + most + " KiB: is this the right one?"}};
  }
  Problem here{1, 1, "not text (UTF-8 without control characters): is this a binary file?"};
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 0) return {here};
    here.column = text[0] == '\n' ? 1 : here.column + 1;
    here.line += text[0] == '\n' ? 1 : 0;
    text.remove_prefix(length);
  }
  return {};
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
  return start + "valid here: " + joined(valid);
}

}  // namespace

Result<Node, std::vector<Problem>> parse_yaml(std::string_view text, std::size_t limit) {
  if (auto problems = check_text(text, limit); !problems.empty()) return tl::unexpected(problems);
  std::istringstream stream{std::string(text)};
  TreeBuilder tree;
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(tree);
    Node root = tree.take_root();
    auto problems = tree.take_problems();
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      const Node extra = second.take_root();
      problems.push_back(
          {extra.line, extra.column, "a second YAML document begins here: a file has one"});
    }
    if (!problems.empty()) return tl::unexpected(problems);
    return root;
  } catch (const YAML::Exception& exception) {
    return tl::unexpected(std::vector<Problem>{
        {exception.mark.line + 1, exception.mark.column + 1, "not valid YAML: " + exception.msg}});
  }
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Null:
      return "nothing";
    case Node::Kind::List:
      return "a list";
    case Node::Kind::Map:
      return "a mapping";
    case Node::Kind::Text:
      break;
  }
  constexpr std::size_t shown = 60;
  return "the text '" + node.text.substr(0, shown) + (node.text.size() > shown ? "...'" : "'");
}

tl::unexpected<std::vector<Problem>> in_file_order(std::vector<Problem> problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.line, a.column) < std::tie(b.line, b.column);
  });
  return tl::unexpected(std::move(problems));
}

void Reader::map(const Node& node, const std::string& path, const Fields& fields) {
  if (root_ == nullptr) root_ = &node;
  if (!is_kind(Node::Kind::Map, node, path, "a mapping with the keys " + joined(keys_of(fields))))
    return;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const Node& key = node.keys[i];
    const auto field = std::find_if(fields.begin(), fields.end(),
                                    [&](const Field& each) { return each.key == key.text; });
    if (field == fields.end())
      problem(key, path, unknown_key(key.text, fields));
    else if (!is_repeated(node, i, path))
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
    if (!is_kind(Node::Kind::Map, node, path, expected)) return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const Node& key = node.keys[i];
      if (!is_repeated(node, i, path)) each(key, node.items[i], below(path, key.text));
    }
  };
}

bool Reader::is_repeated(const Node& map, std::size_t index, const std::string& path) {
  const Node& key = map.keys[index];
  const auto first = std::ranges::find(map.keys, key.text, &Node::text);
  if (&*first == &key) return false;
  problem(key, path,
          "'" + key.text + "' is given twice; the first is in line " + std::to_string(first->line));
  return true;
}

const Node* Reader::given(std::string_view path) const {
  const Node* node = root_;
  while (node != nullptr && !path.empty()) node = child(*node, take_until(path, '.'));
  return node;
}

void Reader::problem(const std::string& path, const std::string& message) {
  std::string_view there = path;
  while (given(there) == nullptr) {
    const auto dot = there.rfind('.');
    there = there.substr(0, dot == there.npos ? 0 : dot);
  }
  problem(*given(there), path, message);
}

void Reader::problem(const Node& node, const std::string& path, const std::string& message) {
  problems_.push_back({node.line, node.column, path.empty() ? message : path + ": " + message});
}

bool Reader::is_kind(Node::Kind kind, const Node& node, const std::string& path,
                     std::string_view expected) {
  if (node.kind == kind) return true;
  if (node.kind == Node::Kind::Null)
    problem(node, path, "the value is missing; expected " + std::string(expected));
  else  // does not print a text, which may be a secret: `secrets: hunter2`
    problem(node, path,
            "expected " + std::string(expected) + ", found " +
                (node.kind == Node::Kind::Text ? "text" : describe(node)));
  return false;
}

}  // namespace spotter::config
