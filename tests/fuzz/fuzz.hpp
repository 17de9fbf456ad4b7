// Shared by the fuzzers. Each is one file here that defines examine(), for one parser of bytes that
// others wrote; its seeds, and every input that once broke it, are in corpus/NAME/.
#pragma once

#include <string_view>

namespace spotter::fuzz {

// Parses `bytes` and says what must hold of the outcome. Called once for each input, in one
// process: it must leave nothing behind.
void examine(std::string_view bytes);

// A finding: says what does not hold and aborts, so that libFuzzer keeps the input.
void must(bool holds, const char* what);

}  // namespace spotter::fuzz
