#include "trainer/library/mirror_module.hpp"

#include <dlfcn.h>

namespace spotter::checkpoint {

Result<std::unique_ptr<Mirror>> load_s3_mirror(Mirror::Settings settings) {
  Dl_info here{};
  if (::dladdr(reinterpret_cast<void*>(&load_s3_mirror), &here) == 0) {
    return failure("it is not known where libspotter.so lies");
  }
  const auto path = std::filesystem::path(here.dli_fname).parent_path() / "libspotter_s3.so";
  // Never closed: its thread runs, and libcurl does not support being unloaded.
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (module == nullptr)
    return failure("checkpoints cannot be copied to S3: " + std::string(::dlerror()));
  using Open = void (*)(Mirror::Settings*, Result<std::unique_ptr<Mirror>>*);
  const auto open = reinterpret_cast<Open>(::dlsym(module, "spotter_open_s3_mirror"));
  if (open == nullptr)
    return failure("checkpoints cannot be copied to S3: " + std::string(::dlerror()));
  Result<std::unique_ptr<Mirror>> opened = nullptr;
  open(&settings, &opened);
  return opened;
}

}  // namespace spotter::checkpoint
