#include "tests/world/s3/listing.hpp"

#include <algorithm>

namespace spotter::world::s3 {
namespace {

// The smallest text greater than all that begin with `prefix`; empty: there is none.
std::string beyond(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

constexpr std::string_view version = "1-";

}  // namespace

Listing list(const ListingOf& what, Keys& keys) {
  Listing result;
  std::string last;
  std::string from = what.after.empty() ? "" : what.after + '\0';
  from = std::max(from, what.prefix);
  while (what.most > 0) {
    const auto key = keys.at_or_after(from);
    if (!key || !key->starts_with(what.prefix)) break;
    const auto cut =
        what.delimiter.empty() ? std::string::npos : key->find(what.delimiter, what.prefix.size());
    const bool rolled_up = cut != std::string::npos;
    const std::string element = rolled_up ? key->substr(0, cut + what.delimiter.size()) : *key;
    from = rolled_up ? beyond(element) : *key + '\0';
    if (element > what.after || what.after.empty()) {
      if (result.keys.size() + result.common_prefixes.size() == what.most) {
        result.next = last;
        break;
      }
      (rolled_up ? result.common_prefixes : result.keys).push_back(element);
      last = element;
    }
    if (from.empty()) break;
  }
  return result;
}

std::string continuation_token(const std::string& next) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string token(version);
  for (const char c : next) {
    const auto byte = static_cast<unsigned char>(c);
    token += {digits[byte >> 4], digits[byte & 15]};
  }
  return token;
}

std::optional<std::string> parse_continuation_token(const std::string& token) {
  if (!token.starts_with(version) || token.size() % 2 != 0 || token.size() == version.size())
    return std::nullopt;
  std::string next;
  for (std::size_t i = version.size(); i < token.size(); i += 2) {
    const int high = digit(token[i]), low = digit(token[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    next += static_cast<char>(high * 16 + low);
  }
  return next;
}

}  // namespace spotter::world::s3
