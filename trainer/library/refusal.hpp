// Why a checkpoint does not serve. Only a torn one may be moved aside, replaced or removed: what
// cannot be read may be whole, what a newer Spotter wrote is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/library/manifest.hpp"

namespace spotter::checkpoint {

struct Refusal {
  enum class Why : std::uint8_t {
    Torn,    // its files are not what was written
    Unread,  // nothing is known: no permission, no resources, no answer of the disk or the server
    Newer,   // of a later format
  };
  Why why = Why::Torn;
  std::string reason;
};

template <class T>
using Verdict = tl::expected<T, Refusal>;

// Of a read that failed with `code`; 0: the content is not what it should be.
Refusal refusal(int code, std::string reason);

// The manifest in the directory of a checkpoint.
Verdict<Manifest> read_manifest(const std::filesystem::path& checkpoint);

}  // namespace spotter::checkpoint
