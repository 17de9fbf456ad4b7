#include "tests/world/volumes.hpp"

#include <algorithm>

#include "tests/world/fleets.hpp"
#include "tests/world/instances.hpp"

namespace spotter::world {

namespace {

constexpr Range forever{Duration{365LL * 86400000}, Duration{365LL * 86400000}};

struct Limits {
  std::string_view type;
  std::uint64_t least;
  std::uint64_t most;
  int least_iops = 0;  // 0: IOPS cannot be given
  int most_iops = 0;
  int per_gibibyte = 0;  // IOPS, at most
};
// As of September 2025. https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html,
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html, Size and Iops
constexpr Limits limits[] = {{"gp2", 1, 16384},
                             {"gp3", 1, 65536, 3000, 80000, 500},
                             {"io1", 4, 16384, 100, 64000, 50},
                             {"io2", 4, 65536, 100, 256000, 1000},
                             {"st1", 125, 16384},
                             {"sc1", 125, 16384},
                             {"standard", 1, 1024}};
// MiB/s of gp3.
constexpr int least_throughput = 125, most_throughput = 2000, iops_per_mebibyte = 4;

tl::unexpected<ApiError> out_of_range(const std::string& what, int value, int least, int most) {
  const bool low = value < least;
  return refusal("InvalidParameterValue", "Volume " + what + " of " + std::to_string(value) +
                                              " is too " +
                                              (low ? "low; minimum is " : "high; maximum is ") +
                                              std::to_string(low ? least : most) + ".");
}

Expected<void> check_speeds(const VolumeShape& shape, const Limits& limit) {
  if (shape.iops && (*shape.iops < limit.least_iops || *shape.iops > limit.most_iops))
    return out_of_range("iops", *shape.iops, limit.least_iops, limit.most_iops);
  const int iops = shape.iops.value_or(limit.least_iops);
  const auto most = shape.gibibytes.value_or(limit.most) * limit.per_gibibyte;
  if (shape.iops && static_cast<std::uint64_t>(iops) > std::max<std::uint64_t>(most, 3000) &&
      shape.type == "gp3")
    return refusal("InvalidParameterValue",
                   "Iops to volume size ratio is too high; maximum is 500 IOPS per GiB");
  if (shape.iops && static_cast<std::uint64_t>(iops) > most && shape.type != "gp3")
    return refusal("InvalidParameterValue", "Iops to volume size ratio is too high; maximum is " +
                                                std::to_string(limit.per_gibibyte) +
                                                " IOPS per GiB");
  if (!shape.throughput) return {};
  if (*shape.throughput < least_throughput || *shape.throughput > most_throughput)
    return out_of_range("throughput", *shape.throughput, least_throughput, most_throughput);
  if (*shape.throughput * iops_per_mebibyte > iops)
    return refusal("InvalidParameterValue",
                   "Throughput (MiBps) to iops ratio is too high; maximum is 0.250000 MiBps per "
                   "iops");
  return {};
}

tl::unexpected<ApiError> in_use(const Volume& volume) {
  return refusal("VolumeInUse", volume.id.str() + " is already attached to an instance");
}

std::string digest_of(const Tags& tags) {
  std::string all;
  for (const auto& [key, value] : tags) all += "|" + std::to_string(key.size()) + key + "=" + value;
  return all;
}

// The parts of a request that must be equal for a ClientToken to mean the same call.
std::string digest(const CreateVolume& request) {
  return request.zone.str() + '|' + std::to_string(request.gibibytes.value_or(0)) + '|' +
         (request.snapshot ? request.snapshot->str() : "") + '|' + request.type + '|' +
         std::to_string(request.iops.value_or(0)) + '|' +
         std::to_string(request.throughput.value_or(0)) + '|' +
         std::to_string(request.initialization_rate.value_or(0)) + '|' +
         (request.encrypted ? "e|" : "|") + request.key + digest_of(request.tags);
}

// VolumeInitializationRate: "This parameter is supported only for volumes created from snapshots",
// "100 - 300 MiB/s".
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html
Expected<void> check_rate(const CreateVolume& request) {
  const std::optional<int>& rate = request.initialization_rate;
  if (!rate) return {};
  if (!request.snapshot) {
    return refusal("InvalidParameterCombination",
                   "The parameter VolumeInitializationRate is only supported for volumes created "
                   "from snapshots.");
  }
  if (*rate >= 100 && *rate <= 300) return {};
  return refusal("InvalidParameterValue", "Invalid volume initialization rate " +
                                              std::to_string(*rate) +
                                              ". It must be from 100 to 300 MiB/s.");
}

}  // namespace

Expected<void> check_shape(const VolumeShape& shape) {
  const auto limit = std::ranges::find(limits, shape.type, &Limits::type);
  if (limit == std::end(limits))
    return refusal("UnknownVolumeType", "Unsupported volume type '" + shape.type + "'");
  const auto& size = shape.gibibytes;
  if (size && (*size < limit->least || *size > limit->most))
    return refusal(
        "InvalidParameterValue",
        "Volume of " + std::to_string(*size) + "GiB is out of range for volume type " + shape.type);
  if ((shape.type == "io1" || shape.type == "io2") && !shape.iops)
    return refusal("MissingParameter",
                   "The parameter iops must be specified for " + shape.type + " volumes.");
  if ((shape.iops && limit->least_iops == 0) || (shape.throughput && shape.type != "gp3"))
    return refusal(
        "InvalidParameterCombination",
        "The parameter iops or throughput is not supported for " + shape.type + " volumes.");
  return check_speeds(shape, *limit);
}

// gp3 3000 and 125 MiB/s, gp2 3 a GiB within 100..16000 (EBS volume types page).
void complete_shape(VolumeShape& shape) {
  if (shape.type == "gp3" && !shape.iops) shape.iops = 3000;
  if (shape.type == "gp3" && !shape.throughput) shape.throughput = least_throughput;
  if (shape.type == "gp2")
    shape.iops = std::clamp(static_cast<int>(*shape.gibibytes) * 3, 100, 16000);
}

// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
bool is_device_name(std::string_view name) {
  if (name.starts_with("/dev/")) name.remove_prefix(5);
  const bool xen = name.starts_with("xvd");
  if (!xen && !name.starts_with("sd") && !name.starts_with("hd")) return false;
  name.remove_prefix(xen ? 3 : 2);
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto letters = std::ranges::find_if_not(name, letter) - name.begin();
  if (letters < 1 || letters > (xen ? 2 : 1)) return false;
  name.remove_prefix(static_cast<std::size_t>(letters));
  return name.empty() ||
         (name.size() < 3 && name[0] > '0' && name.find_first_not_of("0123456789") == name.npos);
}

Volume& Volumes::change(const VolumeId& id) {
  return cloud_.volumes.change(id, cloud_.now, cloud_.lag());
}

// A volume that the API does not know yet cannot be used, either.
Expected<Volume*> Volumes::reach(const VolumeId& id) {
  Volume* volume = cloud_.volumes.find(id);
  if (!volume || volume->state == VolumeState::Deleted || !cloud_.volumes.seen(id, cloud_.now)) {
    return refusal("InvalidVolume.NotFound", "The volume '" + id.str() + "' does not exist.");
  }
  return volume;
}

Expected<void> Volumes::check_new(const CreateVolume& request) const {
  if (!cloud_.has_zone(request.zone)) {
    return refusal("InvalidZone.NotFound", "The zone '" + request.zone.str() + "' does not exist.");
  }
  if (!request.gibibytes && !request.snapshot) {
    return refusal("MissingParameter", "The request must contain the parameter size or snapshotId");
  }
  if (auto fits = check_shape({request.type, request.gibibytes, request.iops, request.throughput});
      !fits)
    return fits;
  const bool provisioned = request.type == "io1" || request.type == "io2";
  if (request.multi_attach && !provisioned)
    return refusal("InvalidParameterCombination",
                   "The parameter MultiAttachEnabled is only supported for io1 and io2 volumes.");
  if (request.multi_attach)
    return refusal("UnsupportedOperation",
                   "The emulator does not honour MultiAttachEnabled: one instance has a volume.");
  if (!request.key.empty() && !request.encrypted) {
    return refusal("InvalidParameterDependency",
                   "The parameter KmsKeyId requires the parameter Encrypted to be set.");
  }
  if (auto rate = check_rate(request); !rate) return rate;
  if (!request.snapshot) return {};
  const Snapshot* snapshot = cloud_.snapshots.seen(*request.snapshot, cloud_.now);
  if (!snapshot || snapshot->state == SnapshotState::Deleted) {
    return refusal("InvalidSnapshot.NotFound",
                   "The snapshot '" + request.snapshot->str() + "' does not exist.");
  }
  if (snapshot->state != SnapshotState::Completed) {
    return refusal("IncorrectState", "Snapshot is in invalid state - pending");
  }
  if (request.gibibytes && *request.gibibytes < snapshot->gibibytes) {
    return refusal("InvalidParameterValue",
                   "Volume size must be at least the size of the snapshot, " +
                       std::to_string(snapshot->gibibytes) + "GiB");
  }
  return {};
}

void Volumes::make_cold(Volume& volume, const Snapshot& source, std::optional<int> rate) {
  const ColdSettings& cold = cloud_.settings.cold;
  const double drawn = cloud_.cold_random.part() * (cold.request_most - cold.request_least);
  volume.cold = ColdBlocks{
      .request = cold.request_least + drawn, .gibibytes = source.gibibytes, .since = cloud_.now};
  volume.initialization_rate = rate;
  const auto gibibytes = static_cast<double>(source.gibibytes);
  cloud_.rate_dollars += price_of_rate(cold, rate.value_or(0), gibibytes);
}

// "Ensuring idempotency": the same token with the same parameters answers the first one's result.
// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
Expected<Volume> Volumes::create(const CreateVolume& request) {
  const std::string& token = request.client_token;
  if (const auto earlier = cloud_.volume_tokens.find(token);
      !token.empty() && earlier != cloud_.volume_tokens.end()) {
    const Volume* made = cloud_.volumes.find(earlier->second);
    // "burned": a creation that failed afterwards keeps its token for hours.
    if (cloud_.volume_token_digests[token] != digest(request) ||
        made->state == VolumeState::Deleted) {
      return refusal("IdempotentParameterMismatch",
                     "The client token '" + token + "' was used with other parameters.");
    }
    return *made;
  }
  if (auto checked = check_new(request); !checked) return tl::unexpected(checked.error());
  const Snapshot* source = request.snapshot ? cloud_.snapshots.find(*request.snapshot) : nullptr;
  Volume volume{.id = VolumeId("vol-0" + cloud_.random.hex(16)),
                .zone = request.zone,
                .gibibytes = request.gibibytes.value_or(source ? source->gibibytes : 0),
                .snapshot = request.snapshot,
                .type = request.type,
                .iops = request.iops,
                .throughput = request.throughput,
                .encrypted = request.encrypted || (source && source->encrypted),
                .key = request.key.empty() && source ? source->key : request.key,
                .tags = request.tags,
                .created = cloud_.now,
                .client_token = token};
  VolumeShape shape{volume.type, volume.gibibytes, volume.iops, volume.throughput};
  complete_shape(shape);
  volume.iops = shape.iops;
  volume.throughput = shape.throughput;
  if (source) make_cold(volume, *source, request.initialization_rate);
  if (!token.empty()) {
    cloud_.volume_tokens[token] = volume.id;
    cloud_.volume_token_digests[token] = digest(request);
  }
  // https://repost.aws/knowledge-center/ebs-error-volume-is-unknown: without permission on the key,
  // CreateVolume succeeds and the volume is gone soon after.
  if (volume.encrypted && cloud_.storage_faults.key_forbidden) {
    cloud_.schedule(Duration{500}, VolumeVanishes{volume.id});
  } else {
    cloud_.schedule(cloud_.random.within(cloud_.settings.volume_creation), VolumeReady{volume.id});
    if (!request.root)
      cloud_.occur(VolumeMade{volume.id, volume.snapshot, volume.gibibytes, volume.cold,
                              volume.initialization_rate, volume.throughput});
  }
  cloud_.record("volume-created", volume.id.str(),
                volume.zone.str() + (volume.snapshot ? " from " + volume.snapshot->str() : "") +
                    (request.initialization_rate
                         ? " at " + std::to_string(*request.initialization_rate) + " MiB/s"
                         : ""));
  return cloud_.volumes.add(volume.id, volume, cloud_.now, cloud_.lag());
}

Expected<void> Volumes::launch_with(const LaunchVolume& wanted, const Instance& instance) {
  CreateVolume request = wanted.volume;
  request.zone = instance.zone;
  const auto made = create(request);
  if (!made) return tl::unexpected(made.error());
  Volume& volume = change(made->id);
  volume.attempt = cloud_.number();
  volume.attachment =
      Attachment{instance.id, wanted.device, AttachmentState::Attaching, cloud_.now};
  volume.attachment->root = request.root;
  volume.attachment->deletes = wanted.deletes;
  return {};
}

Expected<Attachment> Volumes::attach(const AttachVolume& request) {
  const auto reached = reach(request.volume);
  if (!reached) return tl::unexpected(reached.error());
  const Volume& found = **reached;
  const Instance* instance = cloud_.instances.find(request.instance);
  if (!instance || !Instances(cloud_).seen(request.instance)) {
    return refusal("InvalidInstanceID.NotFound",
                   "The instance ID '" + request.instance.str() + "' does not exist");
  }
  if (!is_device_name(request.device))
    return refusal("InvalidParameterValue",
                   "Value (" + request.device + ") for parameter device is invalid. " +
                       request.device + " is not a valid EBS device name.");
  if (found.attachment) return in_use(found);
  if (found.state != VolumeState::Available) {
    return refusal("IncorrectState", "Volume '" + found.id.str() + "' is not 'available'.");
  }
  if (instance->zone != found.zone) {
    return refusal("InvalidVolume.ZoneMismatch", "The volume '" + found.id.str() +
                                                     "' is not in the same availability zone as "
                                                     "instance '" +
                                                     instance->id.str() + "'");
  }
  if (instance->state != InstanceState::Running && instance->state != InstanceState::Stopped) {
    return refusal("IncorrectState", "Instance '" + instance->id.str() + "' is not 'running'.");
  }
  bool taken = false;
  cloud_.volumes.each([&](const Volume& other) {
    taken = taken || (other.attachment && other.attachment->instance == request.instance &&
                      other.attachment->device == request.device);
  });
  if (taken) {
    return refusal("InvalidParameterValue", "Invalid value '" + request.device +
                                                "' for unixDevice. Attachment point " +
                                                request.device + " is already in use");
  }
  Volume& volume = change(request.volume);
  volume.state = VolumeState::InUse;
  volume.attempt = cloud_.number();
  volume.attachment =
      Attachment{request.instance, request.device, AttachmentState::Attaching, cloud_.now};
  // "busy": the block device driver has not released the device name, and the volume never comes
  // up under it (https://repost.aws/knowledge-center/ebs-stuck-attaching, "device name").
  const auto& busy = cloud_.storage_faults.attach_busy_until;
  if (busy && cloud_.now < *busy) volume.attachment->state = AttachmentState::Busy;
  const auto& hang = cloud_.storage_faults.attach_hangs_until;
  const bool hangs =
      (hang && cloud_.now < *hang) || volume.attachment->state == AttachmentState::Busy;
  cloud_.schedule(cloud_.random.within(hangs ? forever : cloud_.settings.attach),
                  AttachEnds{volume.id, volume.attempt});
  cloud_.record("volume-attaching", volume.id.str(), request.instance.str());
  return *volume.attachment;
}

Expected<Attachment> Volumes::detach(const DetachVolume& request) {
  const auto reached = reach(request.volume);
  if (!reached) return tl::unexpected(reached.error());
  const Volume& found = **reached;
  if (!found.attachment) {
    return refusal("IncorrectState",
                   "Volume '" + found.id.str() + "' is in the 'available' state.");
  }
  const Attachment& attachment = *found.attachment;
  if ((request.instance && *request.instance != attachment.instance) ||
      (request.device && *request.device != attachment.device)) {
    return refusal("InvalidAttachment.NotFound",
                   "Volume '" + found.id.str() + "' is not attached as stated.");
  }
  const Instance* instance = cloud_.instances.find(attachment.instance);
  if (attachment.root)
    return refusal("OperationNotPermitted", "Unable to detach root volume '" + found.id.str() +
                                                "' from instance '" + instance->id.str() + "'");
  // A terminating instance gives its volumes up by itself.
  if (instance && instance->state == InstanceState::ShuttingDown) {
    return refusal("IncorrectInstanceState", "The instance '" + instance->id.str() +
                                                 "' is not in a valid state for this operation.");
  }
  const bool going = attachment.state == AttachmentState::Detaching ||
                     (attachment.state == AttachmentState::Busy && attachment.present);
  if (going && !request.force) return attachment;
  Volume& volume = change(request.volume);
  if (request.force) volume.mounted = false;
  const auto& hang = cloud_.storage_faults.detach_hangs_until;
  const bool hangs = hang && cloud_.now < *hang && !request.force;
  begin_detach(volume, hangs ? forever : cloud_.settings.detach);
  return *volume.attachment;
}

// "If a volume is still mounted, detaching leaves it stuck in the busy state until it is
// unmounted." https://docs.aws.amazon.com/ebs/latest/userguide/ebs-detaching-volume.html
void Volumes::begin_detach(Volume& volume, Range range) {
  volume.attempt = cloud_.number();
  volume.attachment->state = volume.mounted ? AttachmentState::Busy : AttachmentState::Detaching;
  cloud_.record("volume-detaching", volume.id.str(), volume.attachment->instance.str());
  if (!volume.mounted) {
    cloud_.schedule(cloud_.random.within(range), DetachEnds{volume.id, volume.attempt});
  }
}

void Volumes::set_mounted(const VolumeId& id, bool mounted) {
  Volume* volume = cloud_.volumes.find(id);
  if (!volume) return;
  volume->mounted = mounted;
  if (!volume->attachment) return;
  Attachment& attachment = *volume->attachment;
  if (!mounted && attachment.state == AttachmentState::Busy) {
    begin_detach(*volume, cloud_.settings.detach);
  }
  if (mounted && attachment.state == AttachmentState::Detaching) {  // it came in between
    volume->attempt = cloud_.number();                              // the end under way is void
    attachment.state = AttachmentState::Busy;
  }
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifyVolume.html. What is not given
// stays, but IOPS and throughput of another type, which are that type's baselines.
Expected<Modification> Volumes::modify(const VolumeId& id, const VolumeShape& wanted) {
  const auto reached = reach(id);
  if (!reached) return tl::unexpected(reached.error());
  const Volume& found = **reached;
  if (found.state != VolumeState::Available && found.state != VolumeState::InUse)
    return refusal("IncorrectState", "Volume '" + id.str() + "' is not 'available'.");
  if (found.modification && found.modification->state != "completed")
    return refusal("IncorrectModificationState", "Cannot modify volume " + id.str() +
                                                     ", currently in modification state " +
                                                     found.modification->state);
  // "up to four times within a rolling 24-hour period": API_ModifyVolume.html
  const Time day_ago = cloud_.now - std::chrono::hours(24);
  if (std::ranges::count_if(found.modified, [&](Time it) { return it > day_ago; }) >= 4)
    return refusal("VolumeModificationRateExceeded",
                   "You've reached the maximum modification rate per volume limit. Wait until 24 "
                   "hours after the first of the last four modifications of '" +
                       id.str() + "'.");
  VolumeShape target = wanted;
  const bool same = target.type.empty() || target.type == found.type;
  if (same) target.type = found.type;
  if (!target.gibibytes) target.gibibytes = found.gibibytes;
  if (*target.gibibytes < found.gibibytes)
    return refusal("InvalidParameterValue", "New size cannot be smaller than existing size");
  if (same && !target.iops && target.type != "gp2") target.iops = found.iops;
  if (same && !target.throughput) target.throughput = found.throughput;
  if (auto fits = check_shape(target); !fits) return tl::unexpected(fits.error());
  complete_shape(target);
  Volume& volume = change(id);
  volume.modified.push_back(cloud_.now);
  volume.modification = Modification{"modifying",       cloud_.now,       {},
                                     volume.type,       volume.gibibytes, volume.iops,
                                     volume.throughput, target.type,      *target.gibibytes,
                                     target.iops,       target.throughput};
  cloud_.schedule(cloud_.random.within(cloud_.settings.volume_creation), ModificationProceeds{id});
  cloud_.record("volume-modifying", id.str());
  return *volume.modification;
}

// From modifying to optimizing the new size and speeds come into force.
void Volumes::on(const ModificationProceeds& happening) {
  if (cloud_.volumes.find(happening.id)->state == VolumeState::Deleted) return;
  Volume& volume = change(happening.id);
  Modification& it = *volume.modification;
  if (it.state == "optimizing") {
    it.state = "completed";
    it.ended = cloud_.now;
    cloud_.record("volume-modified", volume.id.str());
    return;
  }
  it.state = "optimizing";
  if (it.gibibytes != volume.gibibytes) cloud_.occur(VolumeGrown{volume.id, it.gibibytes});
  volume.type = it.type;
  volume.gibibytes = it.gibibytes;
  volume.iops = it.iops;
  volume.throughput = it.throughput;
  cloud_.schedule(cloud_.random.within(cloud_.settings.volume_creation),
                  ModificationProceeds{volume.id});
}

Expected<void> Volumes::remove(const VolumeId& id) {
  const auto reached = reach(id);
  if (!reached) return tl::unexpected(reached.error());
  const Volume& found = **reached;
  if (found.attachment) {
    return refusal("VolumeInUse", "Volume " + id.str() + " is currently attached to " +
                                      found.attachment->instance.str());
  }
  if (found.state != VolumeState::Available && found.state != VolumeState::Error) {
    return refusal("IncorrectState", "Volume '" + id.str() + "' is not 'available'.");
  }
  Volume& volume = change(id);
  volume.state = VolumeState::Deleted;
  cloud_.occur(VolumeRemoved{id});
  cloud_.record("volume-deleted", id.str());
  return {};
}

Duration Volumes::read_first(const VolumeId& id, double mebibytes, double in_flight) {
  Volume* volume = cloud_.volumes.find(id);
  if (!volume) return {};
  const ColdSettings& cold = cloud_.settings.cold;
  const Duration takes =
      first_read(*volume, cold, mebibytes, in_flight, cloud_.now - volume->created);
  if (volume->cold) warm(*volume->cold, cold, mebibytes, cloud_.now + takes);
  return takes;
}

const Volume* Volumes::seen(const VolumeId& id) const {
  const Volume* volume = cloud_.volumes.seen(id, cloud_.now);
  return volume && volume->state != VolumeState::Deleted ? volume : nullptr;
}

std::vector<Volume> Volumes::list() const {
  std::vector<Volume> volumes;
  cloud_.volumes.each_seen(cloud_.now, [&](const Volume& volume) {
    if (volume.state != VolumeState::Deleted) volumes.push_back(volume);
  });
  return volumes;
}

void Volumes::release(const InstanceId& dead) {
  std::vector<VolumeId> held;
  cloud_.volumes.each([&](const Volume& volume) {
    if (volume.attachment && volume.attachment->instance == dead) held.push_back(volume.id);
  });
  for (const VolumeId& id : held) {
    Volume& volume = change(id);
    volume.mounted = false;
    volume.attachment->ends = true;
    begin_detach(volume, cloud_.settings.volume_release);
  }
}

void Volumes::on(const VolumeReady& happening) {
  Volume& volume = change(happening.id);
  if (volume.state != VolumeState::Creating) return;
  const bool fails = cloud_.storage_faults.volumes_to_fail > 0;
  if (fails) --cloud_.storage_faults.volumes_to_fail;
  volume.state = fails ? VolumeState::Error : VolumeState::Available;
  if (volume.attachment && !fails) {
    volume.state = VolumeState::InUse;
    cloud_.schedule(cloud_.random.within(cloud_.settings.attach),
                    AttachEnds{volume.id, volume.attempt});
  }
  cloud_.record(fails ? "volume-failed" : "volume-available", volume.id.str());
}

void Volumes::on(const VolumeVanishes& happening) {
  change(happening.id).state = VolumeState::Deleted;
  cloud_.record("volume-vanished", happening.id.str(), "its key may not be used");
}

void Volumes::on(const AttachEnds& happening) {
  const Volume* found = cloud_.volumes.find(happening.id);
  if (found->attempt != happening.attempt) return;
  // No device appears on a machine that is going: the volume is released when it is gone.
  const Instance& holder = *cloud_.instances.find(found->attachment->instance);
  if (!is_alive(holder) && holder.state != InstanceState::Stopped) return;
  if (holder.state == InstanceState::Pending)  // it boots with it
    return cloud_.schedule(cloud_.random.within(cloud_.settings.attach), happening);
  Volume& volume = change(happening.id);
  volume.attachment->state = AttachmentState::Attached;
  cloud_.record("volume-attached", volume.id.str(), volume.attachment->instance.str());
  if (volume.attachment->root) return;
  if (cloud_.storage_faults.devices_to_hide > 0) {
    --cloud_.storage_faults.devices_to_hide;
    cloud_.record("device-hidden", volume.id.str(), volume.attachment->instance.str());
    return;
  }
  const DeviceAppears appears{volume.id, volume.attempt};
  const Duration late = cloud_.storage_faults.device_late;
  if (late == Duration{0}) return on(appears);
  cloud_.schedule(late, appears);
}

// Unless it was detached, or its instance died, meanwhile.
void Volumes::on(const DeviceAppears& happening) {
  Volume& volume = *cloud_.volumes.find(happening.id);
  if (volume.attempt != happening.attempt) return;
  volume.attachment->present = true;
  cloud_.occur(DeviceAttached{volume.id, volume.attachment->instance, volume.attachment->device,
                              cloud_.storage_faults.device_by_name});
}

void Volumes::on(const DetachEnds& happening) {
  const Volume* found = cloud_.volumes.find(happening.id);
  if (found->attempt != happening.attempt) return;
  Volume& volume = change(happening.id);
  const InstanceId instance = volume.attachment->instance;
  if (volume.attachment->present) cloud_.occur(DeviceDetached{volume.id, instance});
  const bool goes = volume.attachment->ends && volume.attachment->deletes;
  volume.attachment.reset();
  volume.state = goes ? VolumeState::Deleted : VolumeState::Available;
  if (goes) cloud_.occur(VolumeRemoved{volume.id});
  cloud_.record(goes ? "volume-deleted" : "volume-available", volume.id.str(),
                "detached from " + instance.str());
}

}  // namespace spotter::world
