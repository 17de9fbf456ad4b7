#include "agent/data/fetched.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "agent/base/json.hpp"
#include "agent/data/fifo.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {
namespace {

constexpr std::size_t longest_name = 255;  // of Linux's file systems

using Json = nlohmann::json;

constexpr std::size_t longest_ledger = 1U << 30;

std::int64_t modified(const struct stat& status) {
  return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// None: it is no regular file.
std::optional<struct stat> look(const std::filesystem::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status;
}

}  // namespace

Result<std::string> file_name(std::string_view prefix, std::string_view key) {
  const auto wrong = [&] { return failure(std::string(key) + " cannot be the name of a file"); };
  std::string name(key.substr(std::min(prefix.size(), key.size())));
  if (!prefix.empty() && prefix.back() != '/') {
    if (name.starts_with('/')) {
      name.erase(0, 1);
    } else {
      name.insert(0, prefix.substr(prefix.rfind('/') + 1));
    }
  }
  for (std::string_view rest = name;;) {
    const auto slash = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, slash);
    const bool good = !part.empty() && part.size() <= longest_name && part != "." && part != ".." &&
                      part.find('\0') == part.npos;
    if (!good) return wrong();
    if (slash == rest.size()) return name;
    rest.remove_prefix(slash + 1);
  }
}

std::map<std::string, Fetched::File> Fetched::parse(std::string_view text) {
  std::map<std::string, File> files;
  for (auto end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    const Json line = wire::parsed_json(text.substr(0, end));
    text.remove_prefix(end + 1);
    const bool fits = line.is_array() && (line.size() == 3 || line.size() == 4) &&
                      line[0].is_string() && line[1].is_number_unsigned() && line[2].is_string();
    if (!fits || (line.size() == 4 && !line[3].is_number_integer())) continue;
    File file{line[1].get<std::uint64_t>(), line[2].get<std::string>(), std::nullopt};
    if (line.size() == 4) file.modified = line[3].get<std::int64_t>();
    files[line[0].get<std::string>()] = std::move(file);
  }
  return files;
}

Result<Fetched> Fetched::open(std::filesystem::path path) {
  Fetched fetched(std::move(path));
  if (fetched.path_.empty()) return fetched;
  const auto text = io::read_file(fetched.path_, longest_ledger);
  if (!text && text.error() != std::errc::no_such_file_or_directory)
    return failure(fetched.path_.string() + ": " + text.error().message());
  if (text) fetched.files_ = parse(*text);
  // The next line must not continue one that was cut off.
  if (text && !text->empty() && text->back() != '\n') fetched.lines_ = "\n";
  return fetched;
}

bool Fetched::is_whole(const std::filesystem::path& folder, const std::string& name,
                       std::uint64_t size, const std::string& etag) const {
  const auto known = files_.find(name);
  if (known == files_.end() || known->second.etag != etag || known->second.size != size)
    return false;
  const auto status = look(folder / name);
  return status && static_cast<std::uint64_t>(status->st_size) == size &&
         known->second.modified == modified(*status);
}

std::uint64_t Fetched::begun(const std::filesystem::path& partial, const std::string& name,
                             std::uint64_t size, const std::string& etag) const {
  const auto known = files_.find(name);
  if (known == files_.end() || known->second.modified || known->second.etag != etag) return 0;
  const auto status = look(partial);
  const std::uint64_t bytes = known->second.size;
  const bool there = status && static_cast<std::uint64_t>(status->st_size) >= bytes;
  return there && bytes < size ? bytes : 0;
}

bool Fetched::add_whole(const std::filesystem::path& folder, const std::string& name,
                        const std::string& etag) {
  const auto status = look(folder / name);
  if (!status) return false;
  add(name, {static_cast<std::uint64_t>(status->st_size), etag, modified(*status)});
  return true;
}

void Fetched::add_begun(const std::string& name, std::uint64_t bytes, const std::string& etag) {
  add(name, {bytes, etag, std::nullopt});
}

void Fetched::add(const std::string& name, File file) {
  Json line = {name, file.size, file.etag};
  if (file.modified) line.push_back(*file.modified);
  lines_ += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  files_[name] = std::move(file);
}

Result<void> Fetched::keep() {
  const std::string lines = std::exchange(lines_, {});
  if (path_.empty() || lines.empty()) return {};
  const Descriptor file(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (file &&
      ::write(file.get(), lines.data(), lines.size()) == static_cast<ssize_t>(lines.size())) {
    return {};
  }
  return failure(path_.string() + ": " + std::strerror(errno));
}

}  // namespace spotter::data
