#include "tests/world/ec2_api.hpp"

namespace spotter::world {

namespace {

std::string_view name(VolumeState state) {
  constexpr std::string_view names[] = {"creating", "available", "in-use",
                                        "deleting", "deleted",   "error"};
  return names[static_cast<std::size_t>(state)];
}

std::string_view name(AttachmentState state) {
  constexpr std::string_view names[] = {"attaching", "attached", "detaching", "busy"};
  return names[static_cast<std::size_t>(state)];
}

void write_attachment(Xml& xml, const Cloud& cloud, const VolumeId& volume, const Attachment& it) {
  xml.text("volumeId", volume.view());
  xml.text("instanceId", it.instance.view());
  xml.text("device", it.device);
  xml.text("status", name(it.state));
  xml.text("attachTime", xml_time(cloud.wall(it.since)));
  xml.value("deleteOnTermination", it.deletes);
}

std::string key_arn_of(const Cloud& cloud, const std::string& rest) {
  return "arn:aws:kms:" + cloud.settings.region.str() + ':' + cloud.settings.account + ':' + rest;
}

void write_volume(Xml& xml, const Cloud& cloud, const Volume& volume) {
  xml.text("volumeId", volume.id.view());
  xml.value("size", volume.gibibytes);
  xml.text("snapshotId", volume.snapshot ? volume.snapshot->view() : "");
  xml.text("availabilityZone", volume.zone.view());
  xml.text("status", name(volume.state));
  xml.text("createTime", xml_time(cloud.wall(volume.created)));
  xml.element("attachmentSet", [&] {
    if (!volume.attachment) return;
    xml.element("item", [&] { write_attachment(xml, cloud, volume.id, *volume.attachment); });
  });
  write_tags(xml, volume.tags);
  xml.text("volumeType", volume.type);
  if (volume.iops) xml.value("iops", *volume.iops);
  if (volume.throughput) xml.value("throughput", *volume.throughput);
  xml.value("encrypted", volume.encrypted);
  if (volume.encrypted) xml.text("kmsKeyId", key_arn(cloud, volume.key));
  xml.value("multiAttachEnabled", false);
  if (volume.initialization_rate)
    xml.value("volumeInitializationRate", *volume.initialization_rate);
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeVolumes.html, Filters
const std::vector<std::string> known_filters = {"volume-id",
                                                "status",
                                                "availability-zone",
                                                "availability-zone-id",
                                                "size",
                                                "snapshot-id",
                                                "volume-type",
                                                "encrypted",
                                                "create-time",
                                                "attachment.instance-id",
                                                "attachment.device",
                                                "attachment.status",
                                                "attachment.attach-time",
                                                "attachment.delete-on-termination",
                                                "multi-attach-enabled"};

Facts facts(const Cloud& cloud, const Volume& volume) {
  Facts all = {{"volume-id", volume.id.str()},
               {"status", std::string(name(volume.state))},
               {"availability-zone", volume.zone.str()},
               {"availability-zone-id", zone_id(cloud, volume.zone)},
               {"size", std::to_string(volume.gibibytes)},
               {"snapshot-id", volume.snapshot ? volume.snapshot->str() : ""},
               {"volume-type", volume.type},
               {"encrypted", volume.encrypted ? "true" : "false"},
               {"create-time", xml_time(cloud.wall(volume.created))},
               {"multi-attach-enabled", "false"}};
  if (volume.attachment) {
    all.emplace("attachment.instance-id", volume.attachment->instance.str());
    all.emplace("attachment.device", volume.attachment->device);
    all.emplace("attachment.status", name(volume.attachment->state));
    all.emplace("attachment.attach-time", xml_time(cloud.wall(volume.attachment->since)));
    all.emplace("attachment.delete-on-termination", volume.attachment->deletes ? "true" : "false");
  }
  return all;
}

Answer describe_volumes(Session& session) {
  const auto ids = session.query.list("VolumeId");
  const Cloud& cloud = session.cloud;
  const auto page = select<Volume>(
      session, Volumes(session.cloud).list(), ids, "InvalidVolume.NotFound", known_filters,
      [&](const Volume& it) { return facts(cloud, it); },
      [](const Volume& it) { return it.id.str(); });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("volumeSet", page->rows, [&](const Volume& it) { write_volume(xml, cloud, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

Answer create_volume(Session& session) {
  const Query& query = session.query;
  const std::string zone = zone_parameter(session);
  if (zone.empty()) query.required("AvailabilityZone");
  CreateVolume request{.zone = Zone(zone),
                       .type = query.text("VolumeType", "gp2"),
                       .iops = query.integer("Iops"),
                       .throughput = query.integer("Throughput"),
                       .initialization_rate = query.integer("VolumeInitializationRate"),
                       .encrypted = query.boolean("Encrypted"),
                       .multi_attach = query.boolean("MultiAttachEnabled"),
                       .key = query.text("KmsKeyId"),
                       .tags = query.tags_for("volume"),
                       .client_token = query.text("ClientToken")};
  if (const auto size = query.integer("Size"))
    request.gibibytes = static_cast<std::uint64_t>(*size);
  if (!query.text("SnapshotId").empty()) {
    request.snapshot = SnapshotId(query.required("SnapshotId"));
  }
  SPOTTER_CHECK_QUERY(session);
  const auto made = Volumes(session.cloud).create(request);
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  write_volume(xml, session.cloud, *made);
  return xml;
}

void write_modification(Xml& xml, const Cloud& cloud, const Volume& volume,
                        const Modification& it) {
  const auto shape = [&xml](const std::string& kind, const std::string& type, std::uint64_t size,
                            std::optional<int> iops, std::optional<int> throughput) {
    xml.value(kind + "Size", size);
    xml.text(kind + "VolumeType", type);
    if (iops) xml.value(kind + "Iops", *iops);
    if (throughput) xml.value(kind + "Throughput", *throughput);
    xml.value(kind + "MultiAttachEnabled", false);
  };
  xml.text("volumeId", volume.id.view());
  xml.text("modificationState", it.state);
  shape("original", it.original_type, it.original_gibibytes, it.original_iops,
        it.original_throughput);
  shape("target", it.type, it.gibibytes, it.iops, it.throughput);
  xml.value("progress", it.state == "completed" ? 100 : it.state == "optimizing" ? 50 : 0);
  xml.text("startTime", xml_time(cloud.wall(it.since)));
  if (it.ended) xml.text("endTime", xml_time(cloud.wall(*it.ended)));
}

Answer modify_volume(Session& session) {
  const Query& query = session.query;
  const VolumeId id(query.required("VolumeId"));
  VolumeShape wanted{
      query.text("VolumeType"), {}, query.integer("Iops"), query.integer("Throughput")};
  if (const auto size = query.integer("Size")) wanted.gibibytes = static_cast<std::uint64_t>(*size);
  SPOTTER_CHECK_QUERY(session);
  const auto changed = Volumes(session.cloud).modify(id, wanted);
  if (!changed) return tl::unexpected(changed.error());
  Xml xml;
  xml.element("volumeModification", [&] {
    write_modification(xml, session.cloud, *session.cloud.volumes.find(id), *changed);
  });
  return xml;
}

Answer describe_modifications(Session& session) {
  const Cloud& cloud = session.cloud;
  std::vector<Volume> rows = Volumes(session.cloud).list();
  std::erase_if(rows, [](const Volume& it) { return !it.modification; });
  const auto page = select<Volume>(
      session, std::move(rows), session.query.list("VolumeId"),
      "InvalidVolumeModification.NotFound",
      {"volume-id", "modification-state", "original-iops", "original-size", "original-volume-type",
       "target-iops", "target-size", "target-volume-type", "start-time"},
      [&](const Volume& it) -> Facts {
        const Modification& done = *it.modification;
        Facts all = {{"volume-id", it.id.str()},
                     {"modification-state", done.state},
                     {"original-size", std::to_string(done.original_gibibytes)},
                     {"original-volume-type", done.original_type},
                     {"target-size", std::to_string(done.gibibytes)},
                     {"target-volume-type", done.type},
                     {"start-time", xml_time(cloud.wall(done.since))}};
        if (done.original_iops) all.emplace("original-iops", std::to_string(*done.original_iops));
        if (done.iops) all.emplace("target-iops", std::to_string(*done.iops));
        return all;
      },
      [](const Volume& it) { return it.id.str(); });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("volumeModificationSet", page->rows,
            [&](const Volume& it) { write_modification(xml, cloud, it, *it.modification); });
  xml.optional("nextToken", page->next);
  return xml;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_VolumeStatusItem.html. No volume here
// is ever impaired; io-performance is watched for io1 and io2 alone.
void write_status(Xml& xml, const Cloud& cloud, const Volume& volume) {
  xml.text("volumeId", volume.id.view());
  xml.text("availabilityZone", volume.zone.view());
  xml.text("availabilityZoneId", zone_id(cloud, volume.zone));
  const bool provisioned = volume.type == "io1" || volume.type == "io2";
  const std::vector<std::pair<const char*, const char*>> details = {
      {"io-enabled", "passed"}, {"io-performance", provisioned ? "normal" : "not-applicable"}};
  xml.element("volumeStatus", [&] {
    xml.text("status", "ok");
    xml.items("details", details, [&](const auto& it) {
      xml.text("name", it.first);
      xml.text("status", it.second);
    });
  });
  xml.element("eventsSet", [] {});
  xml.element("actionsSet", [] {});
  if (!volume.cold) return;
  xml.element("initializationStatusDetails", [&] {
    const auto left = loads_for(volume, cloud.now);
    xml.text("initializationType", left ? "provisioned-rate" : "default");
    xml.value("progress", progress_shown(volume, cloud.settings.cold, cloud.now));
    if (left)
      xml.value("estimatedTimeToCompleteInSeconds",
                std::chrono::ceil<std::chrono::seconds>(*left).count());
  });
}

Answer describe_status(Session& session) {
  const Cloud& cloud = session.cloud;
  const auto page = select<Volume>(
      session, Volumes(session.cloud).list(), session.query.list("VolumeId"),
      "InvalidVolume.NotFound",
      {"availability-zone", "volume-status.details-name", "volume-status.details-status",
       "volume-status.status"},
      [](const Volume& it) -> Facts {
        return {{"availability-zone", it.zone.str()},
                {"volume-status.details-name", "io-enabled"},
                {"volume-status.details-name", "io-performance"},
                {"volume-status.details-status", "passed"},
                {"volume-status.status", "ok"}};
      },
      [](const Volume& it) { return it.id.str(); });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("volumeStatusSet", page->rows, [&](const Volume& it) { write_status(xml, cloud, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

Answer attach_volume(Session& session) {
  const Query& query = session.query;
  const AttachVolume request{.volume = VolumeId(query.required("VolumeId")),
                             .instance = InstanceId(query.required("InstanceId")),
                             .device = query.required("Device")};
  SPOTTER_CHECK_QUERY(session);
  const auto attachment = Volumes(session.cloud).attach(request);
  if (!attachment) return tl::unexpected(attachment.error());
  Xml xml;
  write_attachment(xml, session.cloud, request.volume, *attachment);
  return xml;
}

Answer detach_volume(Session& session) {
  const Query& query = session.query;
  DetachVolume request{.volume = VolumeId(query.required("VolumeId")),
                       .force = query.boolean("Force")};
  if (query.has("InstanceId")) {
    request.instance = InstanceId(query.required("InstanceId"));
  }
  if (query.has("Device")) request.device = query.text("Device");
  SPOTTER_CHECK_QUERY(session);
  const auto attachment = Volumes(session.cloud).detach(request);
  if (!attachment) return tl::unexpected(attachment.error());
  Xml xml;
  write_attachment(xml, session.cloud, request.volume, *attachment);
  return xml;
}

Answer delete_volume(Session& session) {
  const VolumeId id(session.query.required("VolumeId"));
  SPOTTER_CHECK_QUERY(session);
  const auto removed = Volumes(session.cloud).remove(id);
  if (!removed) return tl::unexpected(removed.error());
  return returned_true();
}

}  // namespace

std::string key_arn(const Cloud& cloud, const std::string& key) {
  constexpr const char* own = "key/0eb50000-0000-4000-8000-000000000eb5";
  if (key.starts_with("arn:")) return key;
  if (key.empty() || key == "alias/aws/ebs") return key_arn_of(cloud, own);
  return key_arn_of(cloud, key.starts_with("alias/") ? key : "key/" + key);
}

void add_volume_operations(Operations& operations) {
  operations["DescribeVolumes"] = describe_volumes;
  operations["CreateVolume"] = create_volume;
  operations["AttachVolume"] = attach_volume;
  operations["ModifyVolume"] = modify_volume;
  operations["DescribeVolumeStatus"] = describe_status;
  operations["DescribeVolumesModifications"] = describe_modifications;
  operations["DetachVolume"] = detach_volume;
  operations["DeleteVolume"] = delete_volume;
}

}  // namespace spotter::world
