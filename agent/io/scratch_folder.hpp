// A folder of this process's own for a moment's work.
#pragma once

#include <filesystem>
#include <string_view>

namespace spotter::io {

// Removed with this object, with all that is in it.
class ScratchFolder {
 public:
  // $TMPDIR/spotter-NAME-XXXXXX
  explicit ScratchFolder(std::string_view name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  // Empty: it cannot be made.
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace spotter::io
