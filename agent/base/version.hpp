// Versions of what outlives the program that wrote it: on the storage, in a bucket, in SPOTTER_RUN.
// A package is upgraded, and rolled back, in mid-job; whoever reads tells what is damaged from what
// a later Spotter has written. The latter is refused: not moved, not overwritten, not deleted.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

// Why a document is not read. `newer`: it is whole, and of a later version of its format.
struct Undecoded : Error {
  Undecoded(Error error, bool is_newer = false) : Error(std::move(error)), newer(is_newer) {}
  bool newer;
};

template <class T>
using Decoded = tl::expected<T, Undecoded>;

// What a person is told.
inline std::string newer_text(std::string_view what, std::string_view version,
                              std::uint64_t known) {
  return std::string(what) + " was written by a newer Spotter (format " + std::string(version) +
         ", this one reads " + std::to_string(known) +
         "): install that version or a later one; nothing was changed";
}

// The refusal of a document whose `member` says a version after `known`, or one that is no number
// from before: nobody has ever written such. None for what may be read. Absent means version 1:
// some formats had none at first.
inline std::optional<Undecoded> newer(const nlohmann::json& document, const char* member,
                                      std::uint64_t known, std::string_view what) {
  const auto version = document.find(member);
  if (version == document.end()) return std::nullopt;
  if (version->is_number_unsigned() && version->get<std::uint64_t>() <= known) return std::nullopt;
  const auto text =
      version->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 20);
  return Undecoded({newer_text(what, text, known)}, true);
}

}  // namespace spotter::wire
