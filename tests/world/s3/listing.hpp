// ListObjects: one page of a bucket's keys, in the order of their UTF-8 bytes, those that share a
// prefix up to the delimiter rolled up into one. Pure.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/world/values.hpp"

namespace spotter::world::s3 {

// A bucket's keys, as sorted by their bytes.
class Keys {
 public:
  virtual ~Keys() = default;
  virtual std::optional<std::string> at_or_after(const std::string& key) = 0;
};

struct Listing {
  std::vector<std::string> keys;
  std::vector<std::string> common_prefixes;
  std::string next;  // the last of both, when there is more; else empty
};

// Asks for the keys and common prefixes greater than `after`, `most` of both together.
struct ListingOf {
  std::string prefix;
  std::string delimiter;
  std::string after;
  std::size_t most = 1000;
};
Listing list(const ListingOf& what, Keys& keys);

// Opaque to clients; only `next` of a listing goes in.
std::string continuation_token(const std::string& next);
std::optional<std::string> parse_continuation_token(const std::string& token);

}  // namespace spotter::world::s3
