// Format versions of files that outlive the program that wrote them: on the storage, in a bucket,
// in SPOTTER_RUN. A package may be up- or downgraded during a job, so a reader tells damaged files
// from a newer Spotter's. It refuses the latter: does not move, overwrite or delete them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

// The kind of the Error about a document that is undamaged, but of a later version of its format.
inline constexpr const char* newer_format = "newer-format";

inline bool is_newer(const Error& error) { return error.kind == newer_format; }

// The message for a person.
inline std::string newer_text(std::string_view what, std::string_view version,
                              std::uint64_t known) {
  return std::string(what) + " was written by a newer Spotter (format " + std::string(version) +
         ", this one reads " + std::to_string(known) +
         "): install that version or a later one; nothing was changed";
}

// Returns an error when `member` is a version after `known`, or no unsigned number (which no
// version ever wrote). Returns none when the document may be read. Without the member the version
// is 1: the first versions of some formats had no such member.
inline std::optional<Error> newer(const nlohmann::json& document, const char* member,
                                  std::uint64_t known, std::string_view what) {
  const auto version = document.find(member);
  if (version == document.end()) return std::nullopt;
  if (version->is_number_unsigned() && version->get<std::uint64_t>() <= known) return std::nullopt;
  const auto text =
      version->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 20);
  return Error{newer_text(what, text, known), newer_format};
}

}  // namespace spotter::wire
