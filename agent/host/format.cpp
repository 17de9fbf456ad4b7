#include "agent/host/format.hpp"

#include <fcntl.h>

#include <cerrno>
#include <vector>

#include "agent/host/tool.hpp"
#include "agent/io/descriptor.hpp"
#include "agent/io/files.hpp"

namespace spotter::act::host {
namespace {

namespace fs = std::filesystem;

struct Maker {
  std::vector<std::string> argv;
  std::string package;
};

// Without any force option, so that mkfs refuses, too; without discarding, which a new volume needs
// not.
Maker maker_of(const std::string& filesystem, const fs::path& device) {
  if (filesystem == "xfs") return {{"mkfs.xfs", "-q", "-K", device.string()}, "xfsprogs"};
  return {{"mkfs.ext4", "-q", "-E", "nodiscard", device.string()}, "e2fsprogs"};
}

Result<void> make(const fs::path& device, const std::string& filesystem) {
  if (is_directory_device(device)) {
    const auto written = io::atomic_write(device / directory_marker, filesystem + "\n", 0644);
    if (!written) return fail_errno(written.error(), "cannot write to " + device.string());
    return {};
  }
  {  // O_EXCL on a block device: nobody else has it mounted or claimed, in any mount namespace
    const io::Descriptor claim(::open(device.c_str(), O_RDWR | O_EXCL | O_CLOEXEC));
    if (!claim && errno == EBUSY) {
      return fail("device-busy", device.string() + " is in use; it is not formatted");
    }
    if (!claim) return fail_errno(errno, "cannot open " + device.string(), "format-failed");
  }
  const auto maker = maker_of(filesystem, device);
  const ToolRequest request{.argv = maker.argv, .environment = {{"LC_ALL", "C"}}};
  const auto result = run_tool(request, maker.package);
  if (!result) return tl::unexpected<Error>(result.error());
  if (result->status != 0) {
    return fail("format-failed",
                maker.argv[0] + " failed on " + device.string() + ": " + last_words(*result));
  }
  return {};
}

}  // namespace

Result<Inspection> format(const fs::path& device, const std::string& filesystem) {
  if (filesystem != "xfs" && filesystem != "ext4") {
    return fail("bad-request", "the file system is xfs or ext4, not '" + filesystem + "'");
  }
  const auto before = inspect(device);
  if (!before) return before;
  if (!before->blank) {
    return fail("not-blank", device.string() + " is not blank, it holds " + before->detail +
                                 "; it is left as it is");
  }
  if (const auto made = make(device, filesystem); !made) {
    return tl::unexpected<Error>(made.error());
  }
  auto after = inspect(device);
  if (after && after->filesystem != filesystem) {
    return fail("format-failed", "after mkfs, " + device.string() + " holds " + after->detail);
  }
  return after;
}

}  // namespace spotter::act::host
