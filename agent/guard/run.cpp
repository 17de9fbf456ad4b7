// The process around a Guard: which processes run, what the supervisor sends, what the agent is
// sent.
#include "agent/guard/run.hpp"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "agent/base/json.hpp"
#include "agent/guard/guard.hpp"
#include "agent/guard/inventory.hpp"
#include "agent/guard/place.hpp"
#include "agent/io/child.hpp"
#include "agent/supervise/processes.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::guard {
namespace {

using std::chrono::milliseconds;

constexpr int milliseconds_between_looks = 50;
constexpr milliseconds while_copying(500);
// At the trainer's end, for the last copy: less than the supervisor waits for us.
constexpr milliseconds longest_copy(45'000);
constexpr milliseconds spared(1000);          // of what a notice leaves
constexpr milliseconds for_a_person(60'000);  // whose command puts a generation back

// The supervisor's other children and theirs: the trainer's processes.
class Family {
 public:
  Deaths deaths() {
    std::set<Member> now;
    Deaths deaths{.all = true};
    for (const auto& process : supervise::descendants_of(::getppid(), ::getpid())) {
      deaths.some = deaths.some || process.exiting;
      deaths.all = deaths.all && process.exiting;
      now.emplace(process.pid, process.start_ticks);
    }
    for (const Member& member : known_) deaths.some = deaths.some || now.count(member) == 0;
    has_begun_ = has_begun_ || !now.empty();
    deaths.all = deaths.all && has_begun_;
    known_ = std::move(now);
    return deaths;
  }

  static bool only_appends(const struct stat& file) {
    return supervise::only_append(supervise::descendants_of(::getppid(), ::getpid()), file);
  }

 private:
  using Member = std::pair<pid_t, std::uint64_t>;
  std::set<Member> known_;
  bool has_begun_ = false;
};

std::string datagram(const Saying& saying) {
  constexpr std::size_t longest = 4000;  // see wire/datagram.hpp
  std::string text = "X_SPOTTER_GUARD=1\n";
  if (saying.path.empty()) {
    text += (saying.wrong ? "X_SPOTTER_NOTE=" : "X_SPOTTER_BEST=") + one_line(saying.words);
  } else {
    text += "X_SPOTTER_CHECKPOINT_STEP=" + std::to_string(saying.finished.step) +
            "\nX_SPOTTER_CHECKPOINT=" + one_line(saying.path) +
            "\nX_SPOTTER_CHECKPOINT_BYTES=" + std::to_string(saying.finished.bytes);
  }
  return text.substr(0, longest);
}

// The things put away, for `spotter status`; "": nothing is.
std::string datagram(const Keeper& keeper) {
  constexpr std::size_t longest = 1000;
  const std::string words = away_text(keeper.record().away, keeper.place().where().mount);
  return "X_SPOTTER_GUARD=1\nX_SPOTTER_PUT_AWAY=" + words.substr(0, longest);
}

// No one listens while no agent runs: the record has what was finished all the same.
void send(const std::string& socket, const std::string& text) {
  (void)supervise::send_datagram(socket, text, milliseconds(1000));
}

// After a notice the storage is to be free by then.
milliseconds time_for_the_last_copy(const std::string& socket) {
  constexpr std::size_t limit = 64U << 10;
  const auto slash = socket.rfind('/');
  const auto run = slash == std::string::npos
                       ? tl::unexpected(std::make_error_code(std::errc::no_such_file_or_directory))
                       : SafeDirectory::open(socket.substr(0, slash));
  const auto text = run ? run->read("notice", limit) : tl::unexpected(run.error());
  const auto notice = text ? wire::parsed_json(*text) : nlohmann::json();
  for (const char* name : {"stop_by_boottime_ms", "deadline_boottime_ms"}) {
    const auto found = notice.is_object() ? notice.find(name) : notice.end();
    if (found == notice.end() || !found->is_number_integer()) continue;
    const milliseconds at(supervise::boottime_milliseconds());
    const milliseconds left = milliseconds(found->get<std::int64_t>()) - at - spared;
    return std::clamp(left, milliseconds(0), longest_copy);
  }
  return longest_copy;
}

// When the trainer was started, or a little earlier.
Best::Clock::time_point start_of_supervisor() {
  const auto supervisor = supervise::find_process(::getppid());
  if (!supervisor) return Best::Clock::now();
  const auto hertz = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const milliseconds up(supervise::boottime_milliseconds());
  return Best::Clock::now() - up + std::chrono::seconds(supervisor->start_ticks / hertz);
}

bool is_readable(int file) {
  pollfd watched{file, POLLIN, 0};
  return ::poll(&watched, 1, 0) > 0;
}

supervise::ReportedValues reported_values(const std::string& run_directory) {
  constexpr std::size_t limit = 1U << 20;
  const auto run = SafeDirectory::open(run_directory);
  const auto text = run ? run->read(supervise::values_name, limit) : tl::unexpected(run.error());
  const auto values = text ? supervise::parse_values(*text) : failure("none");
  return values.value_or(supervise::ReportedValues());
}

bool reported_since(const std::string& run_directory, Best::Clock::time_point began) {
  const double since = std::chrono::duration<double>(began.time_since_epoch()).count();
  return std::ranges::any_of(reported_values(run_directory).all(),
                             [since](const auto& each) { return each.time >= since; });
}

void answer(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// The supervisor's message.
struct Instruction {
  bool gone = false;  // the supervisor
  End end = End::Killed;
};
Instruction read_instruction() {
  std::array<char, 64> buffer{};
  const ssize_t got = ::read(0, buffer.data(), buffer.size());
  if (got <= 0) return {.gone = true};
  const std::string_view word(buffer.data(), static_cast<std::size_t>(got));
  for (const auto& [text, end] :
       {std::pair{"finished", End::Finished}, {"stopped", End::Stopped}, {"failed", End::Failed}})
    if (word.starts_with(text)) return {false, end};
  return {};
}

bool reports_itself(const std::string& run_directory) {
  const auto run = SafeDirectory::open(run_directory);
  return run && run->look(supervise::reports_name).has_value();
}

void say(const Options& options, const std::optional<std::string>& words) {
  if (words) send(options.socket, datagram({.words = *words}));
}

void say(const Options& options, const std::vector<Best::Word>& words) {
  for (const Best::Word& one : words)
    send(options.socket, datagram({.words = one.text, .wrong = one.wrong}));
}

constexpr const char* libspotter_keeps_it =
    "checkpoints.keep_best keeps none of this trainer's: libspotter does, "
    "spotter.open(keep_best=1)";

constexpr std::chrono::seconds pause_after_failure(60);
constexpr useconds_t microseconds_between_looks = 10'000;

std::vector<std::string> environment_of_program() {
  constexpr std::array<std::string_view, 12> passed_on = {
      "AWS_",  "SSL_CERT_", "HTTPS_PROXY=", "https_proxy=", "HTTP_PROXY=", "http_proxy=",
      "LANG=", "NO_PROXY=", "no_proxy=",    "PATH=",        "TZ=",         "HOME="};
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view variable = *each;
    if (std::ranges::any_of(passed_on, [&](auto begin) { return variable.starts_with(begin); }))
      all.emplace_back(variable);
  }
  return all;
}

// Sets the share of the process's own session. Between sessions Linux divides the processor by this
// (sched(7), "The autogroup feature"), and not by the priorities of processes; below a cgroup that
// divides it, as a container's does, it is the other way round.
bool set_autogroup(const char* file, std::string_view nice) {
  const io::Descriptor group(::open(file, O_WRONLY | O_CLOEXEC));
  return group && ::write(group.get(), nice.data(), nice.size()) > 0;
}

// In the child: training has the processor first.
void lower_priority() {
  constexpr int lowest = 19;
  ::setpriority(PRIO_PROCESS, 0, lowest);
  if (::setsid() >= 0) (void)set_autogroup("/proc/self/autogroup", "19");
}

}  // namespace

int run(const Options& options) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto place = Place::open(options.where);
  const auto lock = place ? lock_as_guard(*place, for_a_person) : tl::unexpected(place.error());
  auto keeper = lock ? Keeper::open(options.where) : tl::unexpected(lock.error());
  if (!keeper) {
    answer(keeper.error().message);
    return 1;
  }
  Family family;
  Copier copier(options.copying);
  const std::string run_directory = options.socket.substr(0, options.socket.rfind('/') + 1);
  const Best::Clock::time_point began = start_of_supervisor();
  Best best(
      *keeper, options.best, [&run_directory] { return reported_values(run_directory); }, began);
  Guard guard(
      *keeper, [&family] { return family.deaths(); },
      [&options, &keeper, &copier, &best](const Saying& saying) {
        send(options.socket, datagram(saying));
        if (saying.path.empty()) return;
        send(options.socket, datagram(*keeper));  // an agent may have begun meanwhile
        copier.offer();
        best.offer(saying.finished.name,
                   Best::Clock::time_point(std::chrono::floor<Best::Clock::duration>(
                       std::chrono::nanoseconds(saying.finished.mtime_ns))));
      },
      &std::chrono::steady_clock::now, SaidSet(options.set),
      [&run_directory] { return reports_itself(run_directory); }, &Family::only_appends);
  if (const auto begun = guard.begin(options.again); !begun) {
    answer(one_line(begun.error().message));
    return 1;
  }
  send(options.socket, datagram(*keeper));
  answer("ready");
  copier.offer();  // what an earlier one did not copy
  for (bool said = !options.best;;) {
    if (guard.is_idle() && !std::exchange(said, true)) say(options, libspotter_keeps_it);
    auto patience = std::min(guard.look(), copier.is_busy() ? while_copying : longest_copy);
    say(options, copier.look());
    // The trainer's end, and its last checkpoint, wait for no copy.
    say(options, best.look(Best::Clock::now(), false, [] { return is_readable(0); }));
    patience = std::min(patience, best.wait(Best::Clock::now()).value_or(patience));
    std::array<pollfd, 2> watched{pollfd{0, POLLIN, 0}, pollfd{guard.descriptor(), POLLIN, 0}};
    // A checkpoint of many gigabytes is thousands of events: they are looked at together.
    if (::poll(watched.data(), 1, milliseconds_between_looks) == 0 &&
        ::poll(watched.data(), watched.size(), static_cast<int>(patience.count())) <= 0) {
      continue;
    }
    if (watched[0].revents == 0) continue;
    const auto [gone, how] = read_instruction();
    if (gone) return 1;
    const bool voluntarily = how == End::Finished || how == End::Stopped;
    if (guard.end(how, reported_since(run_directory, began))) answer("doubted");
    send(options.socket, datagram(*keeper));
    // A trainer that failed starts again: nothing waits for S3 then.
    const auto end = Best::Clock::now() + time_for_the_last_copy(options.socket);
    const auto left = [&end] {
      return std::max(milliseconds(0), std::chrono::floor<milliseconds>(end - Best::Clock::now()));
    };
    if (voluntarily) say(options, copier.finish(left()));
    // The trainer's last report may still be on its way.
    if (const auto moment = best.wait(Best::Clock::now()))
      std::this_thread::sleep_for(std::min(*moment, left()));
    say(options,
        best.look(Best::Clock::now(), true, [&left] { return left() == milliseconds(0); }));
    if (best.is_busy())
      say(options, "there was no time to look whether the last checkpoint is the best");
    return 0;
  }
}

std::optional<std::string> Copier::look() {
  std::optional<std::string> words;
  if (pid_ != 0 && has_ended()) words = read_words();
  if (pid_ == 0 && wanted_ && Clock::now() >= not_before_) start(Priority::Lowest);
  return words;
}

std::optional<std::string> Copier::finish(std::chrono::milliseconds limit) {
  if (program_.empty()) return std::nullopt;
  if (wanted_) {
    kill();  // what is under way is of an older one
    start(Priority::Usual);
  }
  if (pid_ == 0) return std::nullopt;  // the newest is copied
  set_autogroup(("/proc/" + std::to_string(pid_) + "/autogroup").c_str(), "0");  // nobody trains
  for (const auto end = Clock::now() + limit; pid_ != 0 && !has_ended();) {
    if (Clock::now() >= end) {
      kill();
      return "the last checkpoint is not copied to S3: no time is left";
    }
    ::usleep(microseconds_between_looks);
  }
  return read_words();
}

void Copier::start(Priority priority) {
  wanted_ = false;
  io::Descriptor output;
  if (!io::make_pipe(words_, output)) return;
  const io::Program program(program_, environment_of_program());
  const pid_t guard = ::getpid();
  pid_ = io::fork_child([&] {
    if (!io::die_with(guard, SIGKILL)) return 1;
    if (priority == Priority::Lowest) lower_priority();
    const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || ::dup2(null, 0) < 0 || ::dup2(output.get(), 1) < 0) return 1;
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    program.execute();
    return 1;
  });
  if (pid_ < 0) pid_ = 0;
}

bool Copier::has_ended() {
  const pid_t ended = ::waitpid(pid_, &status_, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  pid_ = 0;
  return true;
}

// A copy that is interrupted has no manifest.
void Copier::kill() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = 0;
}

std::optional<std::string> Copier::read_words() {
  std::array<char, 2048> buffer{};
  const ssize_t got = ::read(words_.get(), buffer.data(), buffer.size());
  std::string words(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  while (words.ends_with('\n')) words.pop_back();
  if (WIFEXITED(status_) && WEXITSTATUS(status_) == 0) {
    last_trouble_.clear();
    if (words.empty() || std::exchange(copies_, true)) return std::nullopt;
    return words + " is copied to S3, as the newest checkpoint is from here on";
  }
  if (words.empty()) words = "the program that copies checkpoints to S3 ended without a message";
  copies_ = false;
  not_before_ = Clock::now() + pause_after_failure;
  wanted_ = true;
  if (words == last_trouble_) return std::nullopt;
  last_trouble_ = words;
  return words;
}

}  // namespace spotter::guard
