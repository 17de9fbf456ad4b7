#include "agent/aws/s3/piece.hpp"

#include <algorithm>

namespace spotter::s3 {
namespace {

constexpr std::size_t telling = 256U << 10;
constexpr double worth = 8;                // waiting is this part of a request, at most
constexpr Piece::Duration at_once{0.005};  // less is not the way's, but the processors'
constexpr double older = 1.02;             // a least wait is forgotten over some hundred answers
constexpr double smooth = 0.25;            // the newest rate's weight

}  // namespace

void Piece::measured(std::size_t bytes, Duration waited, Duration lasted) {
  if (bytes < telling || waited.count() <= 0 || lasted.count() <= 0) return;
  const double rate = static_cast<double>(bytes) / lasted.count();
  const bool first = rate_ == 0;
  waited_ = first ? waited : std::min(waited, waited_ * older);
  rate_ = first ? rate : rate_ + (rate - rate_) * smooth;
  const double way = std::max(0.0, (waited_ - at_once).count());
  const double wanted = std::min(worth * way * rate_, double{piece_bytes});
  // In whole MiB, so that memory is given back in the sizes in which it is taken.
  bytes_ = std::max(least_piece, static_cast<std::size_t>(wanted) / least_piece * least_piece);
}

}  // namespace spotter::s3
