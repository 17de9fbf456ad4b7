// Writes the XML of answers: elements without attributes, texts escaped.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace spotter::world {

class Xml {
 public:
  void text(std::string_view name, std::string_view value) {
    open(name);
    for (const char letter : value) append_escaped(letter);
    close(name);
  }
  void optional(std::string_view name, std::string_view value) {
    if (!value.empty()) text(name, value);
  }
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void value(std::string_view name, Number number) {
    if constexpr (std::is_same_v<Number, bool>) {
      text(name, number ? "true" : "false");
    } else {
      text(name, std::to_string(number));
    }
  }
  // <name> what body() writes </name>
  template <class Body>
  void element(std::string_view name, Body body) {
    open(name);
    body();
    close(name);
  }
  // <name><item> what body(row) writes </item>...</name>
  template <class Rows, class Body>
  void items(std::string_view name, const Rows& rows, Body body) {
    element(name, [&] {
      for (const auto& row : rows) element("item", [&] { body(row); });
    });
  }
  const std::string& str() const { return text_; }

 private:
  void open(std::string_view name) { text_.append("<").append(name).append(">"); }
  void close(std::string_view name) { text_.append("</").append(name).append(">"); }
  void append_escaped(char letter) {
    switch (letter) {
      case '&':
        text_ += "&amp;";
        break;
      case '<':
        text_ += "&lt;";
        break;
      case '>':
        text_ += "&gt;";
        break;
      case '"':
        text_ += "&quot;";
        break;
      case '\r':
        text_ += "&#13;";
        break;
      case '\t':
      case '\n':
        text_ += letter;
        break;
      default:  // no other control character can be in XML, escaped or not
        text_ += static_cast<unsigned char>(letter) < 0x20 ? '?' : letter;
    }
  }

  std::string text_;
};

}  // namespace spotter::world
