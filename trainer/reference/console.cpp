#include "trainer/reference/console.hpp"

#include <unistd.h>

#include <cstdio>

namespace spotter::train {

namespace {

constexpr std::chrono::milliseconds kInterval{100};
constexpr std::uint64_t kWidth = 30;

}  // namespace

Console::Console() : terminal_(::isatty(STDOUT_FILENO) == 1) {}

void Console::line(const std::string& text) {
  std::printf("%s%s\n", bar_shown_ ? "\r\x1b[K" : "", text.c_str());
  std::fflush(stdout);
  bar_shown_ = false;
}

void Console::progress(const checkpoint::Progress& now, std::uint64_t steps_per_epoch) {
  const auto at = std::chrono::steady_clock::now();
  if (!terminal_ || (last_ && at - *last_ < kInterval)) return;
  last_ = at;
  const std::uint64_t in_epoch = (now.step - 1) % steps_per_epoch + 1;
  const std::uint64_t filled = in_epoch * kWidth / steps_per_epoch;
  const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
  std::printf("\r\x1b[Kepoch %llu/%llu [%s] step %llu/%llu  loss %.4f  accuracy %.4f",
              static_cast<unsigned long long>(now.epoch),
              static_cast<unsigned long long>(now.epochs_total), bar.c_str(),
              static_cast<unsigned long long>(now.step),
              static_cast<unsigned long long>(now.steps_total), now.loss, now.accuracy);
  std::fflush(stdout);
  bar_shown_ = true;
}

}  // namespace spotter::train
