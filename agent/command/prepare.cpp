#include "agent/command/prepare.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <thread>

#include "agent/act/aws/environment.hpp"
#include "agent/act/host/device.hpp"
#include "agent/act/host/format.hpp"
#include "agent/act/host/mount.hpp"
#include "agent/command/here.hpp"
#include "agent/command/launch.hpp"
#include "agent/command/prepare_afar.hpp"
#include "agent/command/sweep.hpp"
#include "agent/io/files.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/batch_values.hpp"
#include "agent/wire/ec2_words.hpp"

namespace spotter::command {
namespace {

namespace work = act::host;
using Clock = std::chrono::steady_clock;

constexpr int wrong_input = 2;
constexpr std::chrono::seconds device_patience{60};
constexpr std::chrono::seconds unmount_patience{30};
constexpr std::chrono::seconds default_bound{30};  // decide::Policy::consistency_bound

std::atomic<bool> asked_to_stop{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal's handler sets it");
bool is_stopping() { return asked_to_stop; }

void say(const std::string& what) { std::fprintf(stderr, "spotter prepare: %s\n", what.c_str()); }

using command::failed;
tl::unexpected<AwsFailure> failed(const work::Failure& failure) { return failed(failure.error); }

void hear_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { asked_to_stop = true; };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

// For its lifetime no signal ends what we start: half a file system would be nobody's.
class Undisturbed {
 public:
  Undisturbed() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&set, signal);
    ::sigprocmask(SIG_BLOCK, &set, &before_);
  }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;
  ~Undisturbed() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

// The agent of this machine would find the volume attached, and train.
bool keep_the_agent_out() {
  const std::string folder = run_directory_of(act::Environment::of_this_process());
  const supervise::RunDirectory directory(folder);
  // Where there can be none, no agent can begin, either.
  if (!io::make_directories(folder, supervise::directory_mode)) return true;
  auto lock = directory.make_ours().and_then([&] { return directory.take_agents_lock(); });
  return lock && lock->release() >= 0;  // until we end
}

// One volume, from beginning to end.
class Preparation {
 public:
  Preparation(AwsCalls& calls, const config::Job& job, const wire::Identity& here)
      : calls_(calls), job_(job), here_(here) {}

  AwsResult<void> run();

 private:
  AwsResult<wire::Volume> provide();
  AwsResult<void> work_on(const wire::Volume& volume);
  AwsResult<void> mount(const wire::Volume& volume, const std::string& attached_as);
  AwsResult<void> leave(const wire::Volume& volume);
  AwsResult<void> mark(const wire::Volume& volume);

  AwsCalls& calls_;
  const config::Job& job_;
  const wire::Identity& here_;
  std::optional<Clock::time_point> claimed_;
};

AwsResult<wire::Volume> Preparation::provide() {
  auto found = free_volume(calls_, job_, here_.instance);
  if (!found) return tl::unexpected(found.error());
  if (!*found) {
    config::Job here = job_;
    here.sweep.reset();  // this one's alone
    if (auto fits = fit_new_volume(here, here_.zone); !fits) return tl::unexpected(fits.error());
    // Within a minute it is the same request: two at a time make one volume.
    const auto minute = std::chrono::floor<std::chrono::minutes>(std::chrono::system_clock::now());
    const auto made = provide_volumes(
        calls_, here, "prepare " + std::to_string(minute.time_since_epoch().count()));
    if (!made) return tl::unexpected(made.error());
    found = free_volume(calls_, job_, here_.instance);
    if (!found) return tl::unexpected(found.error());
    if (!*found) return failed("the new volume is not seen yet: run it again");
  }
  const wire::Volume& volume = **found;
  if (volume.zone == here_.zone) return volume;
  return failed(volume.id.str() + " is in " + volume.zone.str() + ", and this instance in " +
                here_.zone.str() + ": run it on one of that zone");
}

AwsResult<void> Preparation::mount(const wire::Volume& volume, const std::string& attached_as) {
  work::DeviceQuery query{.volume = volume.id.str(), .hint = attached_as, .wait = device_patience};
  if (const auto set = act::Environment::of_this_process().get("SPOTTER_DEVICES"); !set.empty())
    query.devices = set;
  const auto device = work::find_device(query);
  if (!device) return failed(device.error());
  const Undisturbed quietly;
  const auto content = work::inspect(*device);
  if (!content) return failed(content.error());
  const std::string filesystem(to_text(job_.storage.ebs.filesystem));
  if (content->blank) {
    // The agent's own rule: only what was made for us, and never written to.
    const bool ours =
        wire::value_of(volume.tags, "spotter:format") == "blank" && volume.from_snapshot.empty();
    if (!ours)
      return failed(volume.id.str() + " is blank; if it is new and meant for this job, give it " +
                    "the tag spotter:format=blank: only then it gets a file system");
    if (const auto made = work::format(*device, filesystem); !made) return failed(made.error());
    say(volume.id.str() + " has " + filesystem + " now");
  }
  work::MountRequest request;
  request.device = *device;
  request.filesystem = filesystem;
  request.mount_point = job_.storage.ebs.mount;
  request.volume = volume.id.str();
  request.user = job_.trainer.user;
  request.directories.push_back(job_.checkpoints.directory);
  if (job_.in_container()) request.directories.emplace_back(config::container_folder);
  for (std::string& folder : fill_folders(job_)) request.directories.push_back(std::move(folder));
  if (const auto mounted = work::mount(request); !mounted) return failed(mounted.error());
  return {};
}

AwsResult<void> Preparation::mark(const wire::Volume& volume) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const wire::Tags tags{{prepared_tag, digest_of(job_.prepare) + " " +
                                           std::to_string(now.time_since_epoch().count())}};
  if (const auto set = calls_.ask(wire::CreateTags{{volume.id.str()}, tags}); !set)
    return tl::unexpected(set.error());
  return {};
}

AwsResult<void> Preparation::work_on(const wire::Volume& volume) {
  const auto attached_as = attach(calls_, volume, here_.instance, is_stopping);
  if (!attached_as) return tl::unexpected(attached_as.error());
  if (auto claimed = claim(calls_, job_, volume.id); !claimed) return claimed;
  claimed_ = Clock::now();
  if (is_stopping()) return failed("stopped");
  if (auto mounted = mount(volume, *attached_as); !mounted) return mounted;
  const auto filled = fill(job_, volume.id, is_stopping, say);
  if (!filled) return failed(filled.error().message);
  return mark(volume);
}

// However it ended.
AwsResult<void> Preparation::leave(const wire::Volume& volume) {
  {
    const Undisturbed quietly;
    const auto unmounted = work::unmount(job_.storage.ebs.mount, unmount_patience);
    if (!unmounted)
      return failed(unmounted.error().error + "; " + volume.id.str() +
                    " stays attached: run `spotter prepare` again");
  }
  if (claimed_) {
    const auto until = *claimed_ + job_.storage.ebs.consistency_bound.value_or(default_bound);
    if (Clock::now() < until) {
      say("it keeps " + volume.id.str() + " until everybody can have seen that");
      std::this_thread::sleep_until(until);  // a signal changes nothing about it
      while (Clock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  return detach(calls_, volume.id, here_.instance);
}

AwsResult<void> Preparation::run() {
  const auto volume = provide();
  if (!volume) return tl::unexpected(volume.error());
  say(volume->id.str() + " is prepared on " + here_.instance.str() + " in " + here_.zone.str());
  const auto done = work_on(*volume);
  const auto left = leave(*volume);
  if (!done) {
    if (!left) say(left.error().message);
    return done;
  }
  if (left) say(volume->id.str() + " is ready, and free");
  return left;
}

// The exit status; nothing: it is prepared.
std::optional<int> prepare_one(AwsCalls& calls, const config::Job& job,
                               const wire::Identity& here) {
  const auto done = Preparation(calls, job, here).run();
  if (done) return std::nullopt;
  say(is_stopping() ? "stopped; what is there stays: run it again" : done.error().message);
  return is_stopping() ? wire::interrupted_exit_code : 1;
}

int prepare_here(AwsCalls& calls, const config::Job& job, const wire::Identity& here) {
  if (!keep_the_agent_out()) {
    say("the agent of this instance is at work: end it first (`systemctl stop spotter`)");
    return 1;
  }
  if (!job.sweep) return prepare_one(calls, job, here).value_or(0);
  const auto sets = sets_of(job);
  if (!sets) {
    say(sets.error().message);
    return 1;
  }
  for (std::size_t index = 0; index < sets->size(); ++index) {
    config::Job one = job;
    become(one, index, (*sets)[index]);
    if (const auto status = prepare_one(calls, one, here)) return *status;
  }
  return 0;
}

int run(const AfarOptions& options) {
  const auto job = config::load_job(options.job, config::Environment::of_process());
  if (!job) {
    std::fputs(config::describe(job.error(), options.job).c_str(), stderr);
    return wrong_input;
  }
  if (job->storage.share) {
    say("the job's storage is " + config::describe(*job->storage.share) +
        ": put the data there, or name it in `channels:`; a volume (storage.ebs) is prepared");
    return wrong_input;
  }
  const auto calls = AwsCalls::open();
  if (!calls) {
    say(calls.error().message);
    return 1;
  }
  hear_signals();
  if (const auto here = AwsCalls::here()) return prepare_here(**calls, *job, *here);
  return prepare_afar(**calls, *job, options, asked_to_stop);
}

}  // namespace

void add_prepare(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "prepare",
      "Makes the job's volume, gives it a file system and folders, and brings what `prepare:` of "
      "job.yaml names; run again, it brings only what is missing");
  auto options = std::make_shared<AfarOptions>();
  command->add_option("job", options->job, "The job's description")->capture_default_str();
  add_afar_options(*command, *options);
  command->callback([options, &status] { status = run(*options); });
}

}  // namespace spotter::command
