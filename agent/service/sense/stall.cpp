#include "agent/service/sense/stall.hpp"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/io/process.hpp"
#include "agent/supervise/client.hpp"
#include "agent/wire/events.hpp"

namespace spotter::sense {
namespace {

constexpr int times_the_longest = 5;
// A share of one processor: a process that waits still wakes, as NCCL's watchdog does.
constexpr double idle_share = 0.02;
constexpr std::size_t proc_file = 4U << 10;

// Stands still while the machine is suspended: no process works then.
Time now() {
  return Time(
      std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

// The trainer's, and all below it; none: it has just ended.
std::vector<supervise::Process> processes_of(pid_t trainer) {
  std::vector<supervise::Process> all;
  if (auto its = supervise::find_process(trainer)) all.push_back(*std::move(its));
  std::ranges::move(supervise::descendants_of(trainer), std::back_inserter(all));
  return all;
}

std::uint64_t milliseconds_of(std::uint64_t ticks) {
  return ticks * 1000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
}

std::string first_line(const fs::path& file) {
  auto text = io::read_file(file, proc_file).value_or("");
  return text.substr(0, text.find('\n'));
}

// The longest pause that an agent has seen here, for the next one.
std::string pause_file(const std::string& run_directory) {
  return run_directory + "/longest-pause";
}

Duration earlier_pause(const std::string& run_directory) {
  const auto text = io::read_file(pause_file(run_directory), proc_file).value_or("");
  return Duration(std::strtoll(text.c_str(), nullptr, 10));
}

}  // namespace

void Stillness::begin(Time now) {
  sign_at_ = idle_since_ = looked_at_ = now;
  last_ = {};
}

bool Stillness::look(Time now, const Activity& seen) {
  const std::uint64_t used =
      seen.processor_ms >= last_.processor_ms ? seen.processor_ms - last_.processor_ms : UINT64_MAX;
  const auto passed = std::chrono::duration<double, std::milli>(now - looked_at_).count();
  if (static_cast<double>(used) > passed * idle_share) idle_since_ = now;
  if (seen.signs != last_.signs) {
    longest_ = std::min(std::max(longest_, now - sign_at_), most(least_));
    sign_at_ = now;
  }
  looked_at_ = now;
  last_ = seen;
  return now - sign_at_ >= std::max(least_, longest_ * times_the_longest) &&
         now - idle_since_ >= least_;
}

std::vector<std::string> threads_of(const std::vector<supervise::Process>& processes) {
  constexpr std::size_t most = 60;
  std::vector<std::string> lines;
  for (const supervise::Process& each : processes) {
    const fs::path process = "/proc/" + std::to_string(each.pid);
    std::error_code error;
    for (fs::directory_iterator at(process / "task", error), end;
         !error && at != end && lines.size() < most; at.increment(error)) {
      const std::string where = first_line(at->path() / "wchan");
      lines.push_back(std::to_string(each.pid) + " (" + each.name + "), thread " +
                      at->path().filename().string() + " " + first_line(at->path() / "comm") +
                      (where.empty() || where == "0" ? "" : ": waits in " + where));
    }
  }
  return lines;
}

StallWatch::StallWatch(asio::io_context& context, Duration least, Parts parts)
    : timer_(context),
      least_(least),
      parts_(std::move(parts)),
      stillness_(least, earlier_pause(parts_.run_directory)) {}

void StallWatch::watch() {
  if (least_ == Duration(0)) return;
  ++turn_;
  stillness_.begin(now());
  wait();
}

void StallWatch::wait() {
  timer_.expires_after(
      std::clamp<Duration>(least_ / 30, std::chrono::milliseconds(500), std::chrono::minutes(1)));
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) look();
  });
}

void StallWatch::look() {
  const auto seen = supervise::look(parts_.run_directory);
  const auto* running = seen ? seen->running() : nullptr;
  if (running == nullptr) return wait();  // it starts, or ends
  auto processes = processes_of(running->trainer_pid);
  Activity activity{.processor_ms = 0, .signs = parts_.reported()};
  for (const auto& each : processes) activity.processor_ms += milliseconds_of(each.used_ticks);
  struct stat log {};
  if (::stat(parts_.log_file.c_str(), &log) == 0)
    activity.signs += static_cast<std::uint64_t>(log.st_size);
  const char state = processes.empty() ? '?' : processes.front().state;
  // By a person, or a debugger: no pause of its own.
  if (state == 'T' || state == 't') stillness_.begin(now());
  const Duration before = stillness_.longest();
  const bool still = stillness_.look(now(), activity);
  if (stillness_.longest() > before + before / 8)
    (void)io::replace_file(pause_file(parts_.run_directory),
                           std::to_string(stillness_.longest().count()));
  if (!still) return wait();
  asio::co_spawn(timer_.get_executor(), judge(std::move(processes)), io::rethrow);
}

asio::awaitable<void> StallWatch::judge(std::vector<supervise::Process> processes) {
  io::ProcessRequest request{
      .argv = {"nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"}};
  const int turn = turn_;
  const io::ProcessResult result = co_await io::run(std::move(request));
  if (turn != turn_) co_return;
  using End = io::ProcessResult::End;
  const bool none = result.end == End::NotStarted && !parts_.has_gpus;
  const bool known = result.end == End::Exited && result.status == 0;
  // Each line is a GPU's: "0", or "[N/A]" where nobody knows.
  const bool idle = known && result.output.find_first_not_of("0\n") == std::string::npos;
  if (none || idle) co_return end(processes);
  stillness_.works(now());
  wait();
}

void StallWatch::end(const std::vector<supervise::Process>& processes) {
  const auto minutes =
      std::chrono::duration<double, std::ratio<60>>(stillness_.pause(now())).count();
  io::note(
      wire::event("trainer-stalled"), spdlog::level::err,
      "the trainer hangs: for {:.1f} minutes no line, step or checkpoint, and neither "
      "processor nor GPU works. It is asked to save and end, killed if it does not, and started "
      "again; the second time without a new checkpoint the job is given up. Its threads:",
      minutes);
  for (const std::string& line : threads_of(processes)) spdlog::error("  {}", line);
  stillness_.begin(now());
  parts_.hung();
  wait();
}

}  // namespace spotter::sense
