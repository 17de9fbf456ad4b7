// Helpers for the parsers of single values.
#pragma once

#include "agent/aws/formats/s3.hpp"
#include "agent/base/text.hpp"
#include "agent/config/values.hpp"

namespace spotter::config {

template <int least, int most, class T = int>
Result<T> parse_between(std::string_view text) {
  const auto number = number_of_text<int>(text);
  if (number && *number >= least && *number <= most) return static_cast<T>(*number);
  return failure(in_quotes(text) + " is no whole number from " + std::to_string(least) + " to " +
                 std::to_string(most));
}

// "snap-0123abcd": the prefix, and hexadecimal digits.
inline bool is_id(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) && text.size() > prefix.size() &&
         text.find_first_not_of("0123456789abcdef", prefix.size()) == text.npos;
}

// At least so many seconds: what renews it has to fit into it.
template <int least>
Result<Duration> parse_lease(std::string_view text) {
  auto lease = duration.parse(text);
  const bool fits =
      lease && *lease >= std::chrono::seconds(least) && *lease <= std::chrono::hours(1);
  if (!lease || fits) return lease;
  return failure(std::string(text) + " is no lease: it lasts from " + std::to_string(least) +
                 "s to 1h");
}

// Parses a folder: the key gets a slash at its end.
inline Result<wire::S3Location> parse_s3_prefix(std::string_view text) {
  auto location = wire::parse_s3_url(text);
  if (location && !location->key.empty() && !location->key.ends_with('/')) location->key += '/';
  return location;
}

// REQUIRES: neither ends with a slash.
inline bool is_at_or_below(const std::string& path, const std::string& folder) {
  return (path + "/").starts_with(folder + "/");
}

}  // namespace spotter::config
