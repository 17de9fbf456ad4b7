#include "agent/service/act/local.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "agent/aws/formats/s3.hpp"
#include "agent/base/json.hpp"
#include "agent/decide/policy.hpp"
#include "agent/io/log.hpp"
#include "agent/supervise/client.hpp"
#include "agent/supervise/output.hpp"
#include "agent/units/settings.hpp"
#include "agent/wire/datagram.hpp"
#include "agent/wire/events.hpp"
#include "agent/wire/ledger.hpp"

namespace spotter::act {

using decide::EffectFailed;
using decide::Failure;
using nlohmann::json;

namespace {

struct KindOfFailure {
  const char* kind;
  Failure failure;
};

// The kinds that `spotter host` prints (host/*.cpp); whatever is not here is MountFailed.
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
    {"s3", Failure::Unavailable},
    {"s3-refused", Failure::Refused},
    {"s3-rejected", Failure::Rejected},
    {"home-changed", Failure::Unavailable},
};

Failure failure_of(const std::string& kind) {
  for (const KindOfFailure& entry : kKinds) {
    if (kind == entry.kind) return entry.failure;
  }
  return Failure::MountFailed;
}

EffectFailed failed_process(const io::ProcessResult& result) {
  using enum io::ProcessResult::End;
  if (result.end == Cancelled) return {Failure::Abandoned, false, "given up"};
  if (result.end == TimedOut) return {Failure::Unavailable, true, "it took too long"};
  std::string failed = "the helper process failed: ";
  const std::size_t room = longest_detail - failed.size();
  return {Failure::MountFailed, false,
          decide::Detail(failed.append(io::last_lines(result.errors, room)))};
}

std::string text(const Device& device) { return device.str(); }

// The command as the ledger gives it back: bytes that are no text are replaced there.
std::string words_of(const config::Job& job) {
  constexpr std::size_t longest = 2000;
  const json text(job.trainer.words.substr(0, longest));
  return json::parse(wire::json_text(text));
}

// An earlier one that only failed has left nothing that another one could spoil, or be taken for.
bool has_something(const decide::Ledger& ledger) {
  return ledger.done || ledger.newest_step >= 0 || ledger.releases > 0;
}

}  // namespace

// The output of a `spotter host` process. Internal to Local.

// Its JSON, or why there is none.
struct Local::Work {
  nlohmann::json answer;
  std::optional<decide::EffectFailed> failed;
};

// A verb on the job's home. A server may refuse root, so on a share the trainer's user does all of
// it.
verbs::Request Local::in_home(verbs::Verb verb) const {
  return {std::move(verb), job_.storage.share ? job_.trainer.user : ""};
}

asio::awaitable<Local::Work> Local::run(verbs::Request wanted, Duration limit) {
  if (job_.storage.share && hanging_ && verbs::traits_of(wanted.verb).touches_share) {
    const std::string silent = config::describe(job_.storage) + " does not answer";
    co_return Work{{}, EffectFailed{Failure::ShareSilent, false, decide::Detail(silent)}};
  }
  io::ProcessRequest request;
  request.argv = {program_, "host"};
  if (units::wanted())
    request.argv = {program_, "unit", "host", "--run-directory=" + run_directory_,
                    "--limit=" + std::to_string(limit.count())};
  request.timeout = limit;
  request.stdin_text = verbs::to_json(wanted);
  const io::ProcessResult result = co_await io::run(std::move(request));
  Work work;
  const bool ended = result.end == io::ProcessResult::End::Exited;
  if (ended) work.answer = wire::parsed_json(result.output);
  if (!ended || !work.answer.is_object()) {
    work.failed = failed_process(result);
  } else if (!work.answer.value("ok", false)) {
    const std::string error = work.answer.value("error", "unknown");
    if (!decide::Detail::fits(error)) spdlog::warn("{}", error);  // Detail would cut it
    work.failed =
        EffectFailed{failure_of(work.answer.value("kind", "")), false, decide::Detail(error)};
  }
  co_return work;
}

Local::Answer Local::carry_out(verbs::Request wanted, Duration limit, decide::Happening done) {
  const Work work = co_await run(std::move(wanted), limit);
  if (work.failed) co_return *work.failed;
  co_return done;
}

Local::Answer Local::on(decide::FindDevice effect, Duration limit) {
  const Duration patience = limit * 9 / 10;  // it should report before it is killed
  auto running =
      run({verbs::FindDevice{effect.volume.str(), effect.attached_as.str(), patience}, {}}, limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  co_return decide::DeviceFound{Device(work.answer.value("device", ""))};
}

Local::Answer Local::on(decide::InspectDisk effect, Duration limit) {
  auto running = run({verbs::Inspect{text(effect.device)}, {}}, limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  decide::DiskInspected seen;
  seen.blank = work.answer.value("blank", false);
  const std::string filesystem = work.answer.value("filesystem", "");
  seen.matches = filesystem == config::to_text(job_.storage.ebs.filesystem);
  seen.found = decide::Detail(work.answer.value("detail", ""));
  co_return seen;
}

Local::Answer Local::on(const decide::MakeFilesystem& it, Duration limit) {
  const std::string filesystem(to_text(job_.storage.ebs.filesystem));
  return carry_out({verbs::Format{text(it.device), filesystem}, {}}, limit,
                   decide::FilesystemMade{});
}

Local::Answer Local::on(decide::Mount effect, Duration limit) {
  verbs::Mount verb;
  verb.device = text(effect.device);
  verb.filesystem = to_text(job_.storage.ebs.filesystem);
  verb.mount_point = job_.storage.ebs.mount;
  verb.volume = effect.volume.str();
  verb.user = job_.trainer.user;
  verb.directories.push_back(job_.checkpoints.directory);
  // The volume's root is root's: whatever the trainer writes is below a folder of its own.
  if (auto folder = fs::path(job_.result()).parent_path(); !folder.empty() && !job_.experiment)
    verb.directories.push_back(std::move(folder));
  if (!job_.setup.empty()) verb.directories.emplace_back(config::setup_folder);
  if (job_.has_users_home()) verb.directories.emplace_back(config::users_home);
  if (job_.in_container()) {
    verb.container = config::container_folder;
    verb.directories.push_back(verb.container);
    verb.link = link();
  }
  verb.read_only = effect.read_only;
  verb.cache = cache_folder(job_);
  auto running = run({std::move(verb), {}}, limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  if (const std::string cache = work.answer.value("cache", ""); !cache.empty())
    spdlog::info("{}", cache);
  co_return decide::Mounted{};
}

// An unmount that failed, hung, or was an earlier agent's may have worked all the same, and the
// kernel, or another mount namespace, may still have the disk: the volume's name tells which disk
// it is.
Local::Answer Local::on(const decide::Unmount& it, Duration limit) {
  return carry_out({verbs::Unmount{job_.storage.ebs.mount, limit / 4, link(), it.volume.str(),
                                   it.attached_as.str()},
                    {}},
                   limit, decide::Unmounted{});
}

asio::awaitable<std::optional<Local::Warmth>> Local::warm(VolumeId volume, std::string mount_point,
                                                          std::uint64_t from, Duration time) {
  constexpr Duration patience = std::chrono::minutes(1);  // for reads that EBS holds up
  verbs::Warm verb{std::move(mount_point), volume.str(), job_.storage.ebs.mount, from, time};
  auto running = run({std::move(verb), {}}, time + patience);
  const Work work = co_await std::move(running);
  if (work.failed && work.failed->failure != Failure::Abandoned)
    spdlog::info("the rest of {} is read when it is needed: {}", volume.view(),
                 work.failed->detail.view());
  if (work.failed) co_return std::nullopt;
  const auto number = [&](const char* name) { return work.answer.value(name, std::uint64_t{0}); };
  co_return Warmth{number("at"), number("read"), number("total")};
}

Local::Answer Local::mount_data(Device device, std::string mount_point, Duration limit) {
  return carry_out({verbs::MountData{text(device), std::move(mount_point)}, {}}, limit,
                   decide::Mounted{});
}

asio::awaitable<std::optional<Local::MountSeen>> Local::mounted_at(std::string mount_point,
                                                                   Duration limit) {
  auto running = run({verbs::Look{std::move(mount_point)}, {}}, limit);
  const Work work = co_await std::move(running);
  if (work.failed || !work.answer.value("mounted", false)) co_return std::nullopt;
  co_return MountSeen{VolumeId(work.answer.value("volume", "")),
                      work.answer.value("read_only", false)};
}

Local::Answer Local::unmount_data(std::string mount_point, Duration limit) {
  return carry_out({verbs::Unmount{std::move(mount_point), limit / 4, {}, {}, {}}, {}}, limit,
                   decide::Unmounted{});
}

Local::Answer Local::on(decide::ReadLedger, Duration limit) {
  auto running = run(in_home(verbs::ReadLedger{job_.home(), job_.gang.has_value()}), limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  const auto read = wire::parse_ledger(work.answer.dump());
  if (!read)
    co_return EffectFailed{Failure::MountFailed, false,
                           decide::Detail("the ledger: " + read.error().message)};
  const std::string words = words_of(job_);
  const bool differs = !words.empty() && !read->command.empty() && words != read->command;
  const std::string others = job_.home() + " is the job of another command: it has " +
                             (read->ledger.done ? "finished `" : "run `") + read->command +
                             "`, and this is `" + words + "`";
  // With --new-command, too, nothing would be run where all is done.
  const bool spoils = read->ledger.done || !job_.trainer.new_words;
  if (differs && has_something(read->ledger) && spoils && refuse)
    std::exchange(refuse,
                  nullptr)(others + ". Give this one a --name or a --storage of its own" +
                           (read->ledger.done ? "" : "; --new-command goes on there with it"));
  else if (differs)
    spdlog::info("{}", others);
  co_return decide::LedgerRead{
      read->ledger,
      {work.answer.value("others_seconds", 0.0), work.answer.value("others_dollars", 0.0)}};
}

Local::Answer Local::write_ledger(decide::Ledger ledger, bool given_up, Duration limit) {
  // A command that was refused leaves the record as it is.
  const std::string recorded = refuse ? words_of(job_) : std::string();
  const wire::LedgerFile file{
      .ledger = ledger, .failures = given_up ? 1U : 0U, .command = recorded};
  return carry_out(in_home(verbs::WriteLedger{job_.home(), file}), limit, decide::LedgerWritten{});
}

Local::Answer Local::on(const decide::SyncStorage&, Duration limit) {
  verbs::Sync verb{job_.home(), {}};
  if (job_.storage.share) verb.tree = job_.trainers_home() + "/" + job_.result();
  return carry_out(in_home(std::move(verb)), limit, decide::StorageSynced{});
}

// The number of files that were sent.
asio::awaitable<Result<std::uint64_t, EffectFailed>> Local::send(config::Sending files,
                                                                 Duration limit) {
  auto running =
      run({verbs::SendResult{job_.trainers_home(), job_.trainer.user, std::move(files.paths),
                             job_.name.str(), wire::to_url(files.to)},
           {}},
          limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return tl::unexpected(*work.failed);
  const auto sent = work.answer.value("files", std::uint64_t{0});
  for (const json& each : work.answer.value("left_out", json::array()))
    spdlog::warn("not sent: {}", each.get<std::string>());
  if (sent > 0)
    spdlog::info("{} files of {} bytes are in {}", sent,
                 work.answer.value("bytes", std::uint64_t{0}), wire::to_url(files.to));
  co_return sent;
}

Local::Answer Local::on(decide::SendResult, Duration limit) {
  const config::Sending files{{job_.result()}, *job_.published_in(config::results_folder)};
  const auto sent = co_await send(files, limit);
  if (sent) co_return decide::ResultSent{};
  io::note(wire::event("result-not-sent"), spdlog::level::warn,
           "the result is not in {}: {}; it stays where it is", wire::to_url(files.to),
           sent.error().detail.view());
  co_return sent.error();
}

Local::Answer Local::on(decide::VerifyCheckpoints effect, Duration limit) {
  const bool proven = effect.proven_step >= 0;
  verbs::Verify verb{.mount_point = job_.home(),
                     .checkpoints = job_.checkpoints.directory,
                     .read_only = effect.read_only,
                     .files = job_.checkpoints.files,
                     .folders = job_.checkpoints.folders,
                     .proven = proven,
                     .watched = !job_.gang};
  if (verb.files.empty() && !job_.storage.share) verb.user = job_.trainer.user;
  const Work work = co_await run(in_home(std::move(verb)), limit);
  if (work.failed) co_return *work.failed;
  decide::CheckpointsVerified seen;
  const json newest = work.answer.value("newest", json());
  if (proven) seen.newest = effect.proven_step;
  if (newest.is_number_integer()) seen.newest = newest.get<std::int64_t>();
  const auto name = fs::path(work.answer.value("path", "")).filename();
  seen.write = seen.newest && !wire::names_step(name.string(), *seen.newest);
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

Local::Answer Local::on(const decide::AwaitGpus&, Duration limit) {
  const Duration patience = limit * 9 / 10;          // it should report before it is killed
  const int count = std::max(job_.trainer.gpus, 0);  // 0: all
  return carry_out({verbs::AwaitGpus{static_cast<std::uint8_t>(count), patience}, {}}, limit,
                   decide::GpusFound{});
}

asio::awaitable<void> Local::make_gpu_nodes(Duration limit) {
  const bool driven = ::access("/proc/driver/nvidia/version", F_OK) == 0;
  if (!units::wanted() || job_.trainer.gpus != 0 || !driven) co_return;
  co_await on(decide::AwaitGpus(), limit);  // a trainer that needs what is missing reports it
}

Local::Answer Local::fetch_code(std::string token, Duration limit) {
  verbs::Checkout verb{job_.code->repository, job_.code->revision, job_.home() + "/code",
                       job_.trainer.user, std::move(token)};
  auto running = run({std::move(verb), {}}, limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  if (const std::string missing = work.answer.value("missing", ""); !missing.empty())
    spdlog::warn("the code: {}", missing);
  co_return decide::CodeFetched{};
}

Local::Answer Local::on(decide::FillVolume effect, Duration limit) {
  if (job_.sending) {
    const auto sent = co_await send(*job_.sending, limit);
    if (!sent) co_return sent.error();
    if (*sent > 0) co_return decide::VolumeFilled{};
    co_return EffectFailed{Failure::Missing, false,
                           "none of the files that are asked for is on it"};
  }
  verbs::Fill verb{job_.name.str(), effect.volume.str(), job_.storage.ebs.mount, job_.trainer.user,
                   job_.prepare};
  auto running = run({std::move(verb), {}}, limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  for (const json& each : work.answer.value("said", json::array()))
    spdlog::info("{}", each.get<std::string>());
  co_return decide::VolumeFilled{};
}

asio::awaitable<Result<decide::HostLooked, EffectFailed>> Local::mounted(Duration limit) {
  const bool share = job_.storage.share.has_value();
  verbs::Request wanted{verbs::Look{job_.home()}, {}};
  if (share) wanted.verb = verbs::LookShare{of_job()};
  const Work work = co_await run(std::move(wanted), limit);
  if (work.failed) co_return tl::unexpected(*work.failed);
  decide::HostLooked seen;
  const bool there = work.answer.value("mounted", false);
  seen.share = share && there;
  seen.ec2 = work.answer.value("ec2", false);
  if (!share && there) seen.mounted = VolumeId(work.answer.value("volume", ""));
  co_return seen;
}

asio::awaitable<bool> Local::keep_lines(std::string name, std::string lines, Duration limit) {
  auto running =
      run(in_home(verbs::KeepLines{job_.home(), std::move(name), std::move(lines)}), limit);
  const Work work = co_await std::move(running);
  co_return !work.failed;
}

asio::awaitable<bool> Local::keep_metrics(std::string lines, std::optional<std::uint64_t> resumed,
                                          Duration limit) {
  verbs::Request wanted =
      in_home(verbs::KeepMetrics{job_.home() + "/metrics.jsonl", std::move(lines), resumed});
  const Work work = co_await run(std::move(wanted), limit);
  if (work.failed) spdlog::warn("the metrics are kept later: {}", work.failed->detail.view());
  if (const std::string said = work.answer.value("said", ""); !work.failed && !said.empty())
    spdlog::warn("{}", said);
  co_return !work.failed;
}

// Work on a share: mounting and releasing it, and what several machines do in its folders.

verbs::Request Local::as_trainer(verbs::Verb verb) const {
  return {std::move(verb), job_.trainer.user};
}

Share Local::of_job() const {
  Share share = *job_.storage.share;
  if (const char* region = std::getenv("AWS_REGION")) share.region = region;
  return share;
}

Local::Answer Local::on(decide::PrepareShare, Duration limit) {
  verbs::PrepareShare verb{.share = of_job(),
                           .user = job_.trainer.user,
                           .job = job_.folder_here(),
                           .holder = run_directory_,
                           .again = prepared_,
                           .identity = job_.is_handed_out(),
                           .cache = cache_folder(job_)};
  if (!verb.identity) lay_out(verb);
  auto running = run({std::move(verb), {}}, limit);
  const Work work = co_await std::move(running);
  if (work.failed) co_return *work.failed;
  prepared_ = true;
  home_id_ = work.answer.value("id", "");
  if (const std::string cache = work.answer.value("cache", ""); !cache.empty())
    spdlog::info("{}", cache);
  if (const std::string foreign = work.answer.value("foreign", ""); !foreign.empty())
    io::note(wire::event("share-foreign"), spdlog::level::warn, "{}", foreign);
  co_return decide::Mounted{};
}

// With claims each attempt has its own folders instead.
void Local::lay_out(verbs::PrepareShare& verb) const {
  verb.directories = {"code", "result", "log"};
  if (job_.experiment) verb.directories.emplace_back(config::model_folder);
  verb.directories.push_back(job_.checkpoints.directory);
  if (!job_.setup.empty()) verb.directories.emplace_back(config::setup_folder);
  if (job_.has_users_home()) verb.directories.emplace_back(config::users_home);
  if (!verb.cache.empty() && job_.storage.in_bucket()) verb.directories.emplace_back("cache");
  if (!job_.in_container()) return;
  verb.container = config::container_folder;
  verb.directories.push_back(verb.container);
  verb.link = link();
}

Local::Answer Local::on(const decide::ReleaseShare&, Duration limit) {
  const bool linked = job_.in_container() && !job_.is_handed_out();
  return carry_out({verbs::ReleaseShare{of_job(), job_.folder_here(), run_directory_,
                                        linked ? link() : std::string()},
                    {}},
                   limit, decide::Unmounted{});
}

asio::awaitable<Result<std::string, decide::EffectFailed>> Local::home_verb(verbs::Verb verb,
                                                                            Duration limit) {
  const Work work = co_await run(as_trainer(std::move(verb)), limit);
  if (work.failed) co_return tl::unexpected(*work.failed);
  co_return work.answer.dump();
}

Local::Answer Local::on(const decide::MarkDone&, Duration limit) {
  return carry_out(as_trainer(verbs::MarkDone{job_.home(), job_.name.str()}), limit,
                   decide::CallAccepted{});
}

asio::awaitable<Result<bool, decide::EffectFailed>> Local::is_there(std::string path,
                                                                    Duration limit) {
  using Clock = asio::steady_timer::clock_type;
  constexpr std::chrono::seconds between{1};
  asio::steady_timer pause(co_await asio::this_coro::executor);
  const auto until = Clock::now() + limit;
  for (;;) {
    auto running =
        run(as_trainer(verbs::There{path}), std::chrono::ceil<Duration>(until - Clock::now()));
    const Work work = co_await std::move(running);
    if (work.failed && !unknown_since_) {
      unknown_since_ = Clock::now();
      spdlog::warn("whether there is {} is not known yet: {}", path, work.failed->detail.view());
    }
    const bool too_long = work.failed && Clock::now() - *unknown_since_ >= job_.on_failure.blocked;
    if (!work.failed || too_long) {
      unknown_since_.reset();
      co_return !too_long && work.answer.value("there", false);
    }
    if (Clock::now() + between >= until) co_return tl::unexpected(*work.failed);
    pause.expires_after(between);
    boost::system::error_code ignored;
    co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

// What is kept is gone from this machine: only what the supervisor has taken for `spotter logs`.
asio::awaitable<void> Local::keep_log(Duration limit) {
  verbs::KeepLog keep{run_directory_ + "/trainer.log", job_.home() + "/log/trainer.log", {}};
  if (supervise::has_supervisor(run_directory_)) keep.end = supervise::taken(run_directory_);
  const Work work = co_await run(as_trainer(std::move(keep)), limit);
  if (work.failed) spdlog::warn("the trainer's log is kept later: {}", work.failed->detail.view());
}

asio::awaitable<Result<std::string>> Local::of_attempt(verbs::Verb verb, Duration limit) {
  const Work work = co_await run(as_trainer(std::move(verb)), limit);
  if (work.failed) co_return failure(work.failed->detail.str());
  co_return work.answer.value("answer", "");
}

void Warming::follow(bool trains, const VolumeId& own) {
  if (const auto was = std::exchange(wanted_, {trains, own}); was == wanted_) return;
  again_ = true;
  running_ ? running_->emit(asio::cancellation_type::all) : start();
}

void Warming::start() {
  again_ = false;
  if (!wanted_.first) return;
  running_ = std::make_shared<asio::cancellation_signal>();
  const auto then = [this, signal = running_](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
    running_.reset();
    if (again_) start();
  };
  asio::co_spawn(context_, read_all(wanted_.second),
                 asio::bind_cancellation_slot(running_->slot(), then));
}

// A cancellation is thrown, or ends but the verb that is under way: again_ says it, too.
asio::awaitable<void> Warming::read_all(VolumeId own) {
  try {
    if (own) co_await read(own, local_.job().storage.ebs.mount);
    for (const config::DataVolume& data : local_.job().storage.data) {
      if (again_) co_return;
      if (data.initialization_rate) continue;  // EBS loads it
      const auto there = co_await local_.mounted_at(data.mount, decide::Policy().look);
      if (there && there->read_only && there->volume) co_await read(there->volume, data.mount);
    }
  } catch (const boost::system::system_error&) {  // cancelled
  }
}

asio::awaitable<void> Warming::read(VolumeId volume, std::string mount_point) {
  constexpr std::chrono::steady_clock::duration least = std::chrono::seconds(1), most = 10 * least;
  constexpr int tries = 5;  // in a row, that bring nothing: EBS may hold one up
  const supervise::RunDirectory directory(local_.run_directory());
  const char* const name = "warm.json";  // {VOLUME: the offset up to which it was read}
  // A file that is not there, or not whole, costs reading some of it again.
  const auto text = io::read_file(directory.file(name), 64U << 10).value_or("");
  json positions = wire::parse_json_object(text).value_or(json::object());
  const auto from = wire::count_field(positions, volume.str().c_str()).value_or(0);
  Local::Warmth until_now{.at = from};
  std::chrono::steady_clock::duration took{};
  for (int in_vain = 0; !again_ && !done_.contains(volume);) {
    const auto began = std::chrono::steady_clock::now();
    const auto slice = std::chrono::ceil<Duration>(std::clamp(took, least, most));
    const auto now = co_await local_.warm(volume, mount_point, until_now.at, slice);
    took += std::chrono::steady_clock::now() - began;
    if (!now && again_) co_return;
    const bool all = now && now->read == now->total;
    in_vain = now && now->at > until_now.at ? 0 : in_vain + 1;
    if (all || in_vain == tries) done_.insert(volume);
    if (now) until_now = *now;
    positions[volume.str()] = until_now.at;
    (void)directory.replace(name, positions.dump());
    seen_(all || !done_.contains(volume) ? until_now : Local::Warmth());
    if (all && now->at > from)
      spdlog::info("all that {} had is read, behind the trainer: {:.1f} GB in {:.0f} s",
                   volume.view(), static_cast<double>(now->total) / 1e9,
                   std::chrono::duration<double>(took).count());
  }
}

asio::awaitable<void> ShareWatch::watch() {
  for (;;) {
    pause_.expires_after(kEvery);
    co_await pause_.async_wait(asio::use_awaitable);
    if (wanted_())
      co_await ask();
    else
      said("");
  }
}

asio::awaitable<void> ShareWatch::ask() {
  patience_.expires_after(kPatience);
  patience_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    local_.hanging_ = true;
    said(place_ + " does not answer: whatever touches it waits");
  });
  const Share& share = *local_.job().storage.share;
  // It checks nothing where nothing is mounted; without a mount point it always does.
  const bool folder = share.kind == Share::Kind::Folder || share.kind == Share::Kind::S3;
  io::ProcessRequest request;
  request.argv = {local_.program_, "host"};
  request.stdin_text =
      verbs::to_json({verbs::ProbeShare{local_.job().home(), folder ? "" : share.mount}, {}});
  request.timeout = std::chrono::hours(24 * 365);
  const io::ProcessResult result = co_await io::run(std::move(request));
  patience_.cancel();
  local_.hanging_ = false;
  const json answer = wire::parsed_json(result.output);
  if (answer.is_object() && !answer.value("mounted", true)) co_return;  // released meanwhile
  const bool ok = answer.is_object() && answer.value("ok", false);
  const std::string why = answer.is_object() ? answer.value("error", "") : result.errors;
  said(ok || !wanted_() ? "" : place_ + " fails: " + why);
}

void ShareWatch::said(const std::string& words) {
  if (words == last_) return;
  if (words.empty())
    io::note(wire::event("share-answers"), spdlog::level::info, "{} answers again", place_);
  else
    io::note(wire::event("share-silent-now"), spdlog::level::err, "{}", words);
  last_ = words;
  say_(words);
}

}  // namespace spotter::act
