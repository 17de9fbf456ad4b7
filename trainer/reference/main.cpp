// spotter-train: the reference trainer. README.md says what it promises to whoever starts it.
#include <malloc.h>

#include <climits>
#include <exception>
#include <iostream>

#include "trainer/library/session.hpp"
#include "trainer/reference/training.hpp"

// Each step needs the memory of the one before: what the kernel gets back in between it clears, a
// third of a step's time on a CPU.
static void keep_memory() {
  constexpr int largest = 32 << 20;  // that glibc takes
  ::mallopt(M_MMAP_THRESHOLD, largest);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

int main(int count, char** arguments) {
  // First of all: from here on a stop signal means "checkpoint", not "die".
  spotter::checkpoint::catch_stop_signals();
  keep_memory();
  try {
    const auto options = spotter::train::read_options(count, arguments);
    if (const auto* over = std::get_if<spotter::train::Exit>(&options)) return over->status;
    const auto outcome = spotter::train::train(std::get<spotter::train::Options>(options));
    if (!outcome) {
      std::cerr << "spotter-train: " << outcome.error().message << "\n";
      return 1;
    }
    return *outcome == spotter::train::Outcome::Finished ? 0 : spotter::checkpoint::kStoppedStatus;
  } catch (const std::exception& error) {  // libtorch's and the allocator's
    std::cerr << "spotter-train: " << error.what() << "\n";
    return 1;
  }
}
