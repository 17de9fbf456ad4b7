#include "agent/io/scratch_folder.hpp"

#include <stdlib.h>

#include <string>
#include <system_error>

namespace spotter::io {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder(std::string_view name) {
  std::string path =
      (fs::temp_directory_path() / ("spotter-" + std::string(name) + "-XXXXXX")).string();
  if (::mkdtemp(path.data()) != nullptr) path_ = std::move(path);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace spotter::io
