// Answers about volumes, snapshots, instances and tags.
#include <array>
#include <utility>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/ec2_xml.hpp"

namespace spotter::wire {
namespace {

template <class State, std::size_t count>
State state_of(const std::array<std::pair<const char*, State>, count>& words,
               const std::string& text) {
  for (const auto& [word, state] : words) {
    if (text == word) return state;
  }
  return State::Unknown;
}

VolumeState volume_state(const std::string& text) {
  using enum VolumeState;
  static constexpr std::array<std::pair<const char*, VolumeState>, 6> words{
      {{"creating", Creating},
       {"available", Available},
       {"in-use", InUse},
       {"deleting", Deleting},
       {"deleted", Deleted},
       {"error", Error}}};
  return state_of(words, text);
}

AttachmentState attachment_state(const std::string& text) {
  using enum AttachmentState;
  static constexpr std::array<std::pair<const char*, AttachmentState>, 5> words{
      {{"attaching", Attaching},
       {"attached", Attached},
       {"detaching", Detaching},
       {"detached", Detached},
       {"busy", Busy}}};
  return state_of(words, text);
}

SnapshotState snapshot_state(const std::string& text) {
  using enum SnapshotState;
  static constexpr std::array<std::pair<const char*, SnapshotState>, 5> words{
      {{"pending", Pending},
       {"completed", Completed},
       {"error", Error},
       {"recoverable", Recoverable},
       {"recovering", Recovering}}};
  return state_of(words, text);
}

InstanceState instance_state(const std::string& text) {
  using enum InstanceState;
  static constexpr std::array<std::pair<const char*, InstanceState>, 6> words{
      {{"pending", Pending},
       {"running", Running},
       {"shutting-down", ShuttingDown},
       {"terminated", Terminated},
       {"stopping", Stopping},
       {"stopped", Stopped}}};
  return state_of(words, text);
}

Attachment read_attachment(const Fields& fields) {
  return {.volume = fields.name<VolumeId>("volumeId"),
          .instance = fields.optional_name<InstanceId>("instanceId"),
          .device = fields.optional_text("device"),
          .state = attachment_state(fields.text("status")),
          .delete_on_termination = fields.flag("deleteOnTermination")};
}

Volume read_volume(const Fields& fields) {
  Volume volume{.id = fields.name<VolumeId>("volumeId"),
                .zone = fields.name<Zone>("availabilityZone"),
                .state = volume_state(fields.text("status")),
                .type = fields.text("volumeType"),
                .size_gib = fields.number("size"),
                .iops = fields.optional_number("iops"),
                .throughput = fields.optional_number("throughput"),
                .encrypted = fields.flag("encrypted"),
                .kms_key = fields.optional_text("kmsKeyId"),
                .from_snapshot = fields.optional_name<SnapshotId>("snapshotId"),
                .attachments = {},
                .tags = fields.tags(),
                .create_time = fields.time("createTime")};
  for (const Fields& item : fields.optional_items("attachmentSet")) {
    volume.attachments.push_back(read_attachment(item));
  }
  return volume;
}

// "80%", "80", or empty at the very start.
int per_cent(std::string text) {
  if (text.ends_with('%')) text.pop_back();
  int value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || value > 100) return 0;
    value = value * 10 + (digit - '0');
  }
  return value > 100 ? 100 : value;
}

Snapshot read_snapshot(const Fields& fields) {
  return {.id = fields.name<SnapshotId>("snapshotId"),
          .volume = fields.name<VolumeId>("volumeId"),
          .state = snapshot_state(fields.text("status")),
          .progress = per_cent(fields.optional_text("progress")),
          .size_gib = fields.number("volumeSize"),
          .start_time = fields.time("startTime"),
          .description = fields.optional_text("description"),
          .tags = fields.tags()};
}

Instance read_instance(const Fields& fields) {
  return {.id = fields.name<InstanceId>("instanceId"),
          .state = instance_state(fields.child("instanceState").text("name")),
          .zone = fields.child("placement").name<Zone>("availabilityZone"),
          .type = fields.name<InstanceType>("instanceType"),
          .lifecycle = fields.optional_text("instanceLifecycle"),
          .launch_time = fields.optional_time("launchTime"),
          .image = fields.optional_text("imageId"),
          .tags = fields.tags()};
}

ResourceTag read_resource_tag(const Fields& fields) {
  return {.resource = fields.text("resourceId"),
          .resource_type = fields.text("resourceType"),
          .key = fields.text("key"),
          .value = fields.optional_text("value")};
}

}  // namespace

template <>
Result<Page<Volume>> decode<DescribeVolumes>(std::string_view xml) {
  return read_answer(xml, "DescribeVolumes", [](const Fields& fields) {
    return read_page(fields, "volumeSet", read_volume);
  });
}

template <>
Result<Volume> decode<CreateVolume>(std::string_view xml) {
  return read_answer(xml, "CreateVolume", read_volume);
}

template <>
Result<Attachment> decode<AttachVolume>(std::string_view xml) {
  return read_answer(xml, "AttachVolume", read_attachment);
}

template <>
Result<Attachment> decode<DetachVolume>(std::string_view xml) {
  return read_answer(xml, "DetachVolume", read_attachment);
}

template <>
Result<Done> decode<DeleteVolume>(std::string_view xml) {
  return read_answer(xml, "DeleteVolume", read_yes);
}

template <>
Result<Snapshot> decode<CreateSnapshot>(std::string_view xml) {
  return read_answer(xml, "CreateSnapshot", read_snapshot);
}

template <>
Result<Page<Snapshot>> decode<DescribeSnapshots>(std::string_view xml) {
  return read_answer(xml, "DescribeSnapshots", [](const Fields& fields) {
    return read_page(fields, "snapshotSet", read_snapshot);
  });
}

template <>
Result<Done> decode<DeleteSnapshot>(std::string_view xml) {
  return read_answer(xml, "DeleteSnapshot", read_yes);
}

template <>
Result<Done> decode<CreateTags>(std::string_view xml) {
  return read_answer(xml, "CreateTags", read_yes);
}

template <>
Result<Done> decode<DeleteTags>(std::string_view xml) {
  return read_answer(xml, "DeleteTags", read_yes);
}

template <>
Result<Page<Instance>> decode<DescribeInstances>(std::string_view xml) {
  return read_answer(xml, "DescribeInstances", [](const Fields& fields) {
    Page<Instance> page;
    for (const Fields& reservation : fields.items("reservationSet")) {
      for (const Fields& item : reservation.items("instancesSet")) {
        page.items.push_back(read_instance(item));
      }
    }
    page.next_token = fields.optional_text("nextToken");
    return page;
  });
}

template <>
Result<Page<ResourceTag>> decode<DescribeTags>(std::string_view xml) {
  return read_answer(xml, "DescribeTags", [](const Fields& fields) {
    return read_page(fields, "tagSet", read_resource_tag);
  });
}

template <>
Result<std::vector<InstanceChange>> decode<TerminateInstances>(std::string_view xml) {
  return read_answer(xml, "TerminateInstances", [](const Fields& fields) {
    std::vector<InstanceChange> changes;
    for (const Fields& item : fields.items("instancesSet")) {
      changes.push_back({.id = item.name<InstanceId>("instanceId"),
                         .previous = instance_state(item.child("previousState").text("name")),
                         .current = instance_state(item.child("currentState").text("name"))});
    }
    return changes;
  });
}

}  // namespace spotter::wire
