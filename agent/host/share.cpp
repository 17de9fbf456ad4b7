#include "agent/host/share.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "agent/aws/formats/partition.hpp"
#include "agent/host/layout.hpp"
#include "agent/io/child.hpp"

namespace spotter::act::host {
namespace {

// A bucket has its folder of working copies on this machine, which is made.
bool is_folder(const Share& share) {
  return share.kind == Share::Kind::Folder || share.kind == Share::Kind::S3;
}

// mount.efs with TLS shows the tunnel's own end as the source.
bool is_same(const Share& share, const MountEntry& entry) {
  const std::string source = share.server + ":" + share.path;
  if (share.kind == Share::Kind::Sshfs)
    return entry.filesystem == "fuse.sshfs" && entry.source == source;
  const bool nfs = entry.filesystem.substr(0, 3) == "nfs";
  return nfs && (share.kind == Share::Kind::Efs || entry.source == source);
}

bool has_program(const char* name) {
  return !io::find_program(name, "/sbin:/usr/sbin:/usr/local/sbin:/usr/bin").empty();
}

// sshfs says no more than "Connection reset by peer": ssh itself says why. Its options are those
// that begin with a capital.
std::string why_not(const Share& share, const std::vector<std::string>& command,
                    const std::string& words, const std::map<std::string, std::string>& variables) {
  ToolRequest ssh{.argv = {"ssh", "-p", std::to_string(share.port)}, .environment = variables};
  std::istringstream options(command.back());
  for (std::string option; std::getline(options, option, ',');) {
    if (!option.empty() && option[0] >= 'A' && option[0] <= 'Z') {
      ssh.argv.insert(ssh.argv.end(), {"-o", option});
    }
  }
  ssh.argv.insert(ssh.argv.end(), {"-s", "--", share.server, "sftp"});
  const auto asked = run_tool(ssh, "openssh-client");
  if (!asked || asked->status == 0) return words;
  return last_words(*asked);
}

Result<void> mount(const Share& share, const User& user) {
  TRY(make_directories(share.mount, "mount-failed"));
  const bool shown_to_all = ::geteuid() != user.uid;
  const auto command =
      TRY(mount_command(share, user.uid, user.gid, shown_to_all, has_program("mount.efs")));
  ToolRequest tool{.argv = command, .environment = {{"LC_ALL", "C"}}};
  if (const char* home = std::getenv("HOME")) tool.environment["HOME"] = home;
  if (const char* agent = std::getenv("SSH_AUTH_SOCK")) tool.environment["SSH_AUTH_SOCK"] = agent;
  tool.own_session = true;  // ssh and the file system's daemon stay
  const bool sshfs = share.kind == Share::Kind::Sshfs;
  const auto done = TRY(run_tool(tool, sshfs ? "sshfs" : "nfs-common"));
  if (done.status == 0) return {};
  std::string words = last_words(done);
  if (sshfs) words = why_not(share, command, words, tool.environment);
  return tl::unexpected<Error>(mount_failure(share, words));
}

Result<bool> mount_unless_there(const Share& share, const User& user, const std::string& holder,
                                ShareUse& use) {
  const auto entry = mount_at(share.mount);
  if (entry && !is_same(share, *entry)) {
    return fail("mount-point-busy", entry->source + " (" + entry->filesystem + ") is mounted on " +
                                        share.mount +
                                        " already: unmount it, or name it as storage.folder");
  }
  if (!entry) {
    // The holders from before it went away use it again: the last of them unmounts.
    use.forget_mount();
    TRY(mount(share, user));
    if (const auto now = mount_at(share.mount)) use.is_ours(*now);
  }
  use.begin(holder);
  return entry.has_value();
}

// The daemon behind it is gone, or the server gave the folder's handle up: only a new mount helps.
bool is_dead(const fs::path& mount_point) {
  struct stat status {};
  return ::stat(mount_point.c_str(), &status) != 0 && (errno == ENOTCONN || errno == ESTALE);
}

Result<void> detach(const fs::path& name) {
  if (::geteuid() == 0) {
    if (::umount2(name.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0 || errno == EINVAL) return {};
    return fail_errno(errno, "cannot unmount " + name.string(), "unmount-failed");
  }
  const auto done = TRY(run_tool({.argv = {"fusermount3", "-u", "-z", name.string()}}, "fuse3"));
  if (done.status == 0) return {};
  return fail("unmount-failed", last_words(done));
}

Result<bool> bring(const Share& share, const User& user, const std::string& holder) {
  auto opened = TRY(ShareUse::open(share.mount));
  ShareUse& use = opened;
  auto already = mount_unless_there(share, user, holder, use);
  use.unlock();  // what follows may hang
  if (!already || !is_dead(share.mount)) return already;
  use.lock();
  const auto entry = mount_at(share.mount);
  if (entry && !use.is_by_us(*entry)) {
    return fail("share-silent", share.mount +
                                    " is mounted, but not connected any more, and it was not "
                                    "Spotter who mounted it: unmount it");
  }
  if (const auto gone = detach(mount_name(share.mount)); entry && !gone)
    return tl::unexpected<Error>(gone.error());
  return mount_unless_there(share, user, holder, use);
}

// One folder of the job's on the way to its home. A server knows no other than the trainer's user,
// and its root may be nobody there (root_squash).
Result<io::SafeDirectory> make_home(const io::SafeDirectory& at, const std::string& name,
                                    const User& user) {
  auto made = make_for(at, name, user);
  if (made) return *std::move(made);
  const auto home = at.path() / name;
  const auto& error = made.error();
  if (error.value() == EACCES || error.value() == EPERM) {
    return fail("not-permitted", user.name + " may not make " + home.string() +
                                     ": give the folder above it to that user, on the server");
  }
  if (error.value() == ENOTDIR || error.value() == ELOOP)
    return fail("layout-unusable", home.string() + " is not a directory; move it away");
  return fail_errno(error, "cannot make " + home.string());
}

Result<io::SafeDirectory> open_home(const verbs::PrepareShare& request, const User& user) {
  auto home = TRY(open_directory(request.share.mount));
  const auto before = home.look(request.job);
  if (request.again && !before && before.error() == std::errc::no_such_file_or_directory) {
    return fail("folder-missing",
                request.share.mount + "/" + request.job +
                    " was there, and is gone: is another disk, or none, in its place "
                    "on the server? To start over, start the agent again");
  }
  for (const auto& part : fs::path(request.job)) {  // of a sweep: the job's, the experiment's
    home = TRY(make_home(home, part, user));
  }
  return home;
}

// The first folder of the job's that is another user's, and closed to the trainer's: take_over()
// left it alone. That the server shows another number alone means nothing (an access point of EFS).
std::string foreign_folder(const io::SafeDirectory& home, const verbs::PrepareShare& request,
                           const User& user) {
  const AsUser as(user);
  std::vector<std::string> names{"", own_directory};
  names.insert(names.end(), request.directories.begin(), request.directories.end());
  for (const std::string& name : names) {
    const auto folder = home.folder(name);
    const auto status = folder ? folder->status() : home.look(name);
    if (!status || status->st_uid == user.uid || (folder && folder->may_change())) continue;
    const auto path = (name.empty() ? home.path() : home.path() / name).string();
    return path + " belongs to the user with the number " + std::to_string(status->st_uid) +
           ", and " + user.name + " (trainer.user) may not write there. If what is in it is this " +
           "job's: chown -R " + user.name + " " + home.path().string() +
           "; if not, give the job another name, or the share another folder";
  }
  return {};
}

Result<void> lay_out(const verbs::PrepareShare& request, const User& user, Prepared& prepared) {
  const auto home = TRY(open_home(request, user));
  {
    const AsUser as(user);
    TRY(check_formats(home.path(), request.directories));
  }
  if (request.share.kind != Share::Kind::Sshfs) {
    TRY(take_over(home, user));
    prepared.foreign = foreign_folder(home, request, user);
  }
  if (!request.link.empty()) TRY(ensure_link(request.link, home.path() / request.container));
  const AsUser as(user);
  Mounted ignored;
  const auto laid = ensure_layout(home, {}, request.directories, user, ignored);
  if (laid && request.identity) prepared.id = TRY(home_id(home));
  if (!laid && laid.error().kind == "not-permitted" && !prepared.foreign.empty())
    return fail("not-permitted", laid.error().message + ": " + prepared.foreign);
  if (laid || laid.error().kind != "input-output") return laid;
  TRY(probe_share(home.path()));
  return fail("share-silent", "the server did not carry it out: " + laid.error().message);
}

// The working copies of homes in a bucket, with the trainer's cache in them: all of it can be
// brought again. Without such a disk they stay in their place.
void put_on_disk(const verbs::PrepareShare& request, const Machine& machine, const User& user,
                 Prepared& prepared) {
  const fs::path folder =  // of all its experiments
      fs::path(request.share.mount) / *fs::path(request.job).begin();
  const auto made = make_cache(folder, machine, user);
  prepared.cache = made ? *made : made.error().message;
}

Result<void> sync_one(const fs::path& path) {
  const io::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return fail_errno(errno, "cannot open " + path.string(), "sync-failed");
  if (::fsync(fd.get()) == 0) return {};
  return fail_errno(errno, "cannot sync " + path.string(), "sync-failed");
}

// Builds the command that mounts a share, and explains its failures. Pure.

using Options = std::vector<std::string>;

Options split(const std::string& text) {
  Options options;
  for (std::size_t at = 0; at < text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    if (comma > at) options.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return options;
}

// Options that exclude one another have one name here.
std::string meaning(const std::string& option) {
  const std::string name = option.substr(0, option.find('='));
  if (name == "soft" || name == "softerr") return "hard";
  if (name == "resvport") return "noresvport";
  if (name == "vers" || name == "minorversion") return "nfsvers";
  return name;
}

// The user's own have precedence.
std::string merge(const std::string& defaults, const std::string& own) {
  Options all = split(own);
  std::string text;
  const auto add = [&text](const std::string& option) {
    text += (text.empty() ? "" : ",") + option;
  };
  for (const std::string& option : split(defaults)) {
    const bool given = std::any_of(all.begin(), all.end(), [&](const std::string& its) {
      return meaning(its) == meaning(option);
    });
    if (!given) add(option);
  }
  for (const std::string& option : all) add(option);
  return text;
}

constexpr const char* kNfsOptions =
    "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,nosuid,nodev";

// ServerAlive: a dead server is noticed in 45 s, and then every call fails instead of hanging.
constexpr const char* kSshfsOptions =
    "reconnect,ServerAliveInterval=15,ServerAliveCountMax=3,ConnectTimeout=15,nosuid,nodev";

std::string efs_name(const Share& share) {
  if (share.server.find('.') != std::string::npos) return share.server;
  return share.server + ".efs." + share.region + "." +
         std::string(wire::partition_of(share.region).suffix);
}

// Plain NFS knows nothing of these.
bool needs_mount_efs(const Share& share) {
  constexpr std::array<std::string_view, 3> its = {"az", "iam", "tls"};
  const Options own = split(share.options);
  return share.tls || !share.access_point.empty() ||
         std::any_of(own.begin(), own.end(), [&](const std::string& option) {
           return std::find(its.begin(), its.end(), meaning(option)) != its.end();
         });
}

Result<std::vector<std::string>> efs_command(const Share& share, bool has_mount_efs) {
  if (has_mount_efs) {
    std::string options = "_netdev,nosuid,nodev";
    if (share.tls || !share.access_point.empty()) options += ",tls";
    if (!share.access_point.empty()) options += ",accesspoint=" + share.access_point;
    return std::vector<std::string>{
        "mount",    "-t", "efs", "-o", merge(options, share.options), share.server + ":/",
        share.mount};
  }
  if (needs_mount_efs(share)) {
    return fail("tool-missing",
                "storage.efs.tls, access_point and the options az, iam and tls need mount.efs, "
                "which is not installed: install amazon-efs-utils in the image "
                "(https://github.com/aws/efs-utils)");
  }
  if (share.region.empty() && share.server.find('.') == std::string::npos) {
    return fail("mount-failed",
                "the region is not known: set AWS_REGION, or give the DNS name of " + share.server +
                    " as storage.efs.id");
  }
  return std::vector<std::string>{
      "mount",    "-t", "nfs4", "-o", merge(kNfsOptions, share.options), efs_name(share) + ":/",
      share.mount};
}

std::vector<std::string> sshfs_command(const Share& share, std::uint32_t uid, std::uint32_t gid,
                                       bool shown_to_all) {
  std::string options = kSshfsOptions;
  // To the trainer every file is its own; what the server's account may not do, it still may not.
  options += ",default_permissions,uid=" + std::to_string(uid) + ",gid=" + std::to_string(gid);
  if (shown_to_all) options += ",allow_other";
  options = merge(options, share.options);
  // Never asks, never believes a server whose key nobody vouched for.
  options += ",BatchMode=yes,PasswordAuthentication=no,StrictHostKeyChecking=yes";
  if (!share.known_hosts.empty()) options += ",UserKnownHostsFile=" + share.known_hosts;
  if (!share.key.empty()) options += ",IdentityFile=" + share.key + ",IdentitiesOnly=yes";
  return {"sshfs", share.server + ":" + share.path, share.mount,
          "-p",    std::to_string(share.port),      "-o",
          options};
}

std::string scan_advice(const Share& share) {
  const std::string host = share.server.substr(share.server.find('@') + 1);
  const std::string file =
      share.known_hosts.empty() ? "known_hosts of root's or the agent's user" : share.known_hosts;
  return "; fetch it with `ssh-keyscan -p " + std::to_string(share.port) + " " + host +
         "`, compare its fingerprint with the server's own (ssh-keygen -lf), and add the line to " +
         file;
}

using namespace std::chrono_literals;

fs::path registry() {
  if (const char* set = std::getenv("SPOTTER_MOUNTS"); set != nullptr && *set != 0) return set;
  if (::geteuid() == 0) return "/run/spotter-mounts";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != 0) return fs::path(runtime) / "spotter-mounts";
  return "/tmp/spotter-mounts-" + std::to_string(::geteuid());
}

// "/mnt/a" -> "%2Fmnt%2Fa": one name for each path.
std::string escaped(const std::string& path) {
  std::string name;
  for (const char each : path) {
    if (each == '/') {
      name += "%2F";
    } else if (each == '%') {
      name += "%25";
    } else {
      name += each;
    }
  }
  return name;
}

// A mount's device number is its own as long as it is there; the source tells one from the next.
std::string identity(const MountEntry& entry) {
  return std::to_string(major(entry.device)) + ":" + std::to_string(minor(entry.device)) + " " +
         entry.source + "\n";
}

}  // namespace

Result<Prepared> prepare_share(const verbs::PrepareShare& request, const Machine& machine) {
  const auto user = TRY(find_user(request.user));
  const Share& share = request.share;
  Prepared prepared;
  // A cache may lie in a folder of the user's own, who could lead root elsewhere by a link.
  std::optional<AsUser> as;
  if (is_folder(share)) {
    std::error_code error;
    if (share.kind == Share::Kind::S3) {
      if (may_redirect(user, share.mount)) as.emplace(user);
      if (!request.cache.empty() && !as) put_on_disk(request, machine, user, prepared);
      TRY(make_directories(share.mount));
    }
    if (!fs::is_directory(share.mount, error)) {
      return fail("folder-missing",
                  "there is no folder " + share.mount + ": make it, or mount what it is on");
    }
    prepared.already = true;
  } else {
    const auto already = TRY(bring(share, user, request.holder));
    prepared.already = already;
  }
  TRY(lay_out(request, user, prepared));
  TRY(probe_share(fs::path(share.mount) / request.job));
  as.reset();
  if (!request.cache.empty() && share.kind != Share::Kind::S3) {
    const auto made = make_cache(request.cache, machine, user);
    prepared.cache = made ? *made : made.error().message;
  }
  return prepared;
}

Result<bool> release_share(const verbs::ReleaseShare& request) {
  const fs::path mount_point = request.share.mount;
  remove_link(request.link, mount_point / request.job);
  if (is_folder(request.share)) return false;
  auto opened = TRY(ShareUse::open(mount_point));
  ShareUse& use = opened;
  use.end(request.holder);
  const auto entry = mount_at(mount_point);
  if (!entry || use.is_used() || !use.is_by_us(*entry)) return false;
  TRY(detach(mount_name(mount_point)));
  use.forget_mount();
  cut_if_stuck(*entry);
  return true;
}

bool is_share_mounted(const Share& share) {
  if (is_folder(share)) return true;
  const auto entry = mount_at(share.mount);
  return entry && is_same(share, *entry);
}

Result<void> probe_share(const fs::path& home) {
  struct statvfs space {};
  if (::statvfs(home.c_str(), &space) != 0)
    return fail_errno(errno, "cannot look at " + home.string(), "share-silent");
  constexpr std::uint64_t least = 1U << 20;  // less takes no code, ledger or log
  const std::uint64_t left = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
  const bool full = space.f_blocks > 0 && left < least;  // 0 blocks: nobody knows
  if (!full && (space.f_files == 0 || space.f_favail > 0)) return {};
  return fail("storage-full", "no room is left " + std::string(full ? "on " : "for a file on ") +
                                  home.string() + " (of a share: on its server)");
}

Result<void> mark_done(const fs::path& home, const std::string& job) {
  const auto path = home / "DONE";
  const nlohmann::json record = {{"job", job}, {"at", std::time(nullptr)}};
  return or_fail(io::atomic_write(path, record.dump() + "\n", 0644),
                 "cannot write " + path.string());
}

Result<void> sync_tree(const fs::path& tree) {
  std::error_code error;
  const auto status = fs::symlink_status(tree, error);
  if (!fs::exists(status)) {
    if (!error || error == std::errc::no_such_file_or_directory) return {};
    return fail_errno(error, "cannot look at " + tree.string(), "sync-failed");
  }
  if (fs::is_regular_file(status)) return sync_one(tree);
  if (!fs::is_directory(status)) return {};
  fs::recursive_directory_iterator at(tree, error), end;
  for (; !error && at != end; at.increment(error)) {
    const auto kind = at->symlink_status(error);
    if (error) break;
    if (!fs::is_regular_file(kind) && !fs::is_directory(kind)) continue;
    TRY(sync_one(at->path()));
  }
  if (error) return fail_errno(error, "cannot list " + tree.string(), "sync-failed");
  return sync_one(tree);
}

Result<std::vector<std::string>> mount_command(const Share& share, std::uint32_t uid,
                                               std::uint32_t gid, bool shown_to_all,
                                               bool has_mount_efs) {
  if (share.kind == Share::Kind::Sshfs) return sshfs_command(share, uid, gid, shown_to_all);
  if (share.kind == Share::Kind::Efs) return efs_command(share, has_mount_efs);
  if (share.kind != Share::Kind::Nfs)
    return fail("bad-request", "'" + std::string(to_text(share.kind)) + "' is not mounted");
  return std::vector<std::string>{"mount",
                                  "-t",
                                  "nfs4",
                                  "-o",
                                  merge(kNfsOptions, share.options),
                                  share.server + ":" + share.path,
                                  share.mount};
}

Error mount_failure(const Share& share, const std::string& words) {
  const std::string& source = share.server;
  const std::string what = "cannot mount: " + words;
  if (says(words, {"REMOTE HOST IDENTIFICATION HAS CHANGED", "host key has changed"}))
    return {"the key of " + source +
                " is another than the one that is known: somebody may be "
                "listening. Ask who runs the server before you change known_hosts",
            "host-key-unknown"};
  if (says(words, {"Host key verification failed"}))
    return {"nobody vouched for the key of " + source + scan_advice(share), "host-key-unknown"};
  if (says(words, {"Permission denied", "access denied", "Operation not permitted",
                   "Too many authentication failures"}))
    return {what + (share.kind == Share::Kind::Sshfs
                        ? "; is the public part of storage.sshfs.key in the "
                          "server's authorized_keys?"
                        : "; does the server export it to this machine, and to "
                          "ports that are not root's (noresvport): `insecure` "
                          "in its exports, or resvport in the options here?"),
            "share-denied"};
  if (says(words, {"unknown filesystem type", "No such device"}))
    return {what + "; the kernel or the image cannot mount " + std::string(to_text(share.kind)) +
                ": install nfs-common, and use a kernel that has NFS",
            "tool-missing"};
  const bool silent =
      says(words, {"timed out", "Connection refused", "No route to host", "unreachable",
                   "reset by peer", "Connection closed", "Could not resolve", "Name or service",
                   "name resolution", "Failed to resolve", "not responding"});
  return {what, silent ? "share-silent" : "mount-failed"};
}

Result<ShareUse> ShareUse::open(const fs::path& mount_point) {
  const fs::path path = registry();
  const auto wrong = "cannot use " + path.string() + " for the mounts of this machine";
  TRY(or_fail(io::make_directories(path, 0700), wrong));
  const auto own = io::SafeDirectory::own(path);
  if (!own && own.error() == std::errc::operation_not_permitted) {
    return fail("mounts-foreign",
                path.string() + " belongs to " + io::owner_in_words(path) +
                    ", or others may write to it: remove it, or set SPOTTER_MOUNTS to a folder "
                    "of your own");
  }
  auto folder = TRY(or_fail(own.and_then([&](const auto& it) {
    return it.make_folder(escaped(mount_name(mount_point).string()), 0700);
  }),
                            wrong));
  auto users = TRY(or_fail(folder.make_folder("users", 0700), wrong));
  ShareUse use(std::move(folder), std::move(users));
  use.lock();
  return use;
}

void ShareUse::lock() {
  auto opened = folder_.file("lock", O_RDWR | O_CREAT, 0600);
  lock_ = opened ? *std::move(opened) : io::Descriptor();
  const auto until = std::chrono::steady_clock::now() + 1s;
  while (lock_ && ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > until) return;
    std::this_thread::sleep_for(20ms);
  }
}

void ShareUse::begin(const std::string& holder) {
  (void)users_.file(escaped(holder), O_WRONLY | O_CREAT, 0600);
}

void ShareUse::end(const std::string& holder) { (void)users_.remove(escaped(holder)); }

bool ShareUse::is_used() const {
  const auto names = users_.names();
  return names && !names->empty();
}

void ShareUse::is_ours(const MountEntry& entry) {
  (void)folder_.write("ours", identity(entry), 0600);
}

bool ShareUse::is_by_us(const MountEntry& entry) const {
  const auto text = folder_.read("ours", 8192);
  return text && *text == identity(entry);
}

void ShareUse::forget_mount() { (void)folder_.remove("ours"); }

void cut_if_stuck(const MountEntry& entry) {
  if (entry.filesystem != "fuse.sshfs") return;
  const fs::path connection = "/sys/fs/fuse/connections/" + std::to_string(minor(entry.device));
  std::error_code error;
  for (int i = 0; i < 25; ++i) {
    if (!fs::exists(connection, error)) return;
    std::this_thread::sleep_for(20ms);
  }
  std::ofstream(connection / "abort") << "1";
}

}  // namespace spotter::act::host
