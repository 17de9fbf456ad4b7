#include "agent/host/layout.hpp"

#include <fcntl.h>

#include <chrono>
#include <thread>

#include "agent/base/record.hpp"
#include "agent/config/job.hpp"
#include "agent/guard/record.hpp"
#include "agent/wire/curve.hpp"
#include "agent/wire/history.hpp"
#include "trainer/library/checkpoint.hpp"

namespace spotter::act::host {
namespace {

// Files that change their owner: a user has another number on another image.
struct Owner {
  uid_t uid;
  gid_t gid;
};

struct Giving {
  Owner from;
  Owner to;
  std::string skipped;  // a name at the top
  // The files there may be others': only files of `from.uid` are given, and none that has another
  // name, which may lie in a place of somebody else's. On a volume all is the job's, and no name of
  // a file leads off it.
  bool shared = false;
};

constexpr std::uint64_t files_limit =
    20'000'000;                   // minutes on an EBS volume; more is no job's output
constexpr int depth_limit = 128;  // some descriptors each; paths end at 4096 bytes anyway

class Walk {
 public:
  Walk(const Giving& giving, dev_t device) : giving_(giving), device_(device) {}

  Result<void> directory(const io::SafeDirectory& at, int depth) {
    if (depth > depth_limit)
      return fail("too-many-files", "directories on the volume are nested too deeply");
    Result<void> done;
    const auto listed = at.each_name([&](const std::string& name) {
      if (depth == 0 && name == giving_.skipped) return true;
      done = one(at, name, depth);
      return done.has_value();
    });
    if (!listed) return fail_errno(listed.error(), "cannot list " + at.path().string());
    return done;
  }

  std::uint64_t given() const { return given_; }

 private:
  Result<void> one(const io::SafeDirectory& at, const std::string& name, int depth) {
    const auto opened = at.open(name, O_PATH | O_NOFOLLOW);
    struct stat status {};
    if (!opened) {
      const bool gone = opened.error() == std::errc::no_such_file_or_directory;
      if (gone || opened.error() == std::errc::cross_device_link) return {};
      return fail_errno(opened.error(), "cannot look at " + (at.path() / name).string());
    }
    if (::fstat(opened->get(), &status) != 0) return fail_errno(errno, "cannot look at " + name);
    if (status.st_dev != device_) return {};
    if (++seen_ > files_limit) {
      return fail("too-many-files",
                  "more than " + std::to_string(files_limit) +
                      " files would change their owner; do it by hand (chown -R)");
    }
    if (!S_ISDIR(status.st_mode)) return give(*opened, status, name);
    const auto below = at.folder(name);
    const auto now = below ? below->status() : tl::unexpected(below.error());
    if (!now) return fail_errno(now.error(), "cannot open " + (at.path() / name).string());
    if (now->st_ino != status.st_ino) return {};  // it was replaced: not ours to give
    TRY(directory(*below, depth + 1));
    return give(*opened, status, name);
  }

  // On a volume each id by itself: a file of root's may have the user's group.
  Result<void> give(const io::Descriptor& opened, const struct stat& status,
                    const std::string& name) {
    const bool theirs = status.st_uid == giving_.from.uid;
    const bool elsewhere = !S_ISDIR(status.st_mode) && status.st_nlink != 1;
    if (giving_.shared && (!theirs || elsewhere)) return {};
    const uid_t uid = theirs ? giving_.to.uid : status.st_uid;
    const gid_t gid = status.st_gid == giving_.from.gid ? giving_.to.gid : status.st_gid;
    if (uid == status.st_uid && gid == status.st_gid) return {};
    TRY(or_fail(io::give(opened, uid, gid), "cannot give " + name + " to its user"));
    ++given_;
    return {};
  }

  const Giving& giving_;
  dev_t device_;
  std::uint64_t seen_ = 0;
  std::uint64_t given_ = 0;
};

// Gives what belongs to `from` below `directory` to `to`: never follows a symlink, never leaves the
// file system. Each file is opened, looked at and given by that handle. Answers how many.
Result<std::uint64_t> give_files(const io::SafeDirectory& directory, const Giving& giving) {
  const auto status =
      TRY(or_fail(directory.status(), "cannot look at " + directory.path().string()));
  Walk walk(giving, status.st_dev);
  TRY(walk.directory(directory, 0));
  return walk.given();
}

constexpr std::size_t record_limit = 64U << 10;
constexpr std::uint64_t known_layout = 1;
constexpr const char* record_name = "volume.json";

bool safe_relative(const fs::path& path) {
  if (path.empty() || path.is_absolute()) return false;
  for (const auto& part : path) {
    if (part == ".." || part == own_directory) return false;
  }
  return true;
}

bool is_in_the_way(const std::error_code& error) {
  return error == std::errc::not_a_directory || error.value() == ELOOP || error.value() == EXDEV;
}

// The owner of the root directory, and all who may write there without its sticky bit, can move
// `.spotter` away and put another in its place. A user who had it can go on writing there, by the
// group.
Result<void> keep_root(const io::SafeDirectory& root, const User& user) {
  const auto status = root.status();
  if (!status) return fail_errno(status.error(), "cannot look at " + root.path().string());
  const bool others = status->st_uid != 0;
  mode_t mode = (status->st_mode & 0777) | S_ISVTX;
  if (others) mode |= 0070;
  if (!others && mode == (status->st_mode & 07777)) return {};
  auto kept = others ? root.give(0, user.gid) : Result<void, std::error_code>();
  if (kept) kept = root.change_mode(mode);
  return or_fail(kept, "cannot own " + root.path().string());
}

// Ours, and no symlink that somebody put there: what we write into it is believed later.
Result<io::SafeDirectory> ensure_own_directory(const io::SafeDirectory& root, const User& user) {
  const bool as_root = ::geteuid() == 0 && !AsUser::active();
  if (as_root) TRY(keep_root(root, user));
  const auto made = root.make_folder(own_directory, 0755);
  const auto path = (root.path() / own_directory).string();
  if (!made && is_in_the_way(made.error()))
    return fail("layout-unusable", path + " is not a directory; move it away");
  if (!made) return fail_errno(made.error(), "cannot make " + path);
  auto own = open_own(root);
  if (!own || !as_root) return own;
  TRY(or_fail(own->give(0, 0), "cannot own " + path));
  TRY(or_fail(own->change_mode(0755), "cannot own " + path));
  return own;
}

// One component after the other below the root. An existing one is left to its owner: the user may
// have made it.
Result<void> ensure_user_directory(const io::SafeDirectory& root, const fs::path& relative,
                                   const User& user) {
  auto at = root.folder("");
  for (const auto& part : relative) {
    if (part.empty() || part == ".") continue;
    if (at) at = make_for(*at, part, user, part == config::users_home ? 0700 : 0755);
  }
  if (at) return {};
  const auto path = (root.path() / relative).string();
  if (is_in_the_way(at.error()))
    return fail("layout-unusable", path + " is not a directory of the volume itself; move it away");
  return fail_errno(at.error(), "cannot make " + path);
}

Result<VolumeRecord> parse_record(const std::string& text, const std::string& shown) {
  auto record = wire::parse_document<VolumeRecord>(text, known_layout, "the storage");
  if (!record && wire::is_newer(record.error()))
    return fail("newer-format", shown + ": " + record.error().message);
  if (!record) return VolumeRecord();
  record->present = record->uid != UINT32_MAX && record->gid != UINT32_MAX;
  return record;
}

// Just made by root: here, or on another machine that has not given it yet, or was killed before.
bool is_not_given_yet(const io::SafeDirectory& folder, const User& user) {
  const auto status = folder.status();
  if (!status || status->st_uid != 0) return false;
  const auto names = folder.names();
  const AsUser as(user);
  return names && names->empty() && !folder.may_change();
}

// A job of the same name may have run on a machine that gave the folder to its own trainer's user
// meanwhile: that user's files are in it.
std::optional<Owner> other_owner(const io::SafeDirectory& folder, const User& user) {
  const auto names = folder.names();
  if (!names) return std::nullopt;
  for (const std::string& name : *names) {
    const auto seen = folder.look(name);
    if (seen && seen->st_uid != 0 && seen->st_uid != user.uid)
      return Owner{seen->st_uid, seen->st_gid};
  }
  return std::nullopt;
}

// None where it is not of a file that `may_be` accepts.
Result<VolumeRecord> read_record(const io::SafeDirectory& own,
                                 const std::function<bool(const struct stat&)>& may_be) {
  const auto shown = (own.path() / record_name).string();
  const auto seen = own.look(record_name);
  if (seen && !may_be(*seen)) return VolumeRecord();
  const auto text = own.read(record_name, record_limit);
  if (text) return parse_record(*text, shown);
  if (text.error() == std::errc::no_such_file_or_directory) return VolumeRecord();
  return fail_errno(text.error(), "cannot read " + shown);
}

constexpr std::size_t longest_document = 64U << 20;

template <class T>
std::string newer_in(const io::SafeDirectory& folder, const std::string& name,
                     Result<T> (*decode)(std::string_view)) {
  const auto text = folder.read(name, longest_document);
  if (!text) return {};
  const auto document = decode(*text);
  return document || !wire::is_newer(document.error()) ? std::string() : document.error().message;
}

std::string newest_checkpoint(const fs::path& directory) {
  const auto steps = checkpoint::steps_in(directory);
  if (!steps || steps->empty()) return {};
  const auto manifest =
      checkpoint::read_manifest(directory / checkpoint::directory_name(steps->front()));
  const bool newer = !manifest && manifest.error().why == checkpoint::Refusal::Why::Newer;
  return newer ? manifest.error().reason : std::string();
}

Result<void> refuse(const fs::path& path, const std::string& why) {
  if (why.empty()) return {};
  return fail("newer-format", path.string() + ": " + why);
}

// A .spotter that is not ours is its reader's to say, too.
Result<void> check_own(const io::SafeDirectory& own) {
  const auto file = [&own](const char* name) { return own.path() / name; };
  TRY(refuse(file("ledger.json"), newer_in(own, "ledger.json", wire::parse_ledger)));
  const char* record = "checkpoints.json";
  TRY(refuse(file(record), newer_in(own, record, guard::decode)));
  return refuse(file("history.jsonl"), wire::parse_history(last_lines(own, "history.jsonl")).newer);
}

}  // namespace

Result<void> ensure_link(const fs::path& at, const fs::path& to) {
  std::error_code error;
  if (fs::read_symlink(at, error) == to) return {};
  const auto status = fs::symlink_status(at, error);
  if (fs::exists(status) && !fs::is_symlink(status))
    return fail("layout-unusable", at.string() + " is there, and is no link");
  TRY(make_directories(at.parent_path()));
  fs::remove(at, error);
  fs::create_symlink(to, at, error);
  if (error) return fail_errno(error, "cannot make the link " + at.string());
  return {};
}

Result<VolumeRecord> read_volume_record(const fs::path& mount_point) {
  const auto own = open_own(mount_point);
  if (own) return read_record(*own, is_ours);
  const bool absent = own.error().kind == "not-mounted" || own.error().kind == "layout-unusable";
  if (absent) return VolumeRecord();
  return tl::unexpected<Error>(own.error());
}

Result<io::SafeDirectory, std::error_code> make_for(const io::SafeDirectory& at,
                                                    const std::string& name, const User& user,
                                                    mode_t mode) {
  const bool may_give = ::geteuid() == 0 && !AsUser::active();
  std::optional<AsUser> as(user);
  auto made = at.make_folder(name, mode);
  as.reset();
  const bool refused = !made && (made.error() == std::errc::permission_denied ||
                                 made.error() == std::errc::operation_not_permitted);
  bool ours = false;
  if (refused && may_give) made = at.make_folder(name, mode, &ours);
  if (!made || !may_give) return made;
  // Another machine made it, and gives it in a moment to its job's user, unless it was killed.
  for (int waits = ours ? 0 : 40; waits > 0 && is_not_given_yet(*made, user); --waits)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (!is_not_given_yet(*made, user)) return made;
  TRY(made->give(user.uid, user.gid));
  if (const auto owner = other_owner(*made, user)) {
    (void)made->give(owner->uid, owner->gid);
    return tl::unexpected(std::make_error_code(std::errc::permission_denied));
  }
  return made;
}

Result<void> take_over(const io::SafeDirectory& home, const User& user) {
  if (::geteuid() != 0) return {};
  const auto own = home.folder(own_directory);
  const auto its = own ? own->status() : tl::unexpected(own.error());
  const auto status = home.status();
  if (!its || !status || its->st_uid == 0 || its->st_uid == user.uid) return {};
  const auto record =
      TRY(read_record(*own, [&](const struct stat& seen) { return seen.st_uid == its->st_uid; }));
  const bool says_so = record.present && record.uid == its->st_uid && record.user == user.name;
  const bool theirs = status->st_uid == its->st_uid || status->st_uid == user.uid;
  if (!says_so || !theirs) return {};
  Giving giving{{its->st_uid, its->st_gid}, {user.uid, user.gid}, own_directory, true};
  TRY(give_files(home, giving));
  // `.spotter` and its record show that it is done, so it comes last; the record is written again.
  giving.skipped = record_name;
  TRY(give_files(*own, giving));
  auto given =
      status->st_uid == user.uid ? Result<void, std::error_code>() : home.give(user.uid, user.gid);
  if (given) given = own->give(user.uid, user.gid);
  return or_fail(given, "cannot give " + home.path().string() + " to " + user.name);
}

Result<void> ensure_layout(const io::SafeDirectory& root, const std::string& volume,
                           const std::vector<std::string>& directories, const User& user,
                           Mounted& mounted) {
  const auto own = TRY(ensure_own_directory(root, user));
  const auto before = TRY(read_record(own, is_ours));
  mounted.previous_volume = before.volume;
  const bool given_before = ::geteuid() != 0 || AsUser::active();  // take_over()
  if (!given_before && before.present && (before.uid != user.uid || before.gid != user.gid)) {
    const Giving giving{{before.uid, before.gid}, {user.uid, user.gid}, own_directory};
    mounted.owners_changed = TRY(give_files(root, giving));
  }
  for (const auto& directory : directories) {
    if (!safe_relative(directory))
      return fail("bad-request", "'" + directory + "' is not a path inside the volume");
    TRY(ensure_user_directory(root, directory, user));
  }
  const VolumeRecord record{volume, user.name, user.uid, user.gid};
  TRY(or_fail(own.write(record_name, wire::document_of(record, known_layout), 0644),
              "cannot write " + (own.path() / record_name).string()));
  return or_fail(root.sync(), "cannot sync " + root.path().string());
}

Result<void> check_formats(const fs::path& home, const std::vector<std::string>& directories) {
  const auto storage = read_volume_record(home);
  if (!storage && storage.error().kind == "newer-format")
    return tl::unexpected<Error>(storage.error());
  const auto opened = io::SafeDirectory::open(home);
  if (!opened) return {};
  if (const auto own = open_own(*opened)) TRY(check_own(*own));
  const auto curve = wire::parse_curve(last_lines(*opened, "metrics.jsonl")).newer;
  TRY(refuse(home / "metrics.jsonl", curve));
  for (const std::string& directory : directories) {
    // By a path, and only read: a link in it leads to what is no newer checkpoint.
    const fs::path path = home / directory;
    TRY(refuse(path, newest_checkpoint(path)));
  }
  return {};
}

}  // namespace spotter::act::host
