#include "trainer/reference/order.hpp"

#include <numeric>
#include <utility>

namespace spotter::train {

namespace {

std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;

}  // namespace

std::uint64_t sequence_seed(std::uint64_t seed, Purpose purpose, std::uint64_t number) {
  std::uint64_t value = mix(seed + kGolden);
  value = mix(value ^ (static_cast<std::uint64_t>(purpose) * kGolden));
  return mix(value ^ (number * 0xd1342543de82ef95U + kGolden));
}

std::uint64_t Sequence::next() { return mix(state_ += kGolden); }

std::uint64_t Sequence::below(std::uint64_t bound) {
  __extension__ using Wide = unsigned __int128;  // Lemire's multiply-shift
  return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
}

double Sequence::unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

std::vector<std::uint32_t> epoch_order(std::uint64_t seed, std::uint64_t epoch,
                                       std::uint32_t count) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  Sequence random(sequence_seed(seed, Purpose::Order, epoch));
  for (std::uint32_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

}  // namespace spotter::train
