#include "agent/aws/formats/pages.hpp"

namespace spotter::wire {

// Brent's way to find a circle: each token is compared with one that is remembered, and the one
// that is remembered is replaced at every power of two.
Result<void> Pages::add(std::size_t items, std::string_view next_token) {
  items_ += items;
  if (items_ > limits_.items)
    return failure("the listing has more than " + std::to_string(limits_.items) + " entries");
  if (next_token.empty()) return {};
  ++pages_;
  empty_ = items == 0 ? empty_ + 1 : 0;
  if (next_token == remembered_)
    return failure("the listing goes round in a circle: a page's token came a second time");
  if (empty_ > limits_.empty_pages)
    return failure("the listing does not end: " + std::to_string(empty_) +
                   " pages without an entry followed one another");
  if (pages_ >= limits_.pages)
    return failure("the listing does not end: it has more than " + std::to_string(pages_) +
                   " pages");
  if (pages_ < remember_at_) return {};
  remembered_ = next_token;
  remember_at_ *= 2;
  return {};
}

}  // namespace spotter::wire
