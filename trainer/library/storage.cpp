#include "trainer/library/storage.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include "trainer/library/files.hpp"

namespace spotter::checkpoint {

namespace fs = std::filesystem;

namespace {

fs::path resolved(const fs::path& path) {
  std::error_code failed;
  const fs::path absolute = fs::absolute(path, failed).lexically_normal();
  const fs::path clean = absolute.has_filename() ? absolute : absolute.parent_path();
  const fs::path real = fs::weakly_canonical(clean, failed);
  return failed ? clean : real;
}

bool is_below(const fs::path& place, const std::string& folder) {
  if (folder.empty()) return false;
  const fs::path above = resolved(folder);
  return std::mismatch(above.begin(), above.end(), place.begin(), place.end()).first == above.end();
}

}  // namespace

Result<void> is_on_storage(const fs::path& place) {
  const std::string checkpoints = environment("SPOTTER_CHECKPOINTS");
  const std::string storage = environment("SPOTTER_STORAGE");
  if (checkpoints.empty()) return {};
  const fs::path real = resolved(place);
  if (is_below(real, checkpoints) || is_below(real, storage)) return {};
  return failure("checkpoints in " + real.string() +
                 " would be lost with this machine: that is outside the job's storage, " +
                 (storage.empty() ? checkpoints : storage) +
                 "\n  Name no directory, which means $SPOTTER_CHECKPOINTS (" + checkpoints +
                 "), or one below it or below $SPOTTER_STORAGE.");
}

}  // namespace spotter::checkpoint
