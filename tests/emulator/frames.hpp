// Messages between the emulator and an instance's init: lists of texts on a stream.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spotter::emulator {

using Words = std::vector<std::string>;

// Pointers for exec to `texts`, which must outlive them, with a null pointer behind them.
inline std::vector<char*> pointers(const Words& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// A list: the size of what follows, then each text behind its own size. Sizes: 32 bits, this
// machine's order.
inline std::string frame(const Words& words) {
  const auto size = [](std::size_t number) {
    const auto value = static_cast<std::uint32_t>(number);
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  std::string body;
  for (const std::string& word : words) body += size(word.size()) + word;
  return size(body.size()) + body;
}

// Puts lists together again from pieces of the stream. Both ends are ours: nothing is checked.
class Frames {
 public:
  void feed(std::string_view bytes) { unread_ += bytes; }
  std::optional<Words> next() {
    if (unread_.size() < 4 || unread_.size() - 4 < number(0)) return std::nullopt;
    const std::size_t end = 4 + number(0);
    Words words;
    for (std::size_t at = 4; at < end; at += 4 + words.back().size()) {
      words.push_back(unread_.substr(at + 4, number(at)));
    }
    unread_.erase(0, end);
    return words;
  }

 private:
  std::size_t number(std::size_t at) const {
    std::uint32_t value = 0;
    std::memcpy(&value, unread_.data() + at, sizeof value);
    return value;
  }

  std::string unread_;
};

}  // namespace spotter::emulator
