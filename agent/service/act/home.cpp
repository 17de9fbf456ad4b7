#include "agent/service/act/home.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/base/clock_text.hpp"
#include "agent/base/json.hpp"
#include "agent/decide/policy.hpp"
#include "agent/io/kernel.hpp"
#include "agent/io/log.hpp"
#include "agent/service/act/at_s3.hpp"
#include "agent/service/act/trainer.hpp"
#include "agent/supervise/run_directory.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {
namespace {

using decide::EffectFailed;
using decide::Failure;
using nlohmann::json;
constexpr const char* the_home = "the home";
constexpr int most_tries = 4;  // of a write that another one of ours overtook

EffectFailed at_home(Failure failure, const std::string& words) {
  EffectFailed failed;
  failed.failure = failure;
  failed.detail = decide::Detail(std::string(the_home) + ": " + words);
  return failed;
}

// The program that answered has the trainer's rights: nothing in its answer is believed.
std::uint64_t count_of(const json& answer, const char* key) {
  const auto found = answer.find(key);
  const bool is_count = found != answer.end() && found->is_number_unsigned();
  return is_count ? found->get<std::uint64_t>() : 0;
}

std::vector<std::string> texts_of(const json& answer, const char* key) {
  std::vector<std::string> texts;
  const auto found = answer.find(key);
  if (found == answer.end() || !found->is_array()) return texts;
  for (const json& each : *found)
    if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

}  // namespace

std::unique_ptr<Home> Trainer::home(Local& local) const {
  if (!job_.storage.in_bucket()) return nullptr;
  return std::make_unique<Home>(Home::Parts{job_, aws_, local, keys_, paths_.run_directory});
}

Home::Finding Home::read_head(s3::Client& client) const {
  const wire::S3Location& where = head_;
  const auto answer = client.perform({.bucket = where.bucket, .key = where.key});
  if (!answer && answer.error().kind == s3::Failure::Kind::NoSuchKey) {
    // A job must not begin from scratch if there is a home that has lost its head.
    bool any = false;
    s3::Listing first;
    first.page = [&](const std::vector<wire::ListedObject>& found) {
      any = !found.empty();
      return false;
    };
    const auto listed = s3::list(client, {at_.bucket, at_.key + "manifests/"}, first);
    if (!listed) return tl::unexpected(failed_at_s3(listed.error(), the_home));
    if (!any) return wire::SeenHead{};
    return tl::unexpected(at_home(
        Failure::Rejected, "the object " + wire::to_url(where) +
                               " is gone, and what it names is there: put it back, or remove "
                               "all below it"));
  }
  if (!answer) return tl::unexpected(failed_at_s3(answer.error(), the_home));
  auto head = wire::parse_head(answer->body);
  const std::string etag(answer->header("etag"));
  const auto date = wire::parse_http_date(answer->header("date"));
  const auto modified = wire::parse_http_date(answer->header("last-modified"));
  if (!head || etag.empty())
    return tl::unexpected(
        at_home(Failure::Rejected,
                wire::to_url(where) + ": " + (head ? "S3 says no ETag" : head.error().message)));
  if (head->job != parts_.job.volumes_owner())
    return tl::unexpected(
        at_home(Failure::Rejected, wire::to_url(where) + " is of the job " + head->job));
  wire::SeenHead found{*std::move(head), etag, Duration(0)};
  if (date && modified && *date > *modified)
    found.age = std::chrono::duration_cast<Duration>(*date - *modified);
  return found;
}

Home::Finding Home::with_client(Duration limit,
                                const std::function<Finding(s3::Client&)>& work) const {
  s3::Client client(s3_settings(limit));
  Finding found = work(client);
  count(client.tally());
  return found;
}

void Home::count(const s3::Tally& requests) const {
  writes_ += requests.writes;
  reads_ += requests.reads;
}

s3::Tally Home::take_requests() {
  const s3::Tally taken{writes_.exchange(0), reads_.exchange(0)};
  if (std::exchange(committed_, false)) uncounted_ = {};
  uncounted_.writes += taken.writes;
  uncounted_.reads += taken.reads;
  return taken;
}

asio::awaitable<Home::Finding> Home::find(Duration limit) {
  std::function<Finding()> work = [this, limit] {
    return with_client(limit, [this](s3::Client& client) { return read_head(client); });
  };
  auto reading = apart_.run(std::move(work), limit, the_home);
  auto answer = co_await std::move(reading);
  if (!answer) co_return tl::unexpected(answer.error());
  co_return std::move(*answer);
}

asio::awaitable<decide::HolderState> Home::state_of(InstanceId holder, Duration age,
                                                    Duration limit) {
  using State = decide::HolderState;
  const bool over = wire::is_lease_over(age);
  if (!holder.view().starts_with("i-")) co_return over ? State::Gone : State::Alive;
  wire::DescribeInstances lookup;
  lookup.filters = {{"instance-id", {holder.str()}}};
  auto look = parts_.aws.call_all(std::move(lookup), limit);
  const auto instances = co_await std::move(look);
  if (instances) {
    for (const wire::Instance& instance : instances->items) {
      if (instance.id != holder) continue;
      if (instance.state == wire::InstanceState::Terminated) co_return State::Gone;
      if (instance.state == wire::InstanceState::Stopped) co_return State::Stopped;
      co_return State::Alive;
    }
  }
  co_return over ? State::Gone : State::Alive;
}

Home::Answer Home::survey(Duration limit) {
  auto finding = find(limit / 2);
  const Finding found = co_await std::move(finding);
  if (!found) co_return found.error();
  decide::StorageSurveyed seen;
  seen.survey.epoch = found->head.epoch;
  seen.survey.epoch_self = self();
  seen.survey.later_claim = wire::is_of_later_claim(*found, parts_.job.token);
  const InstanceId holder = found->head.epoch.holder;
  const bool held = found->head.epoch.state == decide::Epoch::State::Using && holder != self();
  if (const auto gone = wire::is_gone_by_claim(*found, parts_.job.token); held && gone) {
    seen.survey.epoch_holder = *gone ? decide::HolderState::Gone : decide::HolderState::Alive;
  } else if (held) {
    auto looking = state_of(holder, found->age, limit / 2);
    seen.survey.epoch_holder = co_await std::move(looking);
  }
  co_return seen;
}

Home::Finding Home::change(const std::function<wire::HeadChange(const wire::SeenHead&)>& made_of,
                           Duration limit) const {
  return with_client(limit, [&](s3::Client& client) { return change_by(client, made_of); });
}

Home::Finding Home::change_by(
    s3::Client& client,
    const std::function<wire::HeadChange(const wire::SeenHead&)>& made_of) const {
  using Kind = wire::HeadChange::Kind;
  for (int i = 0;; ++i) {
    Finding before = read_head(client);
    if (!before) return before;
    const wire::HeadChange made = made_of(*before);
    if (made.kind == Kind::Enough) return before;
    if (made.kind == Kind::Overtaken)
      return tl::unexpected(at_home(Failure::Unavailable, "a later commit has begun"));
    if (made.kind == Kind::Lost)
      return tl::unexpected(at_home(Failure::Conflict, "another epoch was written first"));
    const s3::Condition condition{.absent = before->etag.empty(), .etag = before->etag};
    const auto written = s3::put(client, head_, wire::to_json(made.next), condition);
    if (written) return before;
    EffectFailed why = failed_at_s3(written.error(), the_home);
    if (why.failure == Failure::Conflict && made.again && i < most_tries) continue;
    if (made.again && why.failure == Failure::Conflict) why.failure = Failure::Unavailable;
    why.unsettled = why.failure == Failure::Unavailable;
    return tl::unexpected(why);
  }
}

Home::Replaced Home::replace(const decide::Epoch& epoch, const s3::Tally& uncounted,
                             Duration limit) const {
  const wire::HomeNames names{parts_.job.volumes_owner(), io::random_hex(32), parts_.job.token,
                              uncounted.writes, uncounted.reads};
  const auto next = [&](const wire::SeenHead& seen) { return wire::to_epoch(seen, epoch, names); };
  const Finding before = change(next, limit);
  if (!before) return {before.error()};
  if (epoch.state == decide::Epoch::State::Using)
    count({before->head.s3_writes, before->head.s3_reads});
  const decide::Epoch& old = before->head.epoch;
  using State = decide::Epoch::State;
  if (old.holder != epoch.holder) return {decide::EpochWritten{}, 0};
  // Our release is the epoch right behind the one that it ended: nobody came between, and what the
  // last write of that one could not send is of this history still.
  if (old.state == State::Released && old.number > 1)
    return {decide::EpochWritten{}, old.number - 1};
  return {decide::EpochWritten{}, old.state == State::Using ? old.number : 0};
}

// Taking the epoch ends the trainer of the one before: not for a folder that it may not use.
Home::Answer Home::write(decide::Epoch epoch, Duration limit) {
  const bool takes = epoch.state == decide::Epoch::State::Using;
  if (auto had = takes ? claim_folder() : std::nullopt) co_return *had;
  if (!takes) end_renewing();
  // With the two of this write.
  const s3::Tally uncounted =
      takes ? s3::Tally{}
            : s3::Tally{uncounted_.writes + writes_ + 1, uncounted_.reads + reads_ + 1};
  std::function<Replaced()> work = [this, epoch, uncounted, limit] {
    return replace(epoch, uncounted, limit);
  };
  auto writing = apart_.run(std::move(work), limit, the_home);
  auto answer = co_await std::move(writing);
  if (!answer) co_return answer.error();
  if (std::holds_alternative<decide::EpochWritten>(answer->what)) {
    epoch_ = epoch.number;
    held_ = answer->held;
    unsure_ = false;
  }
  co_return std::move(answer->what);
}

// The trainer's identity at AWS reads and writes the files; the agent's the head.
asio::awaitable<Result<verbs::Home, EffectFailed>> Home::described(std::uint32_t epoch,
                                                                   std::string id) {
  const config::Job& job = parts_.job;
  verbs::Home home{.folder = job.home(),
                   .job = job.volumes_owner(),
                   .checkpoints = job.checkpoints.directory,
                   .files = job.checkpoints.files,
                   .folders = job.checkpoints.folders,
                   .result = job.trainer.result,
                   .log = job.metrics ? job.metrics->file() : "",
                   .at = wire::to_url(at_),
                   .epoch = epoch,
                   .id = std::move(id),
                   .identity = {}};
  auto offering = parts_.keys.offer();
  const auto offered = co_await std::move(offering);
  if (!offered)
    co_return tl::unexpected(
        at_home(Failure::Unavailable, "no keys of the trainer's role: " + offered.error().message));
  if (!offered->empty()) {
    for (const char* name : identity_variables) home.identity.push_back(std::string(name) + "=");
    home.identity.emplace_back("AWS_EC2_METADATA_DISABLED=true");
  }
  for (const auto& [name, value] : *offered) home.identity.push_back(name + "=" + value);
  co_return home;
}

// Two agents of one machine may have different run directories; the other may be about to end.
std::optional<EffectFailed> Home::claim_folder() {
  const std::string path = parts_.job.home();
  struct stat had {};
  struct stat is {};
  const bool same = folder_ && ::fstat(folder_.get(), &had) == 0 &&
                    ::stat(path.c_str(), &is) == 0 && had.st_dev == is.st_dev &&
                    had.st_ino == is.st_ino;
  if (same) return std::nullopt;  // else a disk was mounted there since
  io::Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder && ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return at_home(Failure::Unavailable,
                   "another agent has " + path + ": end it, or give this one its own cache");
  folder_ = std::move(folder);
  return std::nullopt;
}

Home::Answer Home::bring(Duration limit) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + limit;
  if (auto had = claim_folder()) co_return *had;  // which may not have been there before
  auto finding = find(std::min<Duration>(limit, decide::Policy().epoch_call));
  const Finding found = co_await std::move(finding);
  if (!found) co_return found.error();
  const decide::Epoch& now = found->head.epoch;
  if (!wire::is_held(found->head, {now.number, self()}))
    co_return at_home(Failure::Conflict, "another machine has taken it");
  if (auto had = claim_folder()) co_return *had;
  begin_renewing(co_await asio::this_coro::executor, now.number);
  const std::uint32_t held = now.number == epoch_ ? held_ : now.number;
  auto describing = described(now.number, found->head.id);
  auto home = co_await std::move(describing);
  if (!home) co_return home.error();
  const auto began = Clock::now();
  auto bringing = parts_.local.home_verb(
      verbs::BringHome{std::move(*home), found->head.manifest, held},
      std::max(std::chrono::duration_cast<Duration>(until - began), Duration(1)));
  const auto brought = co_await std::move(bringing);
  if (!brought) co_return brought.error();
  const json answer = json::parse(*brought, nullptr, false);
  count({count_of(answer, "s3_writes"), count_of(answer, "s3_reads")});
  for (const std::string& each : texts_of(answer, "torn"))
    io::note(wire::event("torn-checkpoint"), spdlog::level::warn, "torn checkpoint: {}", each);
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  const double megabytes = static_cast<double>(count_of(answer, "bytes")) / 1e6;
  spdlog::info("the home is here: {} files and {:.1f} MB came from {} in {:.1f} s",
               count_of(answer, "files"), megabytes, wire::to_url(at_), seconds);
  co_return decide::Mounted{answer.value("cleared", false)};
}

decide::Happening Home::commit(std::uint64_t turn, const wire::HeadHolder& holder,
                               const wire::Head& content, Duration limit) const {
  const auto next = [&](const wire::SeenHead& seen) {
    return wire::to_content(seen, holder, content, turn != turn_);
  };
  const Finding before = change(next, limit);
  if (!before) return before.error();
  return decide::LedgerWritten{};
}

Home::Answer Home::keep(std::uint32_t epoch, bool whole, Duration limit, decide::HomeKept& kept) {
  using Clock = std::chrono::steady_clock;
  using Outcome = decide::HomeKept::Outcome;
  const auto began = Clock::now();
  const auto left = [&] {
    return std::max(std::chrono::duration_cast<Duration>(began + limit - Clock::now()),
                    Duration(1));
  };
  const auto call = [&] { return std::min<Duration>(left(), decide::Policy().epoch_call); };
  kept.outcome = Outcome::Failed;
  auto finding = find(call());
  const Finding found = co_await std::move(finding);
  if (!found) co_return found.error();
  if (epoch == 0) epoch = found->head.epoch.number;
  if (!wire::is_held(found->head, {epoch, self()})) {
    kept.outcome = Outcome::Lost;
    co_return at_home(Failure::Conflict, "another machine has taken it");
  }
  if (auto had = claim_folder()) co_return *had;
  begin_renewing(co_await asio::this_coro::executor, epoch);
  auto describing = described(epoch, found->head.id);
  auto home = co_await std::move(describing);
  if (!home) co_return home.error();
  auto keeping = parts_.local.home_verb(
      verbs::KeepHome{std::move(*home), found->head.manifest, whole, !unsure_}, left());
  const auto answered = co_await std::move(keeping);
  if (!answered) co_return answered.error();
  const json answer = json::parse(*answered, nullptr, false);
  count({count_of(answer, "s3_writes"), count_of(answer, "s3_reads")});
  for (const std::string& each : texts_of(answer, "said")) spdlog::warn("{}", each);
  wire::Head content;
  content.manifest = wire::text_field(answer, "manifest");
  const json newest = answer.is_object() ? answer.value("newest", json()) : json();
  content.newest = newest.is_number_integer() ? newest.get<std::int64_t>() : -1;
  content.bytes = count_of(answer, "bytes");
  if (!wire::is_manifest_name(content.manifest))
    co_return at_home(Failure::Rejected, "the program that copies it gave no manifest");
  std::function<decide::Happening()> work = [this, turn = ++turn_, content, limit = call(),
                                             holder = wire::HeadHolder{epoch, self()}] {
    return commit(turn, holder, content, limit);
  };
  unsure_ = true;
  auto committing = apart_.run(std::move(work), call(), the_home);
  auto committed = co_await std::move(committing);
  decide::Happening what = committed ? std::move(*committed) : decide::Happening(committed.error());
  kept.newest = content.newest;
  kept.bytes = count_of(answer, "sent");
  kept.took = std::chrono::duration_cast<Duration>(Clock::now() - began);
  const auto* why = std::get_if<EffectFailed>(&what);
  unsure_ = why != nullptr;
  committed_ = why == nullptr;
  if (committed_) kept.outcome = Outcome::Committed;
  if (why != nullptr && why->failure == Failure::Conflict) kept.outcome = Outcome::Lost;
  co_return what;
}

namespace {

// The holder of a home, and its lease: renewed once a minute, also while files are on their way or
// code is fetched, since a holder that is no instance is Gone without it.

// Drawn once for each run directory, whose next agent is the same holder. The machine's name would
// not do: the pod that replaces another has its name, and that one may run on.
std::string session_in(const std::string& run_directory) {
  const std::string path = run_directory + "/session";
  std::string session;
  std::ifstream(path) >> session;
  if (wire::is_home_id(session)) return session;
  session = io::random_hex(32);
  if (auto kept = io::replace_file(path, session + "\n"); !kept)
    spdlog::warn("{}: if this agent is killed, the next one waits until its lease is over",
                 kept.error().message());
  return session;
}

InstanceId name_of_run(const std::string& run_directory) {
  std::string host = command::host_name();
  const std::string of = host + "/" + session_in(run_directory);
  const auto fits = [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  std::erase_if(host, [&](char c) { return !fits(static_cast<unsigned char>(c)); });
  char hash[20];
  std::snprintf(hash, sizeof hash, "-%016zx", std::hash<std::string>()(of));
  return InstanceId(("run-" + host.substr(0, 9)) + hash);
}

}  // namespace

InstanceId Home::self() {
  const bool of_run = parts_.job.trainer.inherits;  // several may be on one instance
  if (!self_ && !of_run) self_ = instance_;
  if (!self_) self_ = name_of_run(parts_.run_directory);
  return self_;
}

// Only a conflict means that the home is lost; after another failure the next renewal shows it.
bool Home::touch(const wire::HeadHolder& holder, Duration limit) const {
  const auto renewed = [&](const wire::SeenHead& seen) { return wire::to_renewed(seen, holder); };
  const Finding before = change(renewed, limit);
  return before || before.error().failure != decide::Failure::Conflict;
}

asio::awaitable<void> Home::renew(std::shared_ptr<Renewal> renewal) {
  for (;;) {
    renewal->timer.expires_after(wire::head_lease);
    boost::system::error_code woken;
    co_await renewal->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (renewal->over) co_return;
    const Duration limit = decide::Policy().epoch_call;
    std::function<bool()> work = [this, limit, holder = wire::HeadHolder{renewal->epoch, self()}] {
      return touch(holder, limit);
    };
    auto touching = apart_.run(std::move(work), limit, "the home");
    const auto ours = co_await std::move(touching);
    if (renewal->over || (ours && !*ours)) co_return;
  }
}

void Home::begin_renewing(const asio::any_io_executor& executor, std::uint32_t epoch) {
  if (renewal_ && renewal_->epoch == epoch) return;
  end_renewing();
  renewal_ = std::make_shared<Renewal>(executor);
  renewal_->epoch = epoch;
  asio::co_spawn(executor, renew(renewal_), asio::detached);
}

void Home::end_renewing() {
  if (!renewal_) return;
  renewal_->over = true;
  renewal_->timer.cancel();
  renewal_.reset();
}

}  // namespace spotter::act
