// Who may use a job's volume, and which volume that is, where a fence says so: one object in a
// store that shows each write at once and takes none that did not see the one before it
// (spotter-storage(7), "A fence").
#pragma once

#include <cstdint>

#include "agent/base/names.hpp"

namespace spotter::decide {

struct Epoch {
  enum class State : std::uint8_t {
    Using,     // the holder trains on the volume, or is about to
    Moving,    // the holder makes a copy in its zone; nobody writes to the volume
    Released,  // nobody uses it: whoever comes first writes the next epoch
    Done,      // the result is durable
  };
  State state = State::Released;
  std::uint32_t number = 0;  // one more with each write; 0: none was ever written
  VolumeId line;             // the job's first volume: whose epoch this is
  VolumeId volume;           // the job's
  // Of the volume, one more with each use: a snapshot of an earlier one lacks what was written.
  std::uint32_t generation = 0;
  InstanceId holder;
  VolumeId left;  // the original of the last move, to be deleted; empty: none
};

}  // namespace spotter::decide
