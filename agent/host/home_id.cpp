#include "agent/host/home_id.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>

#include "agent/host/own.hpp"
#include "agent/io/random.hpp"

namespace spotter::act::host {
namespace {

constexpr const char* folder_name = "id";
constexpr std::size_t digits = 32;

bool is_id(const std::string& name) {
  return name.size() == digits &&
         std::ranges::all_of(name, [](unsigned char each) { return std::isxdigit(each) != 0; });
}

// Empty: there is none yet.
Result<std::string> id_in(const io::Beneath& own) {
  const std::string path = (own.path() / folder_name).string();
  const auto folder = own.folder(folder_name);
  if (!folder && folder.error() == std::errc::no_such_file_or_directory) return std::string();
  const auto names = folder ? folder->names() : tl::unexpected(folder.error());
  if (!names) return fail_errno(names.error(), "cannot read " + path);
  if (names->empty()) return std::string();  // never ours, and no obstacle
  if (names->size() == 1 && is_id(names->front())) return names->front();
  return fail("layout-unusable", path + " does not hold one id, as Spotter makes it: move it away");
}

Result<void, std::error_code> put_id(const io::Beneath& own, const std::string& beside,
                                     const std::string& id) {
  const auto made = own.make_folder(beside, 0755);
  if (!made) return tl::unexpected(made.error());
  if (const auto inside = made->make_folder(id, 0755); !inside)
    return tl::unexpected(inside.error());
  auto put = own.rename(beside, own, folder_name);
  if (!put) (void)made->remove_folder(id);
  return put;
}

}  // namespace

Result<std::string> home_id(const io::Beneath& home) {
  const auto own = open_own(home);
  if (!own) return tl::unexpected<Error>(own.error());
  auto there = id_in(*own);
  if (!there || !there->empty()) return there;
  const std::string id = io::random_hex(digits);
  if (id.empty()) return fail_errno(errno, "the kernel gives no random bytes");
  const std::string beside = ".id-" + id;
  const auto put = put_id(*own, beside, id);
  if (!put) (void)own->remove_folder(beside);
  // Where somebody else was faster: EEXIST or ENOTEMPTY; a server may say less (SFTP: EIO).
  there = id_in(*own);
  if (!there || !there->empty()) return there;
  const auto error = put ? std::make_error_code(std::errc::no_such_file_or_directory) : put.error();
  return fail_errno(error, "cannot make " + (own->path() / folder_name).string());
}

}  // namespace spotter::act::host
