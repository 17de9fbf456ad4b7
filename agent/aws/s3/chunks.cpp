#include "agent/aws/s3/chunks.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace spotter::s3 {
namespace {

constexpr std::size_t longest_line = 8U << 10;

// Hexadecimal, and perhaps an extension behind it.
bool parse_size(std::string_view line, std::uint64_t& size) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), size, 16);
  const auto rest = line.substr(static_cast<std::size_t>(end - line.data()));
  return error == std::errc() && (rest.empty() || rest[0] == ';' || rest[0] == ' ');
}

}  // namespace

// True: line_ is one, without its end.
bool Chunks::read_line(std::string_view& bytes) {
  const auto end = bytes.find('\n');
  line_ += bytes.substr(0, end);
  bytes.remove_prefix(end == bytes.npos ? bytes.size() : end + 1);
  if (end == bytes.npos) return false;
  if (line_.ends_with('\r')) line_.pop_back();
  return true;
}

Chunks::State Chunks::feed(std::string_view& bytes,
                           const std::function<bool(std::string_view)>& take) {
  while (!bytes.empty()) {
    if (part_ == Part::Content) {
      const auto piece = bytes.substr(0, left_);
      bytes.remove_prefix(piece.size());
      left_ -= piece.size();
      if (!take(piece)) return State::Wrong;
      if (left_ == 0) part_ = Part::Border;
      continue;
    }
    if (!read_line(bytes)) return line_.size() > longest_line ? State::Wrong : State::Open;
    const std::string line = std::exchange(line_, {});
    if (part_ == Part::Border) {
      if (!line.empty()) return State::Wrong;
      part_ = Part::Size;
    } else if (part_ == Part::Trailer) {
      if (line.empty()) return State::Whole;
    } else {
      if (!parse_size(line, left_)) return State::Wrong;
      part_ = left_ == 0 ? Part::Trailer : Part::Content;
    }
  }
  return State::Open;
}

}  // namespace spotter::s3
