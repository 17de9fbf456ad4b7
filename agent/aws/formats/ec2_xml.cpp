#include "agent/aws/formats/ec2_xml.hpp"

#include <cmath>

#include "agent/base/text.hpp"

namespace spotter::wire {
void Fields::note(const char* field, const char* what) const {
  if (problem_->empty()) *problem_ = std::string(field) + " in " + node_.name() + " " + what;
}

std::string Fields::text(const char* name) const {
  const pugi::xml_node child = node_.child(name);
  if (!child || child.text().empty()) note(name, "is missing");
  return child.text().get();
}

std::uint64_t Fields::number(const char* name) const {
  const auto value = number_of_text<std::uint64_t>(text(name));
  if (!value) note(name, "is no number");
  return value.value_or(0);
}

std::optional<std::uint64_t> Fields::optional_number(const char* name) const {
  if (optional_text(name).empty()) return std::nullopt;
  return number(name);
}

double Fields::decimal(const char* name) const {
  const auto value = number_of_text<double>(text(name));
  if (!value || !std::isfinite(*value)) note(name, "is no number");
  return value.value_or(0);
}

double Fields::optional_decimal(const char* name) const {
  return optional_text(name).empty() ? 0 : decimal(name);
}

WallTime Fields::time(const char* name) const {
  const auto value = parse_rfc3339(text(name));
  if (!value) note(name, "is no time");
  return value.value_or(WallTime{});
}

std::optional<WallTime> Fields::optional_time(const char* name) const {
  if (optional_text(name).empty()) return std::nullopt;
  return time(name);
}

Fields Fields::child(const char* name) const {
  const pugi::xml_node node = node_.child(name);
  if (!node) note(name, "is missing");
  return {node, *problem_};
}

std::vector<Fields> Fields::children(const char* list, const char* each, bool needed) const {
  if (needed && !node_.child(list)) note(list, "is missing");
  std::vector<Fields> all;
  for (const pugi::xml_node node : node_.child(list).children(each))
    all.emplace_back(node, *problem_);
  return all;
}

std::vector<std::string> Fields::optional_texts(const char* set) const {
  std::vector<std::string> texts;
  for (const pugi::xml_node item : node_.child(set).children("item"))
    texts.emplace_back(item.text().get());
  return texts;
}

Tags Fields::tags() const {
  Tags tags;
  for (const Fields& tag : optional_items("tagSet"))
    tags[tag.text("key")] = tag.optional_text("value");
  return tags;
}

Result<pugi::xml_document> parse_answer(std::string_view xml, const std::string& action) {
  // pugixml would take a NUL for the end, and not look behind it.
  if (xml.find('\0') != xml.npos) return failure("the answer of " + action + " contains a NUL");
  pugi::xml_document document;
  const auto parsed =
      document.load_buffer(xml.data(), xml.size(),
                           pugi::parse_default | pugi::parse_ws_pcdata_single, pugi::encoding_utf8);
  if (!parsed) return failure("the answer of " + action + " is no XML: " + parsed.description());
  const std::string root = document.document_element().name();
  if (root != action + "Response") return failure("not the answer of " + action + ": " + root);
  return document;
}

}  // namespace spotter::wire
