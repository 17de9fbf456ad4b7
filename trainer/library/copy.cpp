#include "trainer/library/copy.hpp"

namespace spotter::checkpoint {

namespace {

constexpr std::size_t kSamples =
    64;  // pages: takes microseconds, and every optimizer changes all of them

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t size_of(const Source& source) {
  std::size_t bytes = 0;
  for (const auto piece : source.pieces) bytes += piece.size();
  return bytes;
}

}  // namespace

bool Copy::take(std::uint64_t step, std::span<const Source> sources, const nlohmann::json& meta,
                std::optional<double> metric) {
  std::size_t needed = 0;
  for (const auto& source : sources) needed += aligned(size_of(source));
  if (!memory_.reserve(needed)) return false;
  step_ = step;
  meta_ = meta;
  metric_ = metric;
  bytes_ = 0;
  parts_.clear();
  std::vector<CopyPiece> pieces;
  char* at = memory_.data();
  for (const auto& source : sources) {
    const char* begin = at;
    for (const auto piece : source.pieces) {
      pieces.push_back({at, piece});
      at += piece.size();
    }
    const std::size_t size = size_of(source);
    parts_.push_back({source.name, {begin, size}});
    bytes_ += size;
    at += aligned(size) - size;
  }
  copy_pieces(pieces);
  return true;
}

bool Copy::prepare(std::uint64_t bytes) {
  if (!memory_.reserve(bytes)) return false;
  memory_.touch();
  return true;
}

std::string sample_of(std::string_view bytes) {
  if (bytes.size() <= kSamples * kAlignment) return sum_of(bytes);
  Sum sum;
  const std::size_t stride = (bytes.size() - kAlignment) / (kSamples - 1);
  for (std::size_t i = 0; i < kSamples; ++i) sum.add(bytes.substr(i * stride, kAlignment));
  return sum.hex();
}

}  // namespace spotter::checkpoint
