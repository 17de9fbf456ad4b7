// The entry that libFuzzer calls: https://llvm.org/docs/LibFuzzer.html
#include "tests/fuzz/fuzz.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace spotter::fuzz {

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

}  // namespace spotter::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spotter::fuzz::examine({reinterpret_cast<const char*>(data), size});
  return 0;
}
