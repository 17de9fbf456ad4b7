#include "agent/service/act/cloud.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "agent/aws/formats/s3.hpp"
#include "agent/base/text.hpp"
#include "agent/config/prepare.hpp"

namespace spotter::act {
namespace {

using decide::EffectFailed;
using decide::Failure;

constexpr std::array kConflicts = {"VolumeInUse",
                                   "IncorrectState",
                                   "IncorrectInstanceState",
                                   "InvalidVolume.ZoneMismatch",
                                   "IdempotentParameterMismatch",
                                   "InvalidSnapshot.InUse"};

// Limits of the account or of the zone: they end by themselves, or a person raises them.
constexpr std::array kPassing = {
    "ConcurrentSnapshotLimitExceeded", "SnapshotCreationPerVolumeRateExceeded",
    "InsufficientVolumeCapacity",      "VolumeLimitExceeded",
    "SnapshotLimitExceeded",           "MaxIOPSLimitExceeded",
    "PendingSnapshotLimitExceeded",    "AttachmentLimitExceeded"};

template <std::size_t N>
bool contains(const std::array<const char*, N>& codes, const std::string& code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

Failure classify(const CallError& error) {
  switch (error.kind) {
    case CallError::Kind::NotFound:
      return Failure::Missing;
    case CallError::Kind::Permission:
    case CallError::Kind::DryRun:
      return Failure::Refused;
    case CallError::Kind::Other:
      if (contains(kConflicts, error.code)) return Failure::Conflict;
      return contains(kPassing, error.code) ? Failure::Unavailable : Failure::Rejected;
    default:
      return Failure::Unavailable;
  }
}

// /dev/sdf .. /dev/sdp is what EC2 recommends for data volumes; a name whose attachment hung is not
// used again. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
std::string device_name(std::uint32_t attempt) {
  return std::string("/dev/sd") + static_cast<char>('f' + attempt % 11);
}

bool is_ours_or_reserved(const std::string& key) {
  return key.rfind("aws:", 0) == 0 || key.rfind(tag::prefix, 0) == 0;
}

// One look at the job's storage: its volumes, its snapshots, and whether their holders run.
using decide::SeenSnapshot;
using decide::SeenVolume;
using wire::value_of;

// 0: the tag was never written. None: it is no number.
std::optional<std::uint32_t> parsed(const wire::Tags& tags, const char* name) {
  const std::string text = value_of(tags, name);
  return text.empty() ? 0U : number_of_text<std::uint32_t>(text);
}

// REQUIRES: misread() finds nothing in these tags.
std::uint32_t number_of(const wire::Tags& tags, const char* name) {
  return parsed(tags, name).value_or(0);
}

// A value that is no number was changed by hand. Read as 0 it would make the newest volume the
// oldest, which is deleted; so nothing is decided until a person has corrected it.
std::optional<EffectFailed> misread(const std::string& id, const wire::Tags& tags) {
  for (const char* name : {tag::generation, tag::moves}) {
    if (parsed(tags, name)) continue;
    return EffectFailed{Failure::Rejected, false,
                        decide::Detail("the tag " + std::string(name) + " of " + id +
                                       " is no number: " + value_of(tags, name).substr(0, 40))};
  }
  return std::nullopt;
}

// The value that `pairs` has for it, else `otherwise`.
template <class From, class To, std::size_t count>
To mapped(From from, const std::pair<From, To> (&pairs)[count], To otherwise) {
  for (const auto& [each, to] : pairs)
    if (each == from) return to;
  return otherwise;
}

decide::VolumeState state_of(wire::VolumeState state) {
  using From = wire::VolumeState;
  using To = decide::VolumeState;
  static constexpr std::pair<From, To> pairs[] = {{From::Creating, To::Creating},
                                                  {From::Available, To::Available},
                                                  {From::Deleting, To::Deleting},
                                                  {From::Deleted, To::Deleting},
                                                  {From::Error, To::Error}};
  return mapped(state, pairs, To::InUse);  // unknown: it is not touched
}

decide::AttachmentState state_of(wire::AttachmentState state) {
  using From = wire::AttachmentState;
  using To = decide::AttachmentState;
  static constexpr std::pair<From, To> pairs[] = {{From::Attaching, To::Attaching},
                                                  {From::Attached, To::Attached},
                                                  {From::Detaching, To::Detaching},
                                                  {From::Detached, To::None}};
  return mapped(state, pairs, To::Busy);
}

decide::SnapshotState state_of(wire::SnapshotState state) {
  using From = wire::SnapshotState;
  if (state == From::Completed) return decide::SnapshotState::Completed;
  if (state == From::Error) return decide::SnapshotState::Failed;
  return state == From::Recoverable ? decide::SnapshotState::Recoverable
                                    : decide::SnapshotState::Pending;
}

decide::HolderState state_of(wire::InstanceState state) {
  if (state == wire::InstanceState::Terminated) return decide::HolderState::Gone;
  return state == wire::InstanceState::Stopped ? decide::HolderState::Stopped
                                               : decide::HolderState::Alive;
}

decide::Role role_of(const wire::Tags& tags) {
  const std::string role = value_of(tags, tag::role);
  if (role == "candidate") return decide::Role::Candidate;
  if (role == "verified") return decide::Role::Verified;
  return decide::Role::State;
}

decide::FenceTag fence_of(const wire::Tags& tags, const config::Job& job) {
  const std::string named = value_of(tags, tag::fence);
  if (named.empty()) return decide::FenceTag::None;
  const auto place = job.fenced_at();
  return place && wire::to_url(*place) == named ? decide::FenceTag::Ours : decide::FenceTag::Other;
}

SeenSnapshot seen(const wire::Snapshot& snapshot, wire::WallTime now) {
  SeenSnapshot result;
  result.id = snapshot.id;
  result.parent = snapshot.volume;
  result.lineage = VolumeId(value_of(snapshot.tags, tag::lineage));
  result.moves = number_of(snapshot.tags, tag::moves);
  result.generation = number_of(snapshot.tags, tag::generation);
  const std::string taken = value_of(snapshot.tags, tag::ahead);
  if (taken == tag::ahead_in_use) result.taken = decide::Taken::InUse;
  if (taken == tag::ahead_released) result.taken = decide::Taken::Released;
  result.gibibytes = snapshot.size_gib;
  result.age = std::chrono::floor<std::chrono::milliseconds>(now - snapshot.start_time);
  result.state = state_of(snapshot.state);
  result.started =
      std::chrono::duration_cast<std::chrono::seconds>(snapshot.start_time.time_since_epoch())
          .count();
  return result;
}

void add_holders(const std::vector<SeenVolume>& volumes, wire::Filter& holders) {
  for (const SeenVolume& volume : volumes) {
    if (volume.holder) holders.values.push_back(volume.holder.str());
  }
}

void set_holder_states(std::vector<SeenVolume>& volumes,
                       const std::vector<wire::Instance>& instances) {
  for (SeenVolume& volume : volumes) {
    if (!volume.holder) continue;
    volume.holder_state = decide::HolderState::Gone;  // EC2 lists a terminated instance for an hour
    for (const wire::Instance& instance : instances) {
      if (instance.id == volume.holder) volume.holder_state = state_of(instance.state);
    }
  }
}

}  // namespace

decide::HolderState state_of(const InstanceId& holder,
                             const std::vector<wire::Instance>& instances) {
  for (const wire::Instance& instance : instances) {
    if (instance.id == holder) return state_of(instance.state);
  }
  return decide::HolderState::Unknown;
}

EffectFailed as_failure(const CallError& error) {
  EffectFailed failed{classify(error), error.unsettled(), {}};
  std::string words = error.action.empty() ? "" : error.action + ": ";
  if (!error.code.empty()) words += error.code + ": ";
  failed.detail = decide::Detail(words + error.message);
  return failed;
}

Cloud::Answer Cloud::on(decide::AttachVolume effect, Duration limit) {
  wire::AttachVolume request{effect.volume, effect.instance, device_name(effect.attempt)};
  const auto result = co_await aws_.call(std::move(request), limit);
  if (!result && result.error().message.find("already in use") != std::string::npos) {
    EffectFailed taken = as_failure(result.error());
    taken.failure = Failure::Conflict;  // the device name, or the volume: look again
    co_return taken;
  }
  co_return accepted(result);
}

wire::Tags Cloud::tags_of_claim(std::uint32_t generation) const {
  wire::Tags tags{{tag::job, job_.volumes_owner()},
                  {tag::role, "state"},
                  {tag::generation, std::to_string(generation)}};
  add_fence(tags);
  return tags;
}

Cloud::Answer Cloud::on(const decide::PromoteVolume& it, Duration limit) {
  const config::Tag& found_by = job_.storage.ebs.tag;
  wire::Tags tags{{tag::role, "state"}};
  if (it.generation != 0) tags = tags_of_claim(it.generation);
  tags[found_by.key] = found_by.value;
  return set_tags(it.volume, std::move(tags), limit);
}

Cloud::Answer Cloud::on(const decide::MarkPrepared& it, Duration limit) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const std::string mark =
      config::digest_of(job_.prepare) + " " + std::to_string(now.time_since_epoch().count());
  return set_tags(it.volume, {{tag::prepared, mark}}, limit);
}

// A reader that has no such fence must not use the volume.
void Cloud::add_fence(wire::Tags& to) const {
  if (const auto place = job_.fenced_at()) to[tag::fence] = wire::to_url(*place);
}

// From its creation on, so that it is never seen without tags.
void Cloud::add_line(const VolumeId& lineage, std::uint32_t moves, wire::Tags& to) const {
  if (lineage) to[tag::lineage] = lineage.str();
  to[tag::moves] = std::to_string(moves);
  to[tag::storage] = config::storage_name(job_);
}

Cloud::Answer Cloud::on(decide::CreateSnapshot effect, Duration limit) {
  wire::CreateSnapshot request;
  request.volume = effect.volume;
  request.description = "Spotter: " + job_.volumes_owner() + ", for its move to another zone";
  request.tags = {{tag::job, job_.volumes_owner()},
                  {tag::role, "snapshot"},
                  {tag::parent, effect.volume.str()},
                  {tag::generation, std::to_string(effect.generation)}};
  add_line(effect.lineage, effect.moves, request.tags);
  if (effect.taken == decide::Taken::InUse) request.tags[tag::ahead] = tag::ahead_in_use;
  if (effect.taken == decide::Taken::Released) request.tags[tag::ahead] = tag::ahead_released;
  const auto result = co_await aws_.call(std::move(request), limit);
  if (!result) co_return as_failure(result.error());
  co_return decide::SnapshotStarted{result->id};
}

// EC2's limit, and what of it our own tags and the discovery tag need, of which some are written
// later. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions
constexpr std::size_t most_tags = 50;
constexpr std::size_t tags_of_ours = 14;

// Has the properties of its parent, except zone and content. Without a parent (recovery from a
// snapshot) it has EC2's defaults.
Cloud::Answer Cloud::on(decide::CreateVolume effect, Duration whole) {
  const Duration limit = whole / 2;  // two calls
  wire::CreateVolume request;
  request.zone = effect.zone;
  request.from = effect.snapshot;
  if (effect.rate != 0) request.initialization_rate = effect.rate;
  wire::DescribeVolumes lookup;
  lookup.filters = {{"volume-id", {effect.parent.str()}}};
  const auto parents = co_await aws_.call_all(std::move(lookup), limit);
  if (!parents) co_return as_failure(parents.error());
  std::size_t kept = 0;
  std::string left;
  for (const wire::Volume& parent : parents->items) {
    request.type = parent.type;
    request.size_gib = parent.size_gib;
    if (parent.type != "gp2") request.iops = parent.iops;  // gp2 derives it from the size
    request.throughput = parent.throughput;
    if (parent.encrypted) request.encrypted = true;
    request.kms_key = parent.kms_key;
    for (const auto& [key, value] : parent.tags) {
      const bool discovery = key == job_.storage.ebs.tag.key;
      const bool users = !discovery && !is_ours_or_reserved(key);
      const bool fits = users && kept < most_tags - tags_of_ours;
      if (fits) ++kept;
      if (users && !fits) left += (left.empty() ? "" : ", ") + key;
      if (fits || key == tag::format) request.tags[key] = value;
    }
  }
  if (!left.empty())
    spdlog::warn("EC2 takes {} tags of a volume: the copy does not get {}", most_tags, left);
  request.tags[tag::job] = job_.volumes_owner();
  request.tags[tag::role] = "candidate";
  request.tags[tag::parent] = effect.parent.str();
  request.tags[tag::generation] = std::to_string(effect.generation);
  add_line(effect.lineage, effect.moves, request.tags);
  add_fence(request.tags);
  request.client_token = "spotter-" + effect.snapshot.str() + "-" + effect.zone.str() + "-" +
                         std::to_string(effect.attempt);
  const auto result = co_await aws_.call(std::move(request), limit);
  if (!result) co_return as_failure(result.error());
  co_return decide::VolumeCreated{result->id};
}

SeenVolume seen(const wire::Volume& volume, const config::Job& job) {
  SeenVolume result;
  result.id = volume.id;
  result.zone = volume.zone;
  result.state = state_of(volume.state);
  const config::Tag& found_by = job.storage.ebs.tag;
  result.discoverable = value_of(volume.tags, found_by.key) == found_by.value;
  result.role = role_of(volume.tags);
  result.parent = VolumeId(value_of(volume.tags, tag::parent));
  result.lineage = VolumeId(value_of(volume.tags, tag::lineage));
  result.moves = number_of(volume.tags, tag::moves);
  result.generation = number_of(volume.tags, tag::generation);
  result.ours_to_format = value_of(volume.tags, tag::format) == "blank";
  result.done = value_of(volume.tags, tag::done) == "true";
  result.from = volume.from_snapshot;
  result.fence = fence_of(volume.tags, job);
  for (const wire::Attachment& attachment : volume.attachments) {
    if (attachment.state == wire::AttachmentState::Detached) continue;
    result.holder = attachment.instance;
    result.attached_as = ShortText<31>(attachment.device);
    result.attachment = state_of(attachment.state);
  }
  return result;
}

bool is_foreign(const wire::Tags& tags, const config::Job& job) {
  const std::string owner = value_of(tags, tag::job);
  if (!owner.empty() && owner != job.name.view() && owner != job.volumes_owner()) return true;
  const config::Tag& found_by = job.storage.ebs.tag;
  const bool named = value_of(tags, found_by.key) == found_by.value;
  return !named && config::is_of_other_storage(tags, job);
}

bool is_foreign(const wire::Volume& volume, const config::Job& job) {
  const bool nameless = value_of(volume.tags, tag::role) == tag::role_data &&
                        value_of(volume.tags, tag::storage).empty();
  return (nameless && volume.attachments.empty()) || is_foreign(volume.tags, job);
}

Cloud::Answer Cloud::on(decide::SurveyStorage effect, Duration whole) {
  // Each call may take what the ones before it have left: where one is slow, another is quick.
  const Time end = io::now() + whole;
  decide::Survey survey;
  const config::Tag& found_by = job_.storage.ebs.tag;
  const std::vector<wire::Filter> filters = {wire::tagged(found_by.key, found_by.value),
                                             wire::tagged(tag::job, job_.volumes_owner())};
  std::set<VolumeId> known;
  for (const wire::Filter& filter : filters) {
    wire::DescribeVolumes request;
    request.filters = {filter};
    const auto volumes = co_await aws_.call_all(std::move(request), left_until(end));
    if (!volumes) co_return as_failure(volumes.error());
    for (const wire::Volume& volume : volumes->items) {
      if (volume.state == wire::VolumeState::Deleted || is_foreign(volume, job_)) continue;
      if (!known.insert(volume.id).second) continue;
      if (auto failed = misread(volume.id.str(), volume.tags)) co_return *failed;
      const bool of_data = value_of(volume.tags, tag::role) == tag::role_data;
      cold_.erase(volume.id);
      if (volume.from_snapshot && !volume.initialization_rate) cold_.insert(volume.id);
      (of_data ? survey.data : survey.volumes).push_back(seen(volume, job_));
    }
  }
  wire::DescribeSnapshots request;
  // A user's backup may have the job's tag, too: only snapshots that we took for a move are ours.
  request.filters = {wire::tagged(tag::job, job_.volumes_owner()),
                     wire::tagged(tag::role, "snapshot")};
  const auto snapshots = co_await aws_.call_all(std::move(request), left_until(end));
  if (!snapshots) co_return as_failure(snapshots.error());
  for (const wire::Snapshot& snapshot : snapshots->items) {
    if (is_foreign(snapshot.tags, job_)) continue;
    if (auto failed = misread(snapshot.id.str(), snapshot.tags)) co_return *failed;
    survey.snapshots.push_back(seen(snapshot, aws_.aws_time()));
  }

  wire::Filter holders{"instance-id", {}};
  if (fence_) {
    survey.epoch_line = decide::line_in(survey, effect.line);
    const auto epoch =
        co_await fence_->read(survey.epoch_line, std::min<Duration>(left_until(end), whole / 5));
    if (!epoch) co_return epoch.error();
    survey.epoch = *epoch;
    if (epoch->holder) holders.values.push_back(epoch->holder.str());
  }
  add_holders(survey.volumes, holders);
  add_holders(survey.data, holders);
  if (!holders.values.empty()) {
    wire::DescribeInstances lookup;
    lookup.filters = {holders};
    const auto instances = co_await aws_.call_all(std::move(lookup), left_until(end));
    if (!instances) co_return as_failure(instances.error());
    set_holder_states(survey.volumes, instances->items);
    set_holder_states(survey.data, instances->items);
    survey.epoch_holder = state_of(survey.epoch.holder, instances->items);
  }
  co_return decide::StorageSurveyed{std::move(survey)};
}

asio::awaitable<std::vector<bool>> Cloud::experiments_in(Zone zone, std::size_t count,
                                                         Duration limit) {
  const config::Tag& found_by = job_.storage.ebs.tag;
  const std::string prefix = found_by.value + config::before_index;
  wire::DescribeVolumes request;
  request.filters = {{"tag:" + found_by.key, {wire::exactly(prefix) + "*"}},
                     {"availability-zone", {zone.str()}}};
  const auto volumes = co_await aws_.call_all(std::move(request), limit);
  if (!volumes) co_return std::vector<bool>();
  std::vector<bool> there(count, false);
  for (const wire::Volume& volume : volumes->items) {
    const std::string value = value_of(volume.tags, found_by.key);
    if (!value.starts_with(prefix)) continue;
    const auto index = wire::parse_count(std::string_view(value).substr(prefix.size()));
    if (index && *index < count) there[*index] = true;
  }
  co_return there;
}

asio::awaitable<Result<std::string, EffectFailed>> read_secret(AwsClient& aws,
                                                               config::SecretReference reference,
                                                               Duration limit) {
  if (reference.kind == config::SecretReference::Kind::Parameter) {
    wire::GetParameter parameter{reference.target};
    auto value = co_await aws.call(std::move(parameter), limit);
    if (value) co_return std::move(*value);
    EffectFailed failed = as_failure(value.error());
    failed.unsettled = false;  // nothing was changed
    failed.detail = decide::Detail(config::describe(reference) + ": " + value.error().message);
    co_return tl::unexpected(failed);
  }
  auto resolved = config::resolve(reference, config::variables_of_process());
  if (!resolved)
    co_return tl::unexpected(EffectFailed{decide::Failure::TrainerUnstartable, false,
                                          decide::Detail(resolved.error().message)});
  if (!resolved->warning.empty()) spdlog::warn("{}", resolved->warning);
  co_return std::move(resolved->value);
}

}  // namespace spotter::act
