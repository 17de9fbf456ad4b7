#include "agent/commands/gang/gang_files.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/gang/record.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/safe_directory.hpp"

namespace spotter::command {

GangFolder::GangFolder(const std::string& name) {
  const char* set = std::getenv("TMPDIR");
  path_ = (set != nullptr && *set != 0 ? set : "/tmp") + ("/spotter-" + name + "-XXXXXX");
  if (::mkdtemp(path_.data()) == nullptr) path_.clear();
}

GangFolder::GangFolder(const Named& named) {
  ::mkdir(named.path.c_str(), 0700);
  const auto own = io::SafeDirectory::own(named.path);
  auto opened = own ? own->open("", O_RDONLY | O_DIRECTORY) : tl::unexpected(own.error());
  if (!opened || ::flock(opened->get(), LOCK_EX | LOCK_NB) != 0) return;
  lock_ = *std::move(opened);
  path_ = named.path;
  clear();
}

GangFolder::~GangFolder() {
  clear();
  if (!path_.empty()) ::rmdir(path_.c_str());
}

// Whoever logs out, or a cleaner of /tmp, may have removed it, and another user made one of its
// name, or a link to a folder of ours.
void GangFolder::clear() const {
  if (path_.empty()) return;
  const auto own = io::SafeDirectory::own(path_);
  const auto names = own ? own->names() : tl::unexpected(own.error());
  if (!names) return;
  for (const std::string& name : *names) (void)own->remove(name);
}

namespace {

constexpr std::size_t id_digits = 32;

Result<std::string> id_of(const fs::path& file) {
  const auto text = io::read_file(file, 256);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return std::string();
  if (!text) return failure("cannot read " + file.string() + ": " + text.error().message());
  const auto line = text->substr(0, text->find('\n'));
  if (line.size() != id_digits) return failure(file.string() + " is no id of a gang; move it away");
  return line;
}

constexpr const char* newest_name = "newest";

constexpr std::size_t most_of_agents = 65'536;

std::error_code write_notice(const std::string& path, const StopBy& stop) {
  nlohmann::json notice = {{"action", "terminate"}};
  if (stop.by) notice["stop_by_boottime_ms"] = stop.by->time_since_epoch().count();
  const auto done = io::replace_file(path, notice.dump() + "\n");
  return done ? std::error_code() : done.error();
}

std::error_code remove_notice(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return {errno, std::generic_category()};
}

constexpr std::size_t most_ranks_here = 256;
constexpr std::size_t longest_stack = 65'536;
// The library uses the same signal: one that has no other meaning.
int stack_signal() { return SIGRTMIN + 7; }

struct SaidStep {
  long pid = 0;
  std::int64_t step = -1;
};

// "17 4200"
std::optional<SaidStep> said_step(const io::SafeDirectory& folder, std::size_t rank) {
  const auto text = folder.read(std::to_string(rank) + ".step", 256);
  if (!text) return std::nullopt;
  SaidStep said;
  const char* const end = text->data() + text->size();
  const auto pid = std::from_chars(text->data(), end, said.pid);
  if (pid.ec != std::errc{} || pid.ptr == end || said.pid < 1) return std::nullopt;
  std::from_chars(pid.ptr + 1, end, said.step);
  return said;
}

// The newest stack: each is added to the file.
std::string end_of(const io::SafeDirectory& folder, const std::string& name) {
  const auto file = folder.file(name, O_RDONLY);
  struct stat status {};
  if (!file || ::fstat(file->get(), &status) != 0) return "";
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return io::read_at(file->get(), size - std::min<std::uint64_t>(size, longest_stack),
                     longest_stack);
}

}  // namespace

// The step in a checkpoint's name; -1: it is none.
std::int64_t step_in(std::string_view name) {
  constexpr std::array<std::string_view, 4> prefixes = {"step-", "checkpoint-", "global_step",
                                                        "iter_"};
  for (const std::string_view prefix : prefixes) {
    if (!name.starts_with(prefix)) continue;
    const char* const end = name.data() + name.size();
    std::uint64_t step = 0;
    const auto read = std::from_chars(name.data() + prefix.size(), end, step);
    const bool whole = read.ec == std::errc{} && read.ptr == end;
    if (whole && step <= gang::most_steps) return static_cast<std::int64_t>(step);
  }
  return -1;
}

// Several members may come at once: one makes the name, whole or not at all, and all read it.
Result<std::string> gang_home(const std::string& home, const std::string& checkpoints) {
  const fs::path members = fs::path(home) / "members";
  for (const fs::path& folder : {members, fs::path(home) / "result", fs::path(home) / checkpoints})
    TRY(behind("cannot make " + folder.string(), io::make_directories(folder, 0755)));
  const fs::path file = members / ".gang";
  auto id = id_of(file);
  if (!id || !id->empty()) return id;
  const std::string fresh = io::random_hex(id_digits);
  const fs::path own = members / (".gang-" + fresh);
  TRY(behind("cannot write " + own.string(), io::atomic_write(own, fresh + "\n", 0644)));
  std::error_code ignored;
  fs::create_hard_link(own, file, ignored);
  fs::remove(own, ignored);
  id = id_of(file);
  if (id && id->empty())
    return failure("cannot make " + file.string() + ": this storage knows no hard links");
  return id;
}

std::int64_t newest_step(const std::string& folder) {
  std::int64_t newest = -1;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    newest = std::max(newest, step_in(it->path().filename().string()));
  return newest;
}

std::optional<bool> result_is_there(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return false;
  return error ? std::nullopt : std::optional(true);
}

// Connecting a socket of UDP sends nothing: the kernel chooses the address. This network is one of
// documents (RFC 5737).
std::string own_address() {
  if (const char* given = std::getenv("SPOTTER_GANG_ADDRESS"); given != nullptr && *given != 0)
    return given;
  const io::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  ::inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
  socklen_t size = sizeof address;
  const bool found =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
  char text[INET_ADDRSTRLEN] = "127.0.0.1";
  if (found) ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

GangCopy newest_copy(const std::string& folder) {
  if (folder.empty()) return {};
  const auto own = io::SafeDirectory::own(folder);
  const auto text = own ? own->read(newest_name, 256) : tl::unexpected(own.error());
  if (!text) return {};
  const auto space = text->find(' ');
  if (space == text->npos) return {};
  const auto step = number_of_text<std::int64_t>(std::string_view(*text).substr(0, space));
  const auto machines = number_of_text<std::uint64_t>(std::string_view(*text).substr(space + 1));
  const bool possible = step && machines && *step >= 0 && *step <= gang::most_steps &&
                        *machines <= gang::most_members;
  return possible ? GangCopy{*step, *machines} : GangCopy{};
}

void forget_newest_copy(const std::string& folder) {
  if (folder.empty()) return;
  if (const auto own = io::SafeDirectory::own(folder)) (void)own->remove(newest_name);
}

std::optional<StopBy> read_notice(const std::string& file) {
  if (file.empty()) return std::nullopt;
  const auto text = io::read_file(file, most_of_agents);
  if (!text) return std::nullopt;
  const auto json = wire::parsed_json(*text);
  if (!json.is_object()) return std::nullopt;
  const auto by = json.find("stop_by_boottime_ms");
  if (by == json.end() || !by->is_number_integer()) return StopBy{};
  return StopBy{Time(Duration(by->get<std::int64_t>()))};
}

std::optional<StopBy> earlier(const std::optional<StopBy>& one,
                              const std::optional<StopBy>& other) {
  if (!one || !other) return one ? one : other;
  if (!one->by || !other->by) return StopBy{};
  return StopBy{std::min(*one->by, *other->by)};
}

GangNotice::GangNotice() {
  if (!folder_.path().empty()) path_ = folder_.path() + "/notice";
}

void GangNotice::say(const std::optional<StopBy>& stop) {
  if (stop == said_) return;
  const std::error_code error = stop ? write_notice(path_, *stop) : remove_notice(path_);
  if (!error) said_ = stop;
  if (error && !failed_)
    std::fprintf(stderr, "spotter gang: cannot %s %s: %s\n", stop ? "write" : "remove",
                 path_.c_str(), error.message().c_str());
  failed_ = static_cast<bool>(error);
}

std::vector<gang::RankSeen> GangRanks::look() const {
  std::vector<gang::RankSeen> ranks;
  const auto own = io::SafeDirectory::own(folder());
  for (std::size_t rank = 0; own && rank < most_ranks_here; ++rank) {
    const auto said = said_step(*own, rank);
    if (!said) break;
    ranks.push_back({rank, said->step, end_of(*own, std::to_string(rank) + ".stack")});
  }
  return ranks;
}

void GangRanks::ask(const std::function<bool(pid_t)>& is_ours) const {
  const auto own = io::SafeDirectory::own(folder());
  for (std::size_t rank = 0; own && rank < most_ranks_here; ++rank) {
    const auto said = said_step(*own, rank);
    if (!said) break;
    const auto pid = static_cast<pid_t>(said->pid);
    if (is_ours(pid)) ::kill(pid, stack_signal());
  }
}

}  // namespace spotter::command
