#include "agent/guard/named.hpp"

#include <nlohmann/json.hpp>

namespace spotter::guard {
namespace {

// How long what follows an opcode is.
enum class Argument : std::uint8_t {
  None,
  One,
  Two,
  Four,
  Eight,
  Counted1,
  Counted4,
  Counted8,
  Line,
  TwoLines,
  Stop,
  Unknown
};

Argument argument_of(char opcode) {
  constexpr std::string_view none =
      "(012NQR]})abdelostu\x81\x85\x86\x87\x88\x89\x8f\x90\x91\x92\x93\x94\x97\x98";
  if (opcode == '.') return Argument::Stop;
  if (none.find(opcode) != std::string_view::npos) return Argument::None;
  switch (static_cast<unsigned char>(opcode)) {
    case 'K':
    case 'h':
    case 'q':
    case 0x80:
    case 0x82:
      return Argument::One;
    case 'M':
    case 0x83:
      return Argument::Two;
    case 'J':
    case 'j':
    case 'r':
    case 0x84:
      return Argument::Four;
    case 'G':
    case 0x95:
      return Argument::Eight;
    case 'U':
    case 'C':
    case 0x8a:
    case 0x8c:
      return Argument::Counted1;
    case 'T':
    case 'X':
    case 'B':
    case 0x8b:
      return Argument::Counted4;
    case 0x8d:
    case 0x8e:
    case 0x96:
      return Argument::Counted8;
    case 'F':
    case 'I':
    case 'L':
    case 'P':
    case 'S':
    case 'V':
    case 'g':
    case 'p':
      return Argument::Line;
    case 'c':
    case 'i':
      return Argument::TwoLines;
    default:
      return Argument::Unknown;
  }
}

class PickleReader {
 public:
  explicit PickleReader(std::string_view bytes) : bytes_(bytes) {}

  // The next opcode's argument, without its own length; none: it is cut off, or unknown.
  std::optional<std::string_view> next(Argument& argument) {
    argument = at_ < bytes_.size() ? argument_of(bytes_[at_++]) : Argument::Unknown;
    switch (argument) {
      case Argument::None:
      case Argument::Stop:
        return take(0);
      case Argument::One:
        return take(1);
      case Argument::Two:
        return take(2);
      case Argument::Four:
        return take(4);
      case Argument::Eight:
        return take(8);
      case Argument::Counted1:
        return counted(1);
      case Argument::Counted4:
        return counted(4);
      case Argument::Counted8:
        return counted(8);
      case Argument::Line:
        return line();
      case Argument::TwoLines:
        return line() ? line() : std::nullopt;
      case Argument::Unknown:
        break;
    }
    return std::nullopt;
  }
  bool is_at_end() const { return at_ == bytes_.size(); }

 private:
  std::optional<std::string_view> take(std::uint64_t count) {
    if (count > bytes_.size() - at_) return std::nullopt;
    const std::string_view taken = bytes_.substr(at_, count);
    at_ += count;
    return taken;
  }
  std::optional<std::string_view> counted(std::size_t width) {
    const auto length = take(width);
    if (!length) return std::nullopt;
    std::uint64_t count = 0;
    for (std::size_t i = width; i-- > 0;)
      count = count << 8 | static_cast<unsigned char>((*length)[i]);
    return take(count);
  }
  std::optional<std::string_view> line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) return std::nullopt;
    const auto taken = take(end - at_);
    ++at_;
    return taken;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

// {"metadata": {...}, "weight_map": {TENSOR: FILE, ...}}: only those strings are kept.
class WeightMap : public nlohmann::json::json_sax_t {
 public:
  std::set<std::string> files;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& text) override {
    if (inside_ && depth_ == 2) files.insert(text);
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool key(string_t& name) override {
    if (depth_ == 1) inside_ = name == "weight_map";
    return true;
  }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(std::size_t) override { return ++depth_ > 1; }  // it is an object
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  int depth_ = 0;
  bool inside_ = false;
};

}  // namespace

std::optional<std::set<std::string>> names_in_pickle(std::string_view bytes,
                                                     std::string_view ending) {
  PickleReader reader(bytes);
  std::set<std::string> names;
  if (!bytes.starts_with('\x80')) return std::nullopt;  // protocol 2 and later
  for (;;) {
    Argument argument = Argument::Unknown;
    const auto text = reader.next(argument);
    if (!text) return std::nullopt;
    if (argument == Argument::Stop) break;
    const bool is_string = argument == Argument::Counted1 || argument == Argument::Counted4 ||
                           argument == Argument::Counted8;
    if (is_string && text->ends_with(ending)) names.emplace(*text);
  }
  return reader.is_at_end() ? std::optional(std::move(names)) : std::nullopt;
}

std::optional<std::set<std::string>> names_in_index(std::string_view text) {
  WeightMap map;
  // The parser takes a NUL for the end: blocks that were never written are zeros.
  const bool object = text.find_first_not_of(" \t\r\n") == text.find('{');
  if (!object || text.find('\0') != std::string_view::npos) return std::nullopt;
  if (!nlohmann::json::sax_parse(text, &map)) return std::nullopt;
  return std::move(map.files);
}

void Brackets::add(std::string_view text) {
  for (const char each : text) {
    if (each == '\0') hole_ = true;
    if (escaped_) {
      escaped_ = false;
    } else if (in_string_) {
      escaped_ = each == '\\';
      in_string_ = each != '"';
    } else if (each == '"') {
      in_string_ = true;
    } else if (each == '{' || each == '[') {
      ++depth_;
    } else if ((each == '}' || each == ']') && depth_ > 0) {
      --depth_;
    }
  }
}

}  // namespace spotter::guard
