#include "agent/tools/gang/gang_handover.hpp"

namespace spotter::command {
namespace {

constexpr int turns_for_orphans = 40;  // one in the kernel is left to it

}  // namespace

std::optional<gang::Place> GangHandover::look() {
  if (!participant_.has_place()) return std::nullopt;
  if (turns_ < turns_for_orphans && launcher_.end_orphans()) {
    ++turns_;
    return std::nullopt;
  }
  in_vain_ = torchrun_ != 0 && !launcher_.has(torchrun_);
  return in_vain_ ? std::nullopt : participant_.place();
}

}  // namespace spotter::command
