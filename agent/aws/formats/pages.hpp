// Ends a listing that comes page by page: at its last page, or with an error. A service, or
// something between it and us, may repeat a token, send pages that hold nothing, or send pages
// without end; each would take memory, or time, without a limit.
#pragma once

#include <cstddef>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

struct PageLimits {
  std::size_t pages = 1'000;  // a Describe of AWS has up to 1,000 items a page
  std::size_t items = 1'000'000;
  std::size_t empty_pages = 100;  // one after the other: filters make such pages
};

// ListObjectsV2 gives at most 1,000 keys a page. Ten million keys are read, twice as many are not:
// they would take gigabytes of memory.
inline constexpr std::size_t most_objects = 20'000'000;
inline constexpr PageLimits object_pages{.pages = 200'000, .items = most_objects};

// One listing, from its first page on. Takes memory for two tokens, however many there are.
class Pages {
 public:
  explicit Pages(PageLimits limits = {}) : limits_(limits) {}

  // After each page: how many items it had, and the token of the next one (empty: this was the
  // last). Fails where the listing would not end: a token that was given before (found after at
  // most three times the pages of the circle), or more than the limits.
  Result<void> add(std::size_t items, std::string_view next_token);

 private:
  PageLimits limits_;
  std::size_t pages_ = 0;
  std::size_t items_ = 0;
  std::size_t empty_ = 0;
  std::size_t remember_at_ = 1;  // the page whose token is remembered next: 1, 2, 4, 8, ...
  std::string remembered_;
};

}  // namespace spotter::wire
