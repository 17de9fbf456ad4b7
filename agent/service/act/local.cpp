#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>

#include "agent/io/log.hpp"
#include "agent/job/prepare.hpp"
#include "agent/service/act/cache.hpp"
#include "agent/service/act/local_work.hpp"
#include "agent/systemd/settings.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {

using decide::EffectFailed;
using decide::Failure;
using nlohmann::json;

namespace {

struct KindOfFailure {
  const char* kind;
  Failure failure;
};

// The kinds that `spotter host` prints (host/*.hpp); whatever is not here is MountFailed.
constexpr KindOfFailure kKinds[] = {
    {"device-absent", Failure::DeviceAbsent},
    {"not-blank", Failure::DiskNotBlank},
    {"filesystem-mismatch", Failure::DiskForeign},
    {"foreign-signature", Failure::DiskForeign},
    {"not-formatted", Failure::DiskForeign},
    {"filesystem-damaged", Failure::FilesystemDamaged},
    {"mount-busy", Failure::Busy},
    {"share-silent", Failure::ShareSilent},
    {"code-unreachable", Failure::CodeUnreachable},
    {"code-denied", Failure::CodeUnreachable},
    {"code-failed", Failure::CodeUnreachable},
    {"revision-missing", Failure::CodeMissing},
    {"gpus-absent", Failure::GpusAbsent},
};

Failure failure_of(const std::string& kind) {
  for (const KindOfFailure& entry : kKinds) {
    if (kind == entry.kind) return entry.failure;
  }
  return Failure::MountFailed;
}

EffectFailed failed_process(const io::ProcessResult& result) {
  EffectFailed failed;
  switch (result.end) {
    case io::ProcessResult::End::Cancelled:
      failed.failure = Failure::Abandoned;
      failed.detail = "given up";
      break;
    case io::ProcessResult::End::TimedOut:
      failed.failure = Failure::Unavailable;
      failed.unsettled = true;
      failed.detail = "it took too long";
      break;
    default:
      failed.failure = Failure::MountFailed;
      failed.detail = decide::Detail("the helper process failed: " + result.errors);
  }
  return failed;
}

std::vector<std::string> with_token(const std::string& token) {
  std::vector<std::string> environment;
  for (char** entry = ::environ; *entry; ++entry) environment.emplace_back(*entry);
  if (!token.empty()) environment.push_back("SPOTTER_GIT_TOKEN=" + token);
  return environment;
}

std::string text(const Device& device) { return device.str(); }

// Letting go of it, asking the kernel, looking at the machine.
bool touches_share(const std::string& verb) {
  return verb != "release-share" && verb != "look-share" && verb != "await-gpus";
}

}  // namespace

// A verb on what belongs to the job alone. A server knows no root: on a share the trainer's user
// does everything.
std::vector<std::string> Local::in_home(const char* verb) const {
  std::vector<std::string> words;
  if (job_.storage.share) words = {"--as", job_.trainer.user};
  words.insert(words.end(), {verb, "--mount-point", job_.home()});
  return words;
}

asio::awaitable<Local::Work> Local::run(std::vector<std::string> arguments, Duration limit,
                                        std::string token, std::string input) {
  const bool on_home = arguments.front() == "--as" || touches_share(arguments.front());
  if (job_.storage.share && hanging_ && on_home) {
    EffectFailed silent;
    silent.failure = Failure::ShareSilent;
    silent.detail = decide::Detail(config::describe(*job_.storage.share) + " does not answer");
    co_return Work{{}, silent};
  }
  io::ProcessRequest request;
  request.argv = {program_, "host"};
  if (units::wanted())
    request.argv = {program_,
                    "unit",
                    "host",
                    "--run-directory=" + run_directory_,
                    "--limit=" + std::to_string(limit.count()),
                    "--"};
  request.argv.insert(request.argv.end(), arguments.begin(), arguments.end());
  request.timeout = limit;
  request.environment = with_token(token);
  request.stdin_text = std::move(input);
  auto running = io::run(std::move(request));
  const io::ProcessResult result = co_await std::move(running);
  Work work;
  const bool ended = result.end == io::ProcessResult::End::Exited;
  if (ended) work.answer = json::parse(result.output, nullptr, false);
  if (!ended || !work.answer.is_object()) {
    work.failed = failed_process(result);
  } else if (!work.answer.value("ok", false)) {
    EffectFailed failed;
    failed.failure = failure_of(work.answer.value("kind", ""));
    const std::string error = work.answer.value("error", "unknown");
    if (!decide::Detail::fits(error)) spdlog::warn("{}", error);  // the rest would not be seen
    failed.detail = decide::Detail(error);
    work.failed = failed;
  }
  co_return work;
}

Local::Answer Local::carry_out(std::vector<std::string> arguments, Duration limit,
                               decide::Happening done, std::string token, std::string input) {
  auto running = run(std::move(arguments), limit, std::move(token), std::move(input));
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  co_return done;
}

Local::Answer Local::find_device(decide::FindDevice effect, Duration limit) {
  const Duration patience = limit * 9 / 10;  // it should say what it saw before it is ended
  std::vector<std::string> arguments = {"find-device", "--volume", effect.volume.str(), "--wait",
                                        std::to_string(patience.count()) + "ms"};
  if (effect.attached_as) {
    arguments.push_back("--hint");
    arguments.push_back(effect.attached_as.str());
  }
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  co_return decide::DeviceFound{Device(work.answer.value("device", ""))};
}

Local::Answer Local::inspect(Device device, Duration limit) {
  std::vector<std::string> arguments = {"inspect", "--device", text(device)};
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  decide::DiskInspected seen;
  seen.blank = work.answer.value("blank", false);
  const std::string filesystem = work.answer.value("filesystem", "");
  seen.matches = filesystem == config::to_text(job_.storage.ebs.filesystem);
  seen.found = decide::Detail(work.answer.value("detail", ""));
  co_return seen;
}

Local::Answer Local::make_filesystem(Device device, Duration limit) {
  std::vector<std::string> arguments = {"format", "--device", text(device), "--filesystem",
                                        std::string(to_text(job_.storage.ebs.filesystem))};
  return carry_out(std::move(arguments), limit, decide::FilesystemMade{});
}

void Local::add_link(std::vector<std::string>& arguments) const {
  if (job_.sagemaker && !job_.sagemaker->link.empty())
    arguments.insert(arguments.end(), {"--link", job_.sagemaker->link});
}

Local::Answer Local::mount(decide::Mount effect, Duration limit) {
  std::vector<std::string> arguments = {"mount",
                                        "--device",
                                        text(effect.device),
                                        "--filesystem",
                                        std::string(to_text(job_.storage.ebs.filesystem)),
                                        "--mount-point",
                                        job_.storage.ebs.mount,
                                        "--volume",
                                        effect.volume.str(),
                                        "--user",
                                        job_.trainer.user,
                                        "--checkpoints",
                                        job_.checkpoints.directory};
  if (job_.in_container()) {
    arguments.insert(arguments.end(), {"--container", std::string(config::container_folder)});
    add_link(arguments);
  }
  if (effect.read_only) arguments.push_back("--read-only");
  if (const std::string cache = cache_folder(job_); !cache.empty())
    arguments.insert(arguments.end(), {"--cache", cache});
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  if (const std::string cache = work.answer.value("cache", ""); !cache.empty())
    spdlog::info("{}", cache);
  co_return decide::Mounted{};
}

Local::Answer Local::unmount(Duration limit) {
  const Duration wait = limit / 4;
  std::vector<std::string> arguments = {"unmount", "--mount-point", job_.storage.ebs.mount,
                                        "--wait", std::to_string(wait.count()) + "ms"};
  add_link(arguments);
  return carry_out(std::move(arguments), limit, decide::Unmounted{});
}

Local::Answer Local::mount_data(Device device, std::string mount_point, Duration limit) {
  return carry_out(
      {"mount-data", "--device", text(device), "--mount-point", std::move(mount_point)}, limit,
      decide::Mounted{});
}

asio::awaitable<std::optional<Local::MountSeen>> Local::mounted_at(std::string mount_point,
                                                                   Duration limit) {
  std::vector<std::string> arguments = {"look", "--mount-point", std::move(mount_point)};
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed || !work.answer.value("mounted", false)) co_return std::nullopt;
  co_return MountSeen{VolumeId(work.answer.value("volume", "")),
                      work.answer.value("read_only", false)};
}

Local::Answer Local::unmount_data(std::string mount_point, Duration limit) {
  const Duration wait = limit / 4;
  return carry_out({"unmount", "--mount-point", std::move(mount_point), "--wait",
                    std::to_string(wait.count()) + "ms"},
                   limit, decide::Unmounted{});
}

Local::Answer Local::read_ledger(Duration limit) {
  std::vector<std::string> arguments = in_home("ledger-read");
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  const auto step = [&](const char* name) {
    const auto kept = work.answer.value(name, std::int64_t{0});
    return kept > 0 ? kept : -1;
  };
  decide::Ledger ledger;
  ledger.attempts_without_progress = work.answer.value("attempts_without_progress", 0U);
  ledger.starts_without_progress = work.answer.value("starts", 0U);
  ledger.newest_step = step("newest_step");
  ledger.seconds = work.answer.value("seconds", 0.0);
  ledger.dollars = work.answer.value("dollars", 0.0);
  ledger.done = work.answer.value("done", false);
  ledger.losses = work.answer.value("losses", 0U);
  ledger.releases = work.answer.value("releases", 0U);
  ledger.running = work.answer.value("running", false);
  ledger.speaks = work.answer.value("speaks", false);
  ledger.stall = work.answer.value("stall", 0.0);
  ledger.reached = step("reached");
  ledger.repeated = work.answer.value("repeated", std::uint64_t{0});
  co_return decide::LedgerRead{ledger};
}

Local::Answer Local::write_ledger(decide::Ledger ledger, bool given_up, Duration limit) {
  const json counts = {{"attempts_without_progress", ledger.attempts_without_progress},
                       {"starts", ledger.starts_without_progress},
                       {"failures", given_up ? 1 : 0},
                       {"newest_step", std::max<std::int64_t>(ledger.newest_step, 0)},
                       {"seconds", ledger.seconds},
                       {"dollars", ledger.dollars},
                       {"done", ledger.done},
                       {"losses", ledger.losses},
                       {"releases", ledger.releases},
                       {"running", ledger.running},
                       {"speaks", ledger.speaks},
                       {"stall", ledger.stall},
                       {"reached", std::max<std::int64_t>(ledger.reached, 0)},
                       {"repeated", ledger.repeated}};
  return carry_out(in_home("ledger-write"), limit, decide::LedgerWritten{}, {}, counts.dump());
}

Local::Answer Local::sync(Duration limit) {
  std::vector<std::string> arguments = in_home("sync");
  if (job_.storage.share) {
    const std::string result = job_.trainer.result.empty() ? "result" : job_.trainer.result;
    arguments.insert(arguments.end(), {"--tree", job_.home() + "/" + result});
  }
  return carry_out(std::move(arguments), limit, decide::StorageSynced{});
}

Local::Answer Local::verify(bool read_only, Duration limit) {
  std::vector<std::string> arguments = in_home("verify");
  arguments.insert(arguments.end(), {"--checkpoints", job_.checkpoints.directory});
  if (!job_.checkpoints.files.empty()) {
    arguments.push_back("--files");
    arguments.push_back(job_.checkpoints.files);
  } else if (!job_.storage.share) {
    arguments.insert(arguments.end(), {"--user", job_.trainer.user});
  }
  if (read_only) arguments.push_back("--read-only");
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  decide::CheckpointsVerified seen;
  const json newest = work.answer.value("newest", json());
  if (newest.is_number_integer()) seen.newest = newest.get<std::int64_t>();
  const json torn = work.answer.value("torn", json::array());
  seen.torn = static_cast<std::uint32_t>(torn.size());
  for (const json& each : torn) {
    io::note(wire::event("torn-checkpoint"), spdlog::level::warn, "torn checkpoint: {}",
             each.get<std::string>());
  }
  for (const json& each : work.answer.value("said", json::array())) {
    spdlog::info("{}", each.get<std::string>());
  }
  co_return seen;
}

Local::Answer Local::await_gpus(Duration limit) {
  const Duration patience = limit * 9 / 10;          // it should say what it saw before it is ended
  const int count = std::max(job_.trainer.gpus, 0);  // 0: all
  std::vector<std::string> arguments = {"await-gpus", "--count", std::to_string(count), "--wait",
                                        std::to_string(patience.count()) + "ms"};
  return carry_out(std::move(arguments), limit, decide::GpusFound{});
}

asio::awaitable<void> Local::make_gpu_nodes(Duration limit) {
  const bool driven = ::access("/proc/driver/nvidia/version", F_OK) == 0;
  if (!units::wanted() || job_.trainer.gpus != 0 || !driven) co_return;
  auto making = await_gpus(limit);
  co_await std::move(making);  // what is missing a trainer that needs it says best
}

Local::Answer Local::fetch_code(std::string token, Duration limit) {
  std::vector<std::string> arguments = {
      "checkout",          "--repository", job_.code->repository, "--revision",
      job_.code->revision, "--directory",  job_.home() + "/code", "--user",
      job_.trainer.user};
  return carry_out(std::move(arguments), limit, decide::CodeFetched{}, std::move(token));
}

Local::Answer Local::fill(VolumeId volume, Duration limit) {
  const config::FillRequest request{job_.name.str(), volume.str(), job_.storage.ebs.mount,
                                    job_.trainer.user, job_.prepare};
  auto running = run({"fill"}, limit, {}, config::to_json(request));
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  for (const json& each : work.answer.value("said", json::array()))
    spdlog::info("{}", each.get<std::string>());
  co_return decide::VolumeFilled{};
}

asio::awaitable<tl::expected<decide::HostLooked, EffectFailed>> Local::mounted(Duration limit) {
  const bool share = job_.storage.share.has_value();
  std::vector<std::string> arguments = share ? on_share("look-share") : in_home("look");
  auto running = run(std::move(arguments), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return tl::unexpected(*work.failed);
  decide::HostLooked seen;
  const bool there = work.answer.value("mounted", false);
  seen.share = share && there;
  if (!share && there) seen.mounted = VolumeId(work.answer.value("volume", ""));
  co_return seen;
}

asio::awaitable<bool> Local::keep_lines(std::string name, std::string lines, Duration limit) {
  std::vector<std::string> arguments = {"keep-lines", "--path", job_.home(), "--name",
                                        std::move(name)};
  if (job_.storage.share) arguments.insert(arguments.begin(), {"--as", job_.trainer.user});
  auto running = run(std::move(arguments), limit, {}, std::move(lines));
  const Work work = co_await std::move(running);
  co_return !work.failed;
}

asio::awaitable<bool> Local::keep_metrics(std::string lines, std::optional<std::uint64_t> resumed,
                                          Duration limit) {
  std::vector<std::string> arguments = {"keep-metrics", "--path", job_.home() + "/metrics.jsonl"};
  if (job_.storage.share) arguments.insert(arguments.begin(), {"--as", job_.trainer.user});
  if (resumed) arguments.insert(arguments.end(), {"--resumed", std::to_string(*resumed)});
  auto running = run(std::move(arguments), limit, {}, std::move(lines));
  const Work work = co_await std::move(running);
  if (work.failed) spdlog::warn("the metrics are kept later: {}", work.failed->detail.view());
  if (const std::string said = work.answer.value("said", ""); !work.failed && !said.empty())
    spdlog::warn("{}", said);
  co_return !work.failed;
}

}  // namespace spotter::act
