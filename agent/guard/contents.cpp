#include "agent/guard/contents.hpp"

#include <algorithm>

namespace spotter::guard {
namespace {

constexpr std::size_t all_parts_limit = 150'000;
constexpr std::size_t all_names_limit = 32U << 20;  // bytes: what a trainer can make us hold

tl::unexpected<Refusal> odd(std::string words) {
  return tl::unexpected(Refusal{Refusal::Why::Odd, std::move(words)});
}

tl::unexpected<Refusal> unreadable(const std::string& name, const std::error_code& error) {
  const std::string what = name.empty() ? "it" : name;
  return tl::unexpected(
      Refusal{Refusal::Why::Failed, what + " cannot be read: " + error.message()});
}

// Of one folder and all below it.
class Walk {
 public:
  using Done = Result<void, Refusal>;

  Done into(const Beneath& folder, const std::string& below, int depth) {
    if (depth > parts_depth)
      return odd("its folders lie more than " + std::to_string(parts_depth) + " deep");
    Done done;
    const auto listed = folder.each_name([&](const std::string& name) {
      done = take(folder, name, below.empty() ? name : below + "/" + name, depth);
      return done.has_value();
    });
    if (done && !listed) return unreadable(below, listed.error());
    return done;
  }

  Contents contents() {
    std::ranges::sort(contents_.parts, {}, &Found::name);
    return std::move(contents_);
  }

 private:
  Done take(const Beneath& folder, const std::string& name, const std::string& path, int depth) {
    if (!is_plain(path)) return odd("a name in it has control characters or quotes");
    if (++seen_ > parts_limit)
      return odd("it has more than " + std::to_string(parts_limit) + " files");
    const auto status = folder.look(name);
    if (!status && is_out_of_place(status.error().value())) return {};  // gone meanwhile
    if (!status) return unreadable(path, status.error());
    if (S_ISDIR(status->st_mode)) return take_folder(folder, name, path, depth);
    if (!S_ISREG(status->st_mode))
      return odd(path + " in it is neither a file nor a folder (a link or a FIFO, say)");
    const Found& part = contents_.parts.emplace_back(found(path, *status));
    contents_.bytes += part.bytes;
    contents_.mtime_ns = std::max(contents_.mtime_ns, part.mtime_ns);
    return {};
  }

  Done take_folder(const Beneath& folder, const std::string& name, const std::string& path,
                   int depth) {
    const auto inner = folder.folder(name);
    if (!inner && is_out_of_place(inner.error().value())) return {};
    if (!inner) return unreadable(path, inner.error());
    contents_.folders.push_back(path);
    return into(*inner, path, depth + 1);
  }

  Contents contents_;
  std::size_t seen_ = 0;
};

}  // namespace

const Found* Contents::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(parts, name, {}, &Found::name);
  return at != parts.end() && at->name == name ? &*at : nullptr;
}

std::size_t Contents::bytes_of_names() const {
  std::size_t bytes = 0;
  for (const Found& part : parts) bytes += part.name.size();
  for (const std::string& folder : folders) bytes += folder.size();
  return bytes;
}

Result<Contents, Refusal> read_contents(const Beneath& folder) {
  Walk walk;
  if (auto done = walk.into(folder, "", 0); !done) return tl::unexpected(done.error());
  return walk.contents();
}

Result<std::vector<Unit>> list_units(const Place& place) {
  const auto names = place.folders();
  if (!names) return tl::unexpected(names.error());
  const auto too_many = [&place](const std::string& what) {
    return failure("more than " + what + " '" + place.where().folders + "' in " +
                   place.where().directory + "; give checkpoints.folders a narrower pattern");
  };
  if (names->size() > units_limit) return too_many(std::to_string(units_limit) + " folders match");
  std::vector<Unit> units;
  std::size_t parts = 0;
  std::size_t bytes = 0;
  for (const std::string& name : *names) {
    const auto folder = place.folder(name);
    if (!folder && is_out_of_place(folder.error().value())) continue;
    units.push_back({name, folder ? read_contents(*folder) : unreadable("", folder.error())});
    if (!units.back().contents) continue;
    parts += units.back().contents->parts.size();
    bytes += units.back().contents->bytes_of_names();
    if (parts > all_parts_limit || bytes > all_names_limit)
      return too_many(std::to_string(all_parts_limit) + " files, or very long names, lie in the " +
                      "folders that match");
  }
  return units;
}

}  // namespace spotter::guard
