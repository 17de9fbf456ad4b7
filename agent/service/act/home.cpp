#include "agent/service/act/home.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/config/run.hpp"
#include "agent/decide/policy.hpp"
#include "agent/io/log.hpp"
#include "agent/service/act/trainer.hpp"
#include "agent/wire/events.hpp"

namespace spotter::act {
namespace {

using decide::EffectFailed;
using decide::Failure;
using nlohmann::json;
constexpr const char* the_home = "the home";
constexpr int most_tries = 4;  // of a write that another one of ours overtook

EffectFailed at_home(Failure failure, const std::string& words) {
  return {failure, false, decide::Detail(std::string(the_home) + ": " + words)};
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
  constexpr std::string_view fitting = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::erase_if(host, [&](char c) { return fitting.find(c) == fitting.npos; });
  return InstanceId("run-" + host.substr(0, 9) + printed("-%016zx", std::hash<std::string>()(of)));
}

}  // namespace

std::unique_ptr<Home> Trainer::home(Local& local) const {
  if (!job_.storage.in_bucket()) return nullptr;
  return std::make_unique<Home>(Home::Parts{job_, aws_, local, keys_, paths_.run_directory});
}

// A job must not begin from scratch if there is a home that has lost its head.
asio::awaitable<Home::Finding> Home::without_head(Duration limit) {
  s3::Request request = s3::list_request({at_.bucket, at_.key + "manifests/"}, "", "");
  request.query.emplace_back("max-keys", "1");
  const auto answer = co_await s3_.perform(std::move(request), "", limit);
  if (!answer) co_return tl::unexpected(failed_at_s3(answer.error(), the_home));
  const auto first = wire::decode_list(answer->body);
  if (!first) co_return tl::unexpected(at_home(Failure::Rejected, first.error().message));
  if (first->objects.empty()) co_return wire::SeenHead{};
  co_return tl::unexpected(
      at_home(Failure::Rejected, "the object " + wire::to_url(head_.where()) +
                                     " is gone, and what it names is there: put it back, or remove "
                                     "all below it"));
}

Home::Finding Home::judged(const Register::Version& version) const {
  const std::string url = wire::to_url(head_.where());
  auto head = wire::parse_head(version.text);
  if (!head) return tl::unexpected(at_home(Failure::Rejected, url + ": " + head.error().message));
  if (head->job != parts_.job.volumes_owner())
    return tl::unexpected(at_home(Failure::Rejected, url + " is of the job " + head->job));
  return wire::SeenHead{*std::move(head), version.etag, version.age()};
}

asio::awaitable<Home::Finding> Home::find(Duration limit) {
  const auto version = co_await head_.read(limit / 2);
  if (!version) co_return tl::unexpected(failed_at_s3(version.error(), the_home));
  if (version->exists()) co_return judged(*version);
  co_return co_await without_head(limit / 2);
}

void Home::count(const s3::Tally& requests) {
  counted_.writes += requests.writes;
  counted_.reads += requests.reads;
}

s3::Tally Home::requests() const {
  const s3::Tally ours = s3_.tally();
  return {counted_.writes + ours.writes - taken_.writes,
          counted_.reads + ours.reads - taken_.reads};
}

s3::Tally Home::take_requests() {
  const s3::Tally taken = requests();
  counted_ = {};
  taken_ = s3_.tally();
  if (std::exchange(committed_, false)) uncounted_ = {};
  uncounted_.writes += taken.writes;
  uncounted_.reads += taken.reads;
  return taken;
}

asio::awaitable<decide::HolderState> Home::state_of(InstanceId holder, Duration age,
                                                    Duration limit) {
  using State = decide::HolderState;
  const bool over = wire::is_lease_over(age);
  if (!holder.view().starts_with("i-")) co_return over ? State::Gone : State::Alive;
  wire::DescribeInstances lookup;
  lookup.filters = {{"instance-id", {holder.str()}}};
  const auto instances = co_await parts_.aws.call_all(std::move(lookup), limit);
  const auto seen = instances ? act::state_of(holder, instances->items) : State::Unknown;
  if (seen != State::Unknown) co_return seen;
  co_return over ? State::Gone : State::Alive;
}

Home::Answer Home::survey(Duration limit) {
  const Finding found = co_await find(limit / 2);
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
    seen.survey.epoch_holder = co_await state_of(holder, found->age, limit / 2);
  }
  co_return seen;
}

asio::awaitable<Home::Finding> Home::change(
    std::function<wire::HeadChange(const wire::SeenHead&)> made_of, Duration limit) {
  using Kind = wire::HeadChange::Kind;
  const Time until = io::now() + limit;
  for (int i = 0; i <= most_tries; ++i) {
    Finding before = co_await find(left_until(until));
    if (!before) co_return before;
    const wire::HeadChange made = made_of(*before);
    if (made.kind == Kind::Enough) co_return before;
    if (made.kind == Kind::Lost)
      co_return tl::unexpected(at_home(Failure::Conflict, "another epoch was written first"));
    const auto written =
        co_await head_.write(wire::to_json(made.next), before->etag, left_until(until));
    if (!written) co_return tl::unexpected(failed_write(written.error(), the_home));
    if (*written) co_return before;
    if (!made.again)
      co_return tl::unexpected(at_home(Failure::Conflict, "somebody else has written it"));
  }
  EffectFailed beaten = at_home(Failure::Unavailable, "others write its head again and again");
  beaten.unsettled = true;
  co_return tl::unexpected(beaten);
}

// The epoch before the one that was written, where that was ours and nobody came between.
std::uint32_t Home::held_before(const decide::Epoch& old, const InstanceId& holder) const {
  using State = decide::Epoch::State;
  if (old.holder != holder) return 0;
  // Our release is the epoch right behind the one that it ended: nobody came between, and what the
  // last write of that one could not send is of this history still.
  if (old.state == State::Released && old.number > 1) return old.number - 1;
  return old.state == State::Using ? old.number : 0;
}

// Taking the epoch ends the trainer of the one before: not for a folder that it may not use.
Home::Answer Home::write(decide::Epoch epoch, Duration limit) {
  const bool takes = epoch.state == decide::Epoch::State::Using;
  if (auto had = takes ? claim_folder() : std::nullopt) co_return *had;
  if (!takes) end_renewing();
  wire::HomeNames names{parts_.job.volumes_owner(), io::random_hex(32), parts_.job.token};
  if (!takes) {  // with the two of this write
    names.s3_writes = uncounted_.writes + requests().writes + 1;
    names.s3_reads = uncounted_.reads + requests().reads + 1;
  }
  auto writing = change(
      [epoch, names](const wire::SeenHead& seen) { return wire::to_epoch(seen, epoch, names); },
      limit);
  const Finding before = co_await std::move(writing);
  if (!before) co_return before.error();
  if (takes) count({before->head.s3_writes, before->head.s3_reads});
  epoch_ = epoch.number;
  held_ = held_before(before->head.epoch, epoch.holder);
  unsure_ = false;
  co_return decide::EpochWritten{};
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
  const auto offered = co_await parts_.keys.offer();
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
  const Time until = io::now() + limit;
  if (auto had = claim_folder()) co_return *had;  // which may not have been there before
  const Finding found = co_await find(std::min<Duration>(limit, decide::Policy().epoch_call));
  if (!found) co_return found.error();
  const decide::Epoch& now = found->head.epoch;
  if (!wire::is_held(found->head, {now.number, self()}))
    co_return at_home(Failure::Conflict, "another machine has taken it");
  if (auto had = claim_folder()) co_return *had;
  begin_renewing(co_await asio::this_coro::executor, now.number);
  const std::uint32_t held = now.number == epoch_ ? held_ : now.number;
  auto home = co_await described(now.number, found->head.id);
  if (!home) co_return home.error();
  const Time began = io::now();
  auto bringing = parts_.local.home_verb(
      verbs::BringHome{std::move(*home), found->head.manifest, held}, left_until(until));
  const auto brought = co_await std::move(bringing);
  if (!brought) co_return brought.error();
  const json answer = wire::parsed_json(*brought);
  count({count_of(answer, "s3_writes"), count_of(answer, "s3_reads")});
  for (const std::string& each : texts_of(answer, "torn"))
    io::note(wire::event("torn-checkpoint"), spdlog::level::warn, "torn checkpoint: {}", each);
  const double seconds = std::chrono::duration<double>(io::now() - began).count();
  const double megabytes = static_cast<double>(count_of(answer, "bytes")) / 1e6;
  spdlog::info("the home is here: {} files and {:.1f} MB came from {} in {:.1f} s",
               count_of(answer, "files"), megabytes, wire::to_url(at_), seconds);
  co_return decide::Mounted{answer.value("cleared", false)};
}

Home::Answer Home::keep(std::uint32_t epoch, bool whole, Duration limit, decide::HomeKept& kept) {
  using Outcome = decide::HomeKept::Outcome;
  const Time began = io::now(), until = began + limit;
  const auto call = [&] { return std::min(left_until(until), decide::Policy().epoch_call); };
  kept.outcome = Outcome::Failed;
  const Finding found = co_await find(call());
  if (!found) co_return found.error();
  if (epoch == 0) epoch = found->head.epoch.number;
  if (!wire::is_held(found->head, {epoch, self()})) {
    kept.outcome = Outcome::Lost;
    co_return at_home(Failure::Conflict, "another machine has taken it");
  }
  if (auto had = claim_folder()) co_return *had;
  begin_renewing(co_await asio::this_coro::executor, epoch);
  auto home = co_await described(epoch, found->head.id);
  if (!home) co_return home.error();
  auto keeping = parts_.local.home_verb(
      verbs::KeepHome{std::move(*home), found->head.manifest, whole, !unsure_}, left_until(until));
  const auto answered = co_await std::move(keeping);
  if (!answered) co_return answered.error();
  const json answer = wire::parsed_json(*answered);
  count({count_of(answer, "s3_writes"), count_of(answer, "s3_reads")});
  for (const std::string& each : texts_of(answer, "said"))
    if (said_.insert(each).second) spdlog::warn("{}", each);
  wire::Head content;
  content.manifest = wire::text_field(answer, "manifest");
  const json newest = answer.is_object() ? answer.value("newest", json()) : json();
  content.newest = newest.is_number_integer() ? newest.get<std::int64_t>() : -1;
  content.bytes = count_of(answer, "bytes");
  if (!wire::is_manifest_name(content.manifest))
    co_return at_home(Failure::Rejected, "the program that copies it gave no manifest");
  unsure_ = true;
  auto committing =
      change([content, holder = wire::HeadHolder{epoch, self()}](
                 const wire::SeenHead& seen) { return wire::to_content(seen, holder, content); },
             call());
  const Finding before = co_await std::move(committing);
  kept.newest = content.newest;
  kept.bytes = count_of(answer, "sent");
  kept.took = io::now() - began;
  unsure_ = !before;
  committed_ = before.has_value();
  if (before) {
    kept.outcome = Outcome::Committed;
    co_return decide::LedgerWritten{};
  }
  if (before.error().failure == Failure::Conflict) kept.outcome = Outcome::Lost;
  co_return before.error();
}

InstanceId Home::self() {
  const bool of_run = parts_.job.trainer.inherits;  // several may be on one instance
  if (!self_ && !of_run) self_ = instance_;
  if (!self_) self_ = name_of_run(parts_.run_directory);
  return self_;
}

// Only a conflict means that the home is lost; after another failure the next renewal shows it.
asio::awaitable<void> Home::renew(std::shared_ptr<Renewal> renewal) {
  for (;;) {
    renewal->timer.expires_after(wire::head_lease);
    boost::system::error_code woken;
    co_await renewal->timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
    if (renewal->over) co_return;
    auto renewing =
        change([holder = wire::HeadHolder{renewal->epoch, self()}](
                   const wire::SeenHead& seen) { return wire::to_renewed(seen, holder); },
               decide::Policy().epoch_call);
    const Finding before = co_await std::move(renewing);
    if (renewal->over || (!before && before.error().failure == Failure::Conflict)) co_return;
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
