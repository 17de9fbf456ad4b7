// spotter-fastfile: serves the channels in mode `fast_file`. `spotter pipe` starts it beside its
// command. It is a program of its own, so that no other needs libfuse3.
//
//   --socket FD      SOCK_SEQPACKET to `spotter pipe` (agent/data/fifo.hpp): sends "ready" when
//                    all is mounted, or "failed TEXT"; receives "trainer PID" and "bye"
//   --directory DIR  the views are at DIR/NAME
//   --state DIR      of the frozen listings
//   --shard INDEX/COUNT, --budget BYTES (of memory, for all channels)
//   CHANNEL...       as wire::describe() writes them
//   $SPOTTER_VIEWS   views that are mounted already (agent/host/mounts.hpp)
#define FUSE_USE_VERSION 314

#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <getopt.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "agent/aws/s3/client.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/data/catalogue.hpp"
#include "agent/data/fast_file/cache.hpp"
#include "agent/data/fetched.hpp"
#include "agent/data/fifo.hpp"
#include "agent/data/plane.hpp"
#include "agent/host/mounts.hpp"
#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/processes.hpp"

namespace spotter::fastfile {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds at_most{1000};

constexpr double forever = 1e9;  // seconds; nothing in the mount changes
// The kernel's default limit of pending reads of one mount is 12: too few for several readers.
constexpr unsigned most_background = 64;
constexpr std::size_t block = 512;

// The thing that this machine lacks for a mount, in words for a person; none: nothing.
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

// A read-only FUSE mount of a tree of files, by libfuse's low-level interface: names are answered
// from the tree at once, reads when the cache has the bytes. The kernel's inode number is our
// number plus one, as its root is 1.
class Session : Pinned {
 public:
  struct Source {
    const Tree& tree;
    const std::vector<RemoteFile>& files;
    Cache& cache;
    std::function<void(const s3::Failure&)> failed;  // a read has failed; its reader gets EIO
  };

  // Mounts at `place`, an existing folder, for all users if this process is root. `name` is the
  // mount's source in /proc/mounts. REQUIRES: the source outlives it.
  static Result<std::unique_ptr<Session>> mount(const fs::path& place, const std::string& name,
                                                Source source) {
    std::unique_ptr<Session> made(new Session(std::move(source)));
    std::string options =
        "ro,nosuid,nodev,noatime,default_permissions,subtype=spotter,fsname=" + name;
    if (::geteuid() == 0) options += ",allow_other";  // the trainer runs as another user
    std::string program = "spotter-fastfile";
    std::string flag = "-o";
    char* words[] = {program.data(), flag.data(), options.data(), nullptr};
    fuse_args arguments = FUSE_ARGS_INIT(3, words);
    fuse_session*& session = made->session_;
    session = fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops), made.get());
    fuse_opt_free_args(&arguments);
    if (session == nullptr) return failure("libfuse refuses " + options);
    if (fuse_session_mount(session, place.c_str()) != 0) {
      fuse_session_destroy(std::exchange(session, nullptr));
      return failure(place.string() + " cannot be mounted; libfuse says why above");
    }
    const int file = fuse_session_fd(session);
    ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_NONBLOCK);
    return made;
  }

  // Unmounts, even if in use: open files then return errors.
  ~Session() {
    std::free(buffer_.mem);
    if (session_ == nullptr) return;
    // libfuse keeps requests in a list of its own until they are answered.
    for (const auto& [request, id] : reading_) {
      source_.cache.forget(id);
      fuse_reply_err(request, EIO);
    }
    fuse_session_unmount(session_);
    fuse_session_destroy(session_);
  }

  // Becomes readable when serve() has something to do.
  int descriptor() const { return fuse_session_fd(session_); }

  // Another process has unmounted it.
  bool ended() const { return fuse_session_exited(session_) != 0; }

  // Answers all of the kernel's requests so far, without waiting for more.
  void serve() {
    constexpr int at_once = 256;  // so that network requests are handled in between
    for (int i = 0; i < at_once && !ended(); ++i) {
      const int got = fuse_session_receive_buf(session_, &buffer_);
      if (got == -EINTR) continue;
      if (got <= 0) break;
      fuse_session_process_buf(session_, &buffer_);
      end_interrupted();
    }
  }

 private:
  explicit Session(Source source) : source_(std::move(source)) {}

  static Session& of(fuse_req_t request) {
    return *static_cast<Session*>(fuse_req_userdata(request));
  }
  const Tree::Node* node(fuse_ino_t number) const {
    const bool known = number >= 1 && number <= source_.tree.size();
    return known ? &source_.tree.at(static_cast<Tree::Number>(number - 1)) : nullptr;
  }

  struct stat status_of(fuse_ino_t number) const {
    const Tree::Node& found = *node(number);
    struct stat status {};
    status.st_ino = number;
    status.st_uid = ::getuid();
    status.st_gid = ::getgid();
    status.st_mtim.tv_sec = status.st_ctim.tv_sec = status.st_atim.tv_sec = found.modified;
    if (found.file) {
      const auto size = source_.files[*found.file].size;
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
    const Session& self = of(request);
    if (self.of_kind(request, parent, false) == nullptr) return;
    const auto found = self.source_.tree.find(static_cast<Tree::Number>(parent - 1), name);
    fuse_entry_param none{};  // the kernel may also remember that there is no such name
    none.entry_timeout = forever;
    const auto entry = found ? self.entry_of(fuse_ino_t{*found} + 1) : none;
    fuse_reply_entry(request, &entry);
  }

  static void getattr(fuse_req_t request, fuse_ino_t number, fuse_file_info* /*file*/) {
    const Session& self = of(request);
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
    const Session& self = of(request);
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
    const Session& self = of(request);
    std::uint64_t bytes = 0;
    for (const auto& file : self.source_.files) bytes += file.size;
    struct statvfs status {};
    status.f_bsize = status.f_frsize = block;
    status.f_blocks = (bytes + block - 1) / block;
    status.f_files = self.source_.tree.size();
    status.f_namemax = 255;
    fuse_reply_statfs(request, &status);
  }

  // libfuse calls it while it handles the request, which is answered later.
  static void interrupt(fuse_req_t request, void* self) {
    static_cast<Session*>(self)->interrupted_.push_back(request);
  }

  static void read(fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                   fuse_file_info* /*file*/) {
    Session& self = of(request);
    const Tree::Node* node = self.of_kind(request, number, true);
    if (node == nullptr) return;
    const std::uint64_t whole = self.source_.files[*node->file].size;
    const auto begin = std::min(static_cast<std::uint64_t>(offset), whole);
    const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(size, whole - begin));
    if (bytes == 0) {
      fuse_reply_buf(request, nullptr, 0);
      return;
    }
    const auto answer = [&self, request](const std::vector<iovec>& pieces,
                                         const s3::Failure* failure) {
      self.reading_.erase(request);
      if (failure != nullptr) {
        self.source_.failed(*failure);  // before the answer, which may end the reader
        fuse_reply_err(request, EIO);
      } else {
        fuse_reply_iov(request, pieces.data(), static_cast<int>(pieces.size()));
      }
    };
    self.reading_[request] = self.source_.cache.read(*node->file, begin, bytes, answer);
    fuse_req_interrupt_func(request, interrupt, &self);
  }

  // A reader that was killed must not wait for the network.
  void end_interrupted() {
    for (const auto request : std::exchange(interrupted_, {})) {
      const auto found = reading_.find(request);
      if (found == reading_.end()) continue;
      source_.cache.forget(found->second);
      reading_.erase(found);
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

  Source source_;
  fuse_session* session_ = nullptr;
  fuse_buf buffer_{};
  std::map<fuse_req_t, Cache::ReadId> reading_;
  std::vector<fuse_req_t> interrupted_;
};

// Mode `fast_file`: a channel's objects as read-only files below one folder, as in SageMaker's
// FastFile mode. Names are those of mode `file` (data::file_name()), sizes and times those of the
// listing; bytes are fetched when they are read.
//
// A read returns all its bytes or EIO, never fewer, which would look like the file's end. The
// kernel caches what it has read, and as listings never change it does not ask twice.

struct ViewSettings {
  wire::Channel channel;
  std::filesystem::path directory;  // of all channels; the view is at directory/NAME
  std::filesystem::path frozen;     // the listing's file; empty: none
  int mounted = -1;                 // /dev/fuse, of a view that is mounted already; -1: it is not
  std::size_t budget = 0;           // bytes of memory
  data::Shard shard;
  // Called at the first failure of a read, the listing or the mount, with a message that names
  // channel and key.
  std::function<void(const std::string& what)> failed;
};

class View {
 public:
  // Starts to list. REQUIRES: the client outlives it.
  View(ViewSettings settings, s3::Client& client)
      : settings_(std::move(settings)),
        client_(client),
        catalogue_(settings_.channel, settings_.frozen) {
    catalogue_.begin(client_);
  }
  ~View() { catalogue_.abandon(); }

  // Does all that is possible without waiting; mounts when the listing is complete.
  void advance() {
    if (catalogue_.failed()) fail(*catalogue_.failed());
    if (session_) {
      session_->serve();
      cache_->advance();
      if (session_->ended()) fail(said("somebody has unmounted it"));
    } else if (catalogue_.complete() && !failed_) {
      if (auto mounted = mount(); !mounted) fail(said(mounted.error().message));
    }
  }

  bool mounted() const { return session_ != nullptr; }
  // To poll for reading; -1: there is nothing to poll.
  int descriptor() const { return session_ && !session_->ended() ? session_->descriptor() : -1; }

 private:
  // Chooses the same files as mode `file`.
  Result<void> choose_files() {
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

  Result<void> mount() {
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

  void fail(const std::string& what) {
    if (!failed_) settings_.failed(what);
    failed_ = true;
  }

  std::string said(const std::string& what) const {
    return "channel " + settings_.channel.name + ": " + what;
  }

  ViewSettings settings_;
  s3::Client& client_;
  data::Catalogue catalogue_;
  std::vector<RemoteFile> files_;
  Tree tree_;
  std::unique_ptr<Cache> cache_;
  std::unique_ptr<Session> session_;
  bool failed_ = false;
};

struct Options {
  int socket = -1;
  fs::path directory;
  fs::path state;
  data::Shard shard;
  std::size_t budget = 0;
  std::vector<wire::Channel> channels;
};

Result<Options> parse(int count, char** words) {
  enum Option { socket, directory, state, shard, budget };
  constexpr option known[] = {{"socket", required_argument, nullptr, socket},
                              {"directory", required_argument, nullptr, directory},
                              {"state", required_argument, nullptr, state},
                              {"shard", required_argument, nullptr, shard},
                              {"budget", required_argument, nullptr, budget},
                              {nullptr, 0, nullptr, 0}};
  Options options;
  const auto number = [](std::string_view text) { return wire::parse_count(text).value_or(0); };
  for (int which = 0; (which = ::getopt_long(count, words, "", known, nullptr)) != -1;) {
    const std::string_view value = optarg == nullptr ? "" : optarg;
    if (which == socket) options.socket = static_cast<int>(number(value));
    if (which == directory) options.directory = value;
    if (which == state) options.state = value;
    if (which == budget) options.budget = number(value);
    if (which == shard) {
      const auto slash = std::min(value.find('/'), value.size());
      options.shard = {number(value.substr(0, slash)),
                       number(value.substr(std::min(slash + 1, value.size())))};
    }
    if (which == '?') return failure("usage: see agent/data/fast_file/main.cpp");
  }
  for (int i = optind; i < count; ++i) {
    options.channels.push_back(TRY(wire::parse_channel(words[i])));
  }
  const bool usable = options.socket >= 0 && !options.channels.empty() && options.shard.count > 0 &&
                      !options.directory.empty();
  if (!usable) return failure("spotter-fastfile is started by spotter pipe");
  return options;
}

class Views {
 public:
  explicit Views(Options options) : options_(std::move(options)) {}

  Result<void> begin() {
    const std::string needs =
        "channel " + options_.channels.front().name + ": mode fast_file needs ";
    const auto mounted = act::host::mounted_views();
    if (mounted.empty())
      if (const auto lacks = missing_for_mount()) return failure(needs + "FUSE: " + *lacks);
    const std::size_t budget = options_.budget / options_.channels.size();
    if (budget < data::good_budget) return failure(needs + "32 MiB of memory for each, at least");
    if (!options_.state.empty()) {
      TRY(behind("cannot make " + options_.state.string(),
                 io::make_directories(options_.state, 0755)));
    }
    for (const auto& channel : options_.channels) {
      ViewSettings settings{.channel = channel,
                            .directory = options_.directory,
                            .budget = budget,
                            .shard = options_.shard,
                            .failed = [this](const std::string& what) {
                              gone_ |= !data::send_message(options_.socket, "failed " + what);
                            }};
      for (const auto& view : mounted)
        if (view.channel == channel.name) settings.mounted = view.descriptor;
      if (!options_.state.empty()) settings.frozen = options_.state / (channel.name + ".listing");
      views_.push_back(std::make_unique<View>(std::move(settings), clients_.of(channel)));
    }
    return {};
  }

  // If `spotter pipe` dies, ends its command before it unmounts the files.
  void run() {
    while (!gone_ && !dismissed_) {
      for (const auto& client : clients_.all())
        if (client) client->turn(milliseconds(0));
      for (const auto& view : views_) view->advance();
      report_ready();
      if (!gone_) wait();
    }
    if (!dismissed_) listen();
    if (dismissed_ || trainer_ == 0) return;
    const auto process = supervise::find_process(trainer_);
    supervise::kill_session(trainer_, process ? process->start_ticks : 0);
  }

 private:
  void wait() {
    std::vector<pollfd> files{{options_.socket, POLLIN, 0}};
    milliseconds longest = at_most;
    for (const auto& client : clients_.all()) {
      if (!client) continue;
      files.push_back({client->descriptor(), POLLIN, 0});
      longest = std::min(longest, client->next());
    }
    for (const auto& view : views_) files.push_back({view->descriptor(), POLLIN, 0});
    if (::poll(files.data(), files.size(), static_cast<int>(longest.count())) < 0) return;
    if (files.front().revents != 0) listen();
  }

  void listen() {
    while (const auto message = data::receive_message(options_.socket, gone_)) {
      if (message->text == "bye") dismissed_ = true;
      if (message->text.starts_with("trainer "))
        trainer_ = static_cast<int>(wire::parse_count(message->text.substr(8)).value_or(0));
    }
  }

  void report_ready() {
    const bool all = std::ranges::all_of(views_, &View::mounted);
    if (all && !ready_) gone_ |= !data::send_message(options_.socket, "ready");
    ready_ = all;
  }

  Options options_;
  bool gone_ = false;  // `spotter pipe` has died
  bool dismissed_ = false;
  bool ready_ = false;
  int trainer_ = 0;
  data::Clients clients_{{.environment = act::Environment::of_this_process()}};
  std::vector<std::unique_ptr<View>> views_;  // destroyed before their clients
};

int run(int count, char** words) {
  auto options = parse(count, words);
  if (!options) {
    std::fprintf(stderr, "spotter-fastfile: %s\n", options.error().message.c_str());
    return 2;
  }
  // Signals of the terminal are for the trainer; this process ends with `spotter pipe`.
  for (const int each : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) std::signal(each, SIG_IGN);
  const int socket = options->socket;
  Views views(std::move(*options));
  if (auto begun = views.begin(); !begun) {
    (void)data::send_message(socket, "failed " + begun.error().message);
    return 1;
  }
  views.run();
  return 0;
}

}  // namespace
}  // namespace spotter::fastfile

int main(int count, char** words) { return spotter::fastfile::run(count, words); }
