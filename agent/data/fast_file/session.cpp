#define FUSE_USE_VERSION 314

#include "agent/data/fast_file/session.hpp"

#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "agent/data/fetched.hpp"
#include "agent/host/mounts.hpp"
#include "agent/io/child.hpp"
#include "agent/io/files.hpp"

namespace spotter::fastfile {
namespace {

constexpr double forever = 1e9;  // seconds; nothing in the mount changes
// The kernel's default limit of pending reads of one mount is 12: too few for several readers.
constexpr unsigned most_background = 64;
constexpr std::size_t block = 512;

}  // namespace

std::optional<std::string> missing_for_mount() {
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0) {
    const std::string why = std::string("/dev/fuse: ") + std::strerror(errno);
    if (errno == EACCES || errno == EPERM) return why + " (usually everybody may use it)";
    return why + " (modprobe fuse; a container needs --device /dev/fuse and CAP_SYS_ADMIN)";
  }
  ::close(device);
  if (::geteuid() == 0) return std::nullopt;
  const char* path = std::getenv("PATH");
  if (!io::find_program("fusermount3", path == nullptr ? "" : path).empty()) return std::nullopt;
  return "there is no fusermount3: apt install fuse3";
}

// The kernel's inode number is our number plus one, as its root is 1.
struct Session::Fuse {
  explicit Fuse(Source source_) : source(std::move(source_)) {}

  Source source;
  fuse_session* session = nullptr;
  fuse_buf buffer{};
  std::map<fuse_req_t, Cache::ReadId> reading;
  std::vector<fuse_req_t> interrupted;

  static Fuse& of(fuse_req_t request) { return *static_cast<Fuse*>(fuse_req_userdata(request)); }
  const Tree::Node* node(fuse_ino_t number) const {
    const bool known = number >= 1 && number <= source.tree.size();
    return known ? &source.tree.at(static_cast<Tree::Number>(number - 1)) : nullptr;
  }

  struct stat status_of(fuse_ino_t number) const {
    const Tree::Node& found = *node(number);
    struct stat status {};
    status.st_ino = number;
    status.st_uid = ::getuid();
    status.st_gid = ::getgid();
    status.st_mtim.tv_sec = status.st_ctim.tv_sec = status.st_atim.tv_sec = found.modified;
    if (found.file) {
      const auto size = source.files[*found.file].size;
      status.st_mode = S_IFREG | 0444;
      status.st_nlink = 1;
      status.st_size = static_cast<off_t>(size);
      status.st_blocks = static_cast<blkcnt_t>((size + block - 1) / block);
    } else {
      status.st_mode = S_IFDIR | 0555;
      status.st_nlink = 2;
    }
    return status;
  }

  fuse_entry_param entry_of(fuse_ino_t number) const {
    fuse_entry_param entry{};
    entry.ino = number;
    entry.attr = status_of(number);
    entry.attr_timeout = entry.entry_timeout = forever;
    return entry;
  }

  static void init(void* /*self*/, fuse_conn_info* connection) {
    connection->want &=
        ~static_cast<unsigned>(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE);
    connection->max_background = most_background;
    connection->congestion_threshold = most_background * 3 / 4;
  }

  // A file, or a folder. Null: it is none, and the request is answered.
  const Tree::Node* of_kind(fuse_req_t request, fuse_ino_t number, bool file) const {
    const Tree::Node* found = node(number);
    if (found != nullptr && found->file.has_value() == file) return found;
    fuse_reply_err(request, found == nullptr ? ENOENT : file ? EISDIR : ENOTDIR);
    return nullptr;
  }

  static void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    const Fuse& self = of(request);
    if (self.of_kind(request, parent, false) == nullptr) return;
    const auto found = self.source.tree.find(static_cast<Tree::Number>(parent - 1), name);
    fuse_entry_param none{};  // the kernel may also remember that there is no such name
    none.entry_timeout = forever;
    const auto entry = found ? self.entry_of(fuse_ino_t{*found} + 1) : none;
    fuse_reply_entry(request, &entry);
  }

  static void getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info* /*file*/) {
    const Fuse& self = of(request);
    if (self.node(number) == nullptr) {
      fuse_reply_err(request, ENOENT);
      return;
    }
    const auto status = self.status_of(number);
    fuse_reply_attr(request, &status, forever);
  }

  static void open(fuse_req_t request, fuse_ino_t number, fuse_file_info* file) {
    if (of(request).of_kind(request, number, true) == nullptr) return;
    if ((file->flags & O_ACCMODE) != O_RDONLY) {
      fuse_reply_err(request, EROFS);
    } else {
      file->keep_cache = 1;
      fuse_reply_open(request, file);
    }
  }

  static void opendir(fuse_req_t request, fuse_ino_t /*number*/, fuse_file_info* file) {
    file->cache_readdir = 1;
    file->keep_cache = 1;
    fuse_reply_open(request, file);
  }

  // Offset 0 is the folder itself, 1 its parent, from 2 on its children.
  static void list(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                   bool plus) {
    const Fuse& self = of(request);
    const Tree::Node* folder = self.of_kind(request, number, false);
    if (folder == nullptr) return;
    std::string bytes(size, '\0');
    std::size_t used = 0;
    for (auto at = static_cast<std::size_t>(offset); at < folder->children.size() + 2; ++at) {
      const bool self_or_parent = at < 2;
      const fuse_ino_t child = at == 0   ? number
                               : at == 1 ? fuse_ino_t{folder->parent} + 1
                                         : fuse_ino_t{folder->children[at - 2]} + 1;
      const char* name = at == 0 ? "." : at == 1 ? ".." : self.node(child)->name.c_str();
      auto entry = self.entry_of(child);
      if (self_or_parent) entry.ino = 0;  // the kernel ignores it here
      const auto next = static_cast<off_t>(at + 1);
      char* const begin = bytes.data() + used;
      const std::size_t needed =
          plus ? fuse_add_direntry_plus(request, begin, size - used, name, &entry, next)
               : fuse_add_direntry(request, begin, size - used, name, &entry.attr, next);
      if (needed > size - used) break;
      used += needed;
    }
    fuse_reply_buf(request, bytes.data(), used);
  }
  static void readdir(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                      fuse_file_info* /*file*/) {
    list(request, number, size, offset, false);
  }
  static void readdirplus(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                          fuse_file_info* /*file*/) {
    list(request, number, size, offset, true);
  }

  static void statfs(fuse_req_t request, fuse_ino_t /*number*/) {
    const Fuse& self = of(request);
    std::uint64_t bytes = 0;
    for (const auto& file : self.source.files) bytes += file.size;
    struct statvfs status {};
    status.f_bsize = status.f_frsize = block;
    status.f_blocks = (bytes + block - 1) / block;
    status.f_files = self.source.tree.size();
    status.f_namemax = 255;
    fuse_reply_statfs(request, &status);
  }

  // libfuse calls it while it handles the request, which is answered later.
  static void interrupt(fuse_req_t request, void* self) {
    static_cast<Fuse*>(self)->interrupted.push_back(request);
  }

  static void read(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                   fuse_file_info* /*file*/) {
    Fuse& self = of(request);
    const Tree::Node* node = self.of_kind(request, number, true);
    if (node == nullptr) return;
    const std::uint64_t whole = self.source.files[*node->file].size;
    const auto begin = std::min(static_cast<std::uint64_t>(offset), whole);
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(size, whole - begin));
    if (bytes == 0) {
      fuse_reply_buf(request, nullptr, 0);
      return;
    }
    const auto answer = [&self, request](const std::vector<iovec>& pieces,
                                         const s3::Failure* failure) {
      self.reading.erase(request);
      if (failure != nullptr) {
        self.source.failed(*failure);  // before the answer, which may end the reader
        fuse_reply_err(request, EIO);
      } else {
        fuse_reply_iov(request, pieces.data(), static_cast<int>(pieces.size()));
      }
    };
    self.reading[request] = self.source.cache.read(*node->file, begin, bytes, answer);
    fuse_req_interrupt_func(request, interrupt, &self);
  }

  // A reader that was killed must not wait for the network.
  void end_interrupted() {
    for (const auto request : std::exchange(interrupted, {})) {
      const auto found = reading.find(request);
      if (found == reading.end()) continue;
      source.cache.forget(found->second);
      reading.erase(found);
      fuse_reply_err(request, EINTR);
    }
  }

  static const fuse_lowlevel_ops& operations() {
    static const fuse_lowlevel_ops all = [] {
      fuse_lowlevel_ops each{};
      each.init = init;
      each.lookup = lookup;
      each.getattr = getattr;
      each.open = open;
      each.opendir = opendir;
      each.read = read;
      each.readdir = readdir;
      each.readdirplus = readdirplus;
      each.statfs = statfs;
      return each;
    }();
    return all;
  }
};

Session::Session(Source source) : fuse_(std::make_unique<Fuse>(std::move(source))) {}

Result<std::unique_ptr<Session>> Session::mount(const fs::path& place, const std::string& name,
                                                Source source) {
  std::unique_ptr<Session> made(new Session(std::move(source)));
  std::string options =
      "ro,nosuid,nodev,noatime,default_permissions,subtype=spotter,fsname=" + name;
  if (::geteuid() == 0) options += ",allow_other";  // the trainer runs as another user
  std::string program = "spotter-fastfile";
  std::string flag = "-o";
  char* words[] = {program.data(), flag.data(), options.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, words);
  Fuse& fuse = *made->fuse_;
  fuse.session = fuse_session_new(&arguments, &Fuse::operations(), sizeof(fuse_lowlevel_ops),
                                  made->fuse_.get());
  fuse_opt_free_args(&arguments);
  if (fuse.session == nullptr) return failure("libfuse refuses " + options);
  if (fuse_session_mount(fuse.session, place.c_str()) != 0) {
    fuse_session_destroy(std::exchange(fuse.session, nullptr));
    return failure(place.string() + " cannot be mounted; libfuse says why above");
  }
  const int file = fuse_session_fd(fuse.session);
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_NONBLOCK);
  return made;
}

Session::~Session() {
  std::free(fuse_->buffer.mem);
  if (fuse_->session == nullptr) return;
  // libfuse keeps requests in a list of its own until they are answered.
  for (const auto& [request, id] : fuse_->reading) {
    fuse_->source.cache.forget(id);
    fuse_reply_err(request, EIO);
  }
  fuse_session_unmount(fuse_->session);
  fuse_session_destroy(fuse_->session);
}

int Session::descriptor() const { return fuse_session_fd(fuse_->session); }

bool Session::ended() const { return fuse_session_exited(fuse_->session) != 0; }

void Session::serve() {
  constexpr int at_once = 256;  // so that network requests are handled in between
  for (int i = 0; i < at_once && !ended(); ++i) {
    const int got = fuse_session_receive_buf(fuse_->session, &fuse_->buffer);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    fuse_session_process_buf(fuse_->session, &fuse_->buffer);
    fuse_->end_interrupted();
  }
}

View::~View() { catalogue_.abandon(); }

View::View(ViewSettings settings, s3::Client& client)
    : settings_(std::move(settings)),
      client_(client),
      catalogue_(settings_.channel, settings_.frozen) {
  catalogue_.begin(client_);
}

// Chooses the same files as mode `file`.
Result<void> View::choose_files() {
  const auto& entries = catalogue_.entries();
  const data::Shard shard = settings_.channel.sharded ? settings_.shard : data::Shard{};
  std::vector<Tree::File> names;
  std::unordered_map<std::string, const data::Entry*> chosen;
  for (std::size_t i = shard.index; i < entries.size(); i += shard.count) {
    const auto& entry = entries[i];
    const auto name = TRY(data::file_name(catalogue_.prefix(), entry.key));
    const auto [at, added] = chosen.emplace(name, &entry);
    if (!added && at->second->key == entry.key) continue;  // a manifest may name it twice
    names.push_back({name, entry.modified});
    files_.push_back({.bucket = data::bucket_of(entry, settings_.channel),
                      .key = entry.key,
                      .etag = entry.etag,
                      .size = entry.size,
                      .checksum = entry.checksum});
  }
  tree_ = TRY(Tree::make(names));
  return {};
}

Result<void> View::mount() {
  TRY(choose_files());
  auto memory = TRY(data::Memory::make(settings_.budget));
  cache_ = std::make_unique<Cache>(files_, client_, std::move(memory));
  const auto place = settings_.directory / settings_.channel.name;
  if (settings_.mounted < 0) {
    act::host::detach_views(place);  // a view whose process has died
    TRY(behind(place.string(), io::make_directories(place, 0755)));
  }
  session_ = TRY(Session::mount(
      settings_.mounted < 0 ? place.string() : "/dev/fd/" + std::to_string(settings_.mounted),
      "spotter:" + settings_.channel.name,
      {tree_, files_, *cache_, [this](const s3::Failure& why) { fail(said(why.text())); }}));
  return {};
}

void View::fail(const std::string& what) {
  if (!failed_) settings_.failed(what);
  failed_ = true;
}

void View::advance() {
  if (catalogue_.failed()) fail(*catalogue_.failed());
  if (session_) {
    session_->serve();
    cache_->advance();
    if (session_->ended()) fail(said("somebody has unmounted it"));
  } else if (catalogue_.complete() && !failed_) {
    if (auto mounted = mount(); !mounted) fail(said(mounted.error().message));
  }
}

}  // namespace spotter::fastfile
