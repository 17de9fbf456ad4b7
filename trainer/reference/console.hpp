// What a person sees: a progress bar on a terminal, plain lines in a journal.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "trainer/library/link.hpp"

namespace spotter::train {

class Console {
 public:
  Console();
  // A line of its own, in both forms.
  void line(const std::string& text);
  // The bar, at most 10 times a second; nothing where standard output is no terminal.
  void progress(const checkpoint::Progress& now, std::uint64_t steps_per_epoch);

 private:
  bool terminal_;
  bool bar_shown_ = false;
  std::optional<std::chrono::steady_clock::time_point> last_;
};

}  // namespace spotter::train
