// Why a checkpoint cannot be used. Only a torn one may be moved, replaced or removed: an unreadable
// one may be undamaged, and a newer Spotter's is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/library/manifest.hpp"

namespace spotter::checkpoint {

struct Refusal {
  enum class Why : std::uint8_t {
    Torn,    // its files differ from what was written
    Unread,  // unknown: no permission, no resources, no answer of the disk or server
    Newer,   // of a later format
  };
  Why why = Why::Torn;
  std::string reason;
};

// Of a read that failed with `code`; 0: the content is not what it should be.
Refusal refusal(int code, std::string reason);

// The manifest in the directory of a checkpoint.
Result<Manifest, Refusal> read_manifest(const std::filesystem::path& checkpoint);

}  // namespace spotter::checkpoint
