// Why a file, or a folder, is not taken for a finished checkpoint.
#pragma once

#include <cstdint>
#include <string>

namespace spotter::guard {

struct Refusal {
  enum class Why : std::uint8_t {
    Gone,
    Busy,    // somebody writes to it
    Torn,    // its own format says so
    Failed,  // it cannot be read, or not be made durable
  };
  Why why = Why::Gone;
  std::string words;  // for the journal, of Torn and Failed
};

}  // namespace spotter::guard
