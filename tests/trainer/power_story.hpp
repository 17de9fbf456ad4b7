// Shared by the tests of power cuts: a run of saves, and what must be found after a cut.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "tests/trainer/parts.hpp"
#include "trainer/library/checkpoint.hpp"
#include "trainer/library/saver.hpp"

namespace spotter::checkpoint::power {

namespace fs = std::filesystem;

inline constexpr std::size_t kLarge = (1 << 20) + 100;  // past the page cache, with a rest
inline constexpr std::uint64_t kSteps = 5;

inline std::string model(std::uint64_t step) {
  return std::string(kLarge, static_cast<char>('a' + step));
}
inline const std::string kFrozen(5000, 'f');

// In memory, as thousands of disks are written; where that is small (a container's 64 MiB), in the
// usual place.
class Memory {
 public:
  Memory() {
    std::error_code none;
    const fs::path shared = "/dev/shm";
    const bool large = fs::space(shared, none).available > (std::uintmax_t{512} << 20) && !none;
    const fs::path where = large ? shared : fs::temp_directory_path();
    std::string pattern = where / "spotter-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~Memory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

inline Result<void> save_step(Saver& saver, std::uint64_t step) {
  const std::string large = model(step);
  const std::vector<Source> sources = {{"model", {large}}, {"frozen", {kFrozen}}};
  if (auto saved = saver.save(step, sources, {{"of", step}}, {}); !saved) return saved;
  return saver.flush();
}

// Steps 1..5, the last one twice, two of them kept.
// `durable` is called for each that was acknowledged, by the writing thread.
inline void run(const fs::path& directory, std::function<void(const Durable&)> durable) {
  Saver::Settings settings{{{directory, {.last = 2}}}, {}};
  settings.durable = std::move(durable);
  auto saver = Saver::open(std::move(settings));
  ASSERT_TRUE(saver) << saver.error().message;
  for (std::uint64_t step = 1; step <= kSteps; ++step) ASSERT_TRUE(save_step(**saver, step));
  ASSERT_TRUE(save_step(**saver, kSteps));
  saver->reset();
}

// Empty when the disk holds what it must.
inline std::string wrong_with(const fs::path& directory, std::uint64_t acknowledged) {
  const auto found = latest(directory);
  if (!found) return "unreadable: " + found.error().message;
  if (!found->newest) return acknowledged == 0 ? "" : "there is none";
  const auto& newest = *found->newest;
  if (newest.step < acknowledged) return "only step " + std::to_string(newest.step);
  const auto large = read_part(newest, "model");
  const auto frozen = read_part(newest, "frozen");
  if (!large || *large != model(newest.step)) return "other weights";
  if (!frozen || *frozen != kFrozen) return "other frozen weights";
  if (newest.meta["of"] != newest.step) return "other meta";
  return "";
}

}  // namespace spotter::checkpoint::power
