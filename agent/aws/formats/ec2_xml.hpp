// Reads EC2's XML, field by field, keeping the first thing that was wrong. Private to aws/formats.
#pragma once

#include <pugixml.hpp>

#include "agent/aws/formats/ec2_query.hpp"

namespace spotter::wire {

// An element's children by name. A required one that is missing or unreadable yields an empty value
// and is noted in `problem`; the decoder looks there once, at the end.
class Fields {
 public:
  Fields(pugi::xml_node node, std::string& problem) : node_(node), problem_(&problem) {}

  std::string text(const char* name) const;  // required
  // absent: empty
  std::string optional_text(const char* name) const { return node_.child(name).text().get(); }
  std::uint64_t number(const char* name) const;  // required
  std::optional<std::uint64_t> optional_number(const char* name) const;
  double decimal(const char* name) const;           // required
  double optional_decimal(const char* name) const;  // absent: 0
  // absent: false
  bool flag(const char* name) const { return optional_text(name) == "true"; }
  WallTime time(const char* name) const;  // required
  std::optional<WallTime> optional_time(const char* name) const;
  Fields child(const char* name) const;  // required
  // absent: one that has nothing
  Fields optional_child(const char* name) const { return {node_.child(name), *problem_}; }
  // <set><item>; required, as without the set an answer would read as "there is none".
  std::vector<Fields> items(const char* set) const { return children(set, "item", true); }
  // absent: none
  std::vector<Fields> optional_items(const char* set) const { return children(set, "item", false); }
  std::vector<std::string> optional_texts(const char* set) const;  // <set><item>TEXT; as above
  // <list><member>; required
  std::vector<Fields> members(const char* list) const { return children(list, "member", true); }
  Tags tags() const;  // <tagSet>, optional

  template <class Identifier>
  Identifier name(const char* field) const {  // required
    return fitting<Identifier>(field, text(field));
  }
  template <class Identifier>
  Identifier optional_name(const char* field) const {
    return fitting<Identifier>(field, optional_text(field));
  }

  void note(const char* field, const char* what) const;

 private:
  std::vector<Fields> children(const char* list, const char* each, bool needed) const;
  template <class Identifier>
  Identifier fitting(const char* field, const std::string& value) const {
    if (!Identifier::fits(value)) note(field, "is too long");
    return Identifier(value);
  }

  pugi::xml_node node_;
  std::string* problem_;
};

// The document of `action`'s answer; fails on anything else.
Result<pugi::xml_document> parse_answer(std::string_view xml, const std::string& action);

// Parses, reads with `read(fields)`, and turns a noted problem into an Error.
template <class Read>
auto read_answer(std::string_view xml, const std::string& action, Read read)
    -> Result<decltype(read(std::declval<const Fields&>()))> {
  const auto document = TRY(parse_answer(xml, action));
  std::string problem;
  auto value = read(Fields(document.document_element(), problem));
  if (!problem.empty()) return failure("the answer of " + action + ": " + problem);
  return value;
}

}  // namespace spotter::wire
