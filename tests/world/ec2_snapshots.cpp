#include "tests/world/ec2_api.hpp"

namespace spotter::world {

namespace {

std::string_view name(SnapshotState state) {
  constexpr std::string_view names[] = {"pending", "completed", "error", "recoverable", "deleted"};
  return names[static_cast<std::size_t>(state)];
}

void write_snapshot(Xml& xml, Cloud& cloud, const Snapshot& snapshot) {
  xml.text("snapshotId", snapshot.id.view());
  xml.text("volumeId", snapshot.volume.view());
  xml.text("status", name(snapshot.state));
  xml.text("startTime", xml_time(cloud.wall(snapshot.started)));
  xml.text("progress", std::to_string(Snapshots(cloud).percent(snapshot)) + "%");
  xml.text("ownerId", cloud.settings.account);
  xml.value("volumeSize", snapshot.gibibytes);
  xml.text("description", snapshot.description);
  xml.value("encrypted", snapshot.encrypted);
  if (snapshot.encrypted) xml.text("kmsKeyId", key_arn(cloud, snapshot.key));
  write_tags(xml, snapshot.tags);
  xml.text("storageTier", "standard");
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSnapshots.html, Filters
const std::vector<std::string> snapshot_filters = {
    "snapshot-id", "volume-id",   "status",      "progress",   "owner-id",    "owner-alias",
    "encrypted",   "description", "volume-size", "start-time", "storage-tier"};

Facts facts(Cloud& cloud, const Snapshot& snapshot) {
  return {{"snapshot-id", snapshot.id.str()},
          {"volume-id", snapshot.volume.str()},
          {"status", std::string(name(snapshot.state))},
          {"progress", std::to_string(Snapshots(cloud).percent(snapshot)) + "%"},
          {"owner-id", cloud.settings.account},
          {"encrypted", snapshot.encrypted ? "true" : "false"},
          {"description", snapshot.description},
          {"volume-size", std::to_string(snapshot.gibibytes)},
          {"start-time", xml_time(cloud.wall(snapshot.started))},
          {"storage-tier", "standard"}};
}

Answer create_snapshot(Session& session) {
  const CreateSnapshot request{.volume = VolumeId(session.query.required("VolumeId")),
                               .description = session.query.text("Description"),
                               .tags = session.query.tags_for("snapshot")};
  SPOTTER_CHECK_QUERY(session);
  const auto made = Snapshots(session.cloud).create(request);
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  write_snapshot(xml, session.cloud, *made);
  return xml;
}

Answer describe_snapshots(Session& session) {
  std::vector<Snapshot> rows = Snapshots(session.cloud).list();
  // Only this account's snapshots exist here, so only owners other than it make a difference.
  const auto owners = session.query.list("Owner");
  const bool ours =
      owners.empty() || std::any_of(owners.begin(), owners.end(), [&](const auto& it) {
        return it == "self" || it == session.cloud.settings.account;
      });
  // Whoever may make volumes of them: they are shared with nobody.
  const auto restorers = session.query.list("RestorableBy");
  const bool may = restorers.empty() || std::ranges::any_of(restorers, [&](const auto& it) {
                     return it == "self" || it == session.cloud.settings.account;
                   });
  if (!ours || !may) rows.clear();
  const auto page = select<Snapshot>(
      session, std::move(rows), session.query.list("SnapshotId"), "InvalidSnapshot.NotFound",
      snapshot_filters, [&](const Snapshot& it) { return facts(session.cloud, it); },
      [](const Snapshot& it) { return it.id.str(); });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("snapshotSet", page->rows,
            [&](const Snapshot& it) { write_snapshot(xml, session.cloud, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

Answer copy_snapshot(Session& session) {
  const Query& query = session.query;
  const CopySnapshot request{.source = SnapshotId(query.required("SourceSnapshotId")),
                             .description = query.text("Description"),
                             .encrypted = query.boolean("Encrypted"),
                             .key = query.text("KmsKeyId"),
                             .tags = query.tags_for("snapshot")};
  const std::string own = session.cloud.settings.region.str();
  if (query.text("DestinationRegion", own) != own)
    query.refuse("InvalidParameterValue", "The destination is not the region of this endpoint");
  const std::string url = query.text("PresignedUrl");  // clients add it; needed between regions
  if (!url.empty() && url.find("Action=CopySnapshot") == url.npos)
    query.refuse("InvalidParameterValue", "PresignedUrl is none of CopySnapshot");
  if (const std::string from = query.required("SourceRegion"); !from.empty() && from != own)
    query.refuse("UnsupportedOperation",
                 "The emulator does not honour another SourceRegion than " + own);
  SPOTTER_CHECK_QUERY(session);
  const auto made = Snapshots(session.cloud).copy(request);
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  xml.text("snapshotId", made->id.view());
  write_tags(xml, made->tags);
  return xml;
}

Answer delete_snapshot(Session& session) {
  const SnapshotId id(session.query.required("SnapshotId"));
  SPOTTER_CHECK_QUERY(session);
  const auto removed = Snapshots(session.cloud).remove(id);
  if (!removed) return tl::unexpected(removed.error());
  return returned_true();
}

}  // namespace

void add_snapshot_operations(Operations& operations) {
  operations["CreateSnapshot"] = create_snapshot;
  operations["CopySnapshot"] = copy_snapshot;
  operations["DescribeSnapshots"] = describe_snapshots;
  operations["DeleteSnapshot"] = delete_snapshot;
}

}  // namespace spotter::world
