#include "tests/world/ec2_api.hpp"
#include "tests/world/iam.hpp"
#include "tests/world/reservations.hpp"

namespace spotter::world {

namespace {

std::string private_name(const Cloud& cloud, const Instance& instance) {
  std::string address = instance.address;
  std::replace(address.begin(), address.end(), '.', '-');
  return "ip-" + address + '.' + cloud.settings.region.str() + ".compute.internal";
}

std::string public_name(const Cloud& cloud, std::string address) {
  std::replace(address.begin(), address.end(), '.', '-');
  return "ec2-" + address + '.' + cloud.settings.region.str() + ".compute.amazonaws.com";
}

void write_state(Xml& xml, std::string_view element, InstanceState state) {
  xml.element(element, [&] {
    xml.value("code", code(state));
    xml.text("name", name(state));
  });
}

// Shows a user's act with its time: API_Instance.html, StateTransitionReason
std::string transition_reason(const Cloud& cloud, const Instance& instance) {
  if (instance.reason != user_reason || !instance.died) return instance.reason;
  std::string at = metadata_time(cloud.wall(*instance.died));
  at[at.find('T')] = ' ';
  at.back() = ' ';
  return "User initiated (" + at + "GMT)";
}

// The volumes that are attached; of root volumes those that the launch asked for.
void write_devices(Xml& xml, const Cloud& cloud, const Instance& instance) {
  xml.element("blockDeviceMapping", [&] {
    cloud.volumes.each_seen(cloud.now, [&](const Volume& volume) {
      if (!volume.attachment || volume.attachment->instance != instance.id) return;
      xml.element("item", [&] {
        xml.text("deviceName", volume.attachment->device);
        xml.element("ebs", [&] {
          xml.text("volumeId", volume.id.view());
          const Attachment& it = *volume.attachment;
          const bool there = it.present || (it.root && it.state == AttachmentState::Attached);
          xml.text("status", there ? "attached" : "attaching");
          xml.text("attachTime", xml_time(cloud.wall(volume.attachment->since)));
          xml.value("deleteOnTermination", it.deletes);
        });
      });
    });
  });
}

void write_interfaces(Xml& xml, const Instance& instance) {
  if (instance.interfaces.empty()) return;
  xml.items("networkInterfaceSet", instance.interfaces, [&](const Interface& it) {
    xml.element("attachment", [&] {
      xml.value("networkCardIndex", it.card);
      xml.value("deviceIndex", it.device);
      xml.text("status", "attached");
    });
    xml.text("interfaceType", it.type);
    xml.items("groupSet", it.groups, [&](const std::string& group) { xml.text("groupId", group); });
  });
}

void write_instance(Xml& xml, const Cloud& cloud, const Instance& instance) {
  xml.text("instanceId", instance.id.view());
  xml.text("imageId", instance.image);
  write_state(xml, "instanceState", instance.state);
  xml.text("privateDnsName", private_name(cloud, instance));
  xml.text("privateIpAddress", instance.address);
  const std::string address = public_address(instance);
  xml.optional("ipAddress", address);
  xml.text("dnsName", address.empty() ? "" : public_name(cloud, address));
  xml.text("reason", transition_reason(cloud, instance));
  xml.optional("keyName", instance.key_name);
  xml.value("amiLaunchIndex", instance.launch_index);
  xml.text("instanceType", instance.type.view());
  xml.text("launchTime", xml_time(cloud.wall(instance.launched)));
  xml.element("placement", [&] {
    xml.text("availabilityZone", instance.zone.view());
    xml.text("groupName", instance.placement_group);
    xml.text("tenancy", "default");
  });
  xml.element("monitoring",
              [&] { xml.text("state", instance.extras.monitoring ? "enabled" : "disabled"); });
  xml.items("groupSet", instance.security_groups,
            [&](const std::string& group) { xml.text("groupId", group); });
  xml.value("ebsOptimized", instance.extras.ebs_optimized);
  xml.element("metadataOptions", [&] {
    xml.text("state", "applied");
    xml.text("httpTokens", instance.tokens_optional ? "optional" : "required");
    xml.value("httpPutResponseHopLimit", instance.hop_limit);
    xml.text("httpEndpoint", instance.extras.metadata_off ? "disabled" : "enabled");
    xml.text("httpProtocolIpv6", "disabled");
    xml.text("instanceMetadataTags", instance.metadata_tags ? "enabled" : "disabled");
  });
  xml.optional("subnetId", instance.subnet);
  xml.text("architecture", "x86_64");
  xml.text("rootDeviceType", "ebs");
  xml.text("rootDeviceName", "/dev/xvda");
  write_devices(xml, cloud, instance);
  write_interfaces(xml, instance);
  xml.text("virtualizationType", "hvm");
  xml.optional("clientToken", instance.client_token);
  write_tags(xml, instance.tags);
  xml.text("hypervisor", "xen");
  const std::string lifecycle = lifecycle_of(instance);
  if (lifecycle != on_demand) xml.text("instanceLifecycle", lifecycle);
  xml.optional("spotInstanceRequestId", instance.spot_request);
  if (instance.reserved) {
    xml.text("capacityReservationId", instance.reserved.id);
    xml.element("capacityReservationSpecification", [&] {
      xml.element("capacityReservationTarget",
                  [&] { xml.text("capacityReservationId", instance.reserved.id); });
    });
  }
  if (!instance.profile.empty()) {
    xml.element("iamInstanceProfile", [&] {
      xml.text("arn", profile_arn(cloud, instance.profile));
      xml.text("id", "AIPAEMULATOR000000000");
    });
  }
  if (!instance.reason.empty()) {
    xml.element("stateReason", [&] {
      xml.text("code", instance.reason.substr(0, instance.reason.find(':')));
      xml.text("message", instance.reason);
    });
  }
}

void write_reservation(Xml& xml, const Cloud& cloud, const std::vector<Instance>& instances) {
  xml.text("reservationId", reservation_of(instances.front()));
  xml.text("ownerId", cloud.settings.account);
  xml.element("groupSet", [] {});
  xml.items("instancesSet", instances, [&](const Instance& it) { write_instance(xml, cloud, it); });
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstances.html, Filters (those
// with a meaning here)
const std::vector<std::string> known = {"instance-id",
                                        "instance-state-name",
                                        "instance.group-id",
                                        "instance-state-code",
                                        "instance-type",
                                        "availability-zone",
                                        "image-id",
                                        "private-ip-address",
                                        "spot-instance-request-id",
                                        "instance-lifecycle",
                                        "launch-time",
                                        "key-name",
                                        "subnet-id",
                                        "client-token",
                                        "owner-id",
                                        "reservation-id",
                                        "private-dns-name",
                                        "block-device-mapping.volume-id",
                                        "block-device-mapping.device-name",
                                        "architecture",
                                        "root-device-type",
                                        "state-reason-code",
                                        "state-reason-message",
                                        "reason",
                                        "launch-index",
                                        "iam-instance-profile.arn",
                                        "ip-address",
                                        "monitoring-state",
                                        "placement-group-name",
                                        "capacity-reservation-id"};

Facts facts(const Cloud& cloud, const Instance& instance) {
  Facts all = {{"instance-id", instance.id.str()},
               {"instance-state-name", std::string(name(instance.state))},
               {"instance-state-code", std::to_string(code(instance.state))},
               {"instance-type", instance.type.str()},
               {"availability-zone", instance.zone.str()},
               {"image-id", instance.image},
               {"private-ip-address", instance.address},
               {"private-dns-name", private_name(cloud, instance)},
               {"spot-instance-request-id", instance.spot_request},
               {"launch-time", xml_time(cloud.wall(instance.launched))},
               {"key-name", instance.key_name},
               {"subnet-id", instance.subnet},
               {"client-token", instance.client_token},
               {"owner-id", cloud.settings.account},
               {"reservation-id", reservation_of(instance)},
               {"architecture", "x86_64"},
               {"root-device-type", "ebs"},
               {"state-reason-code", instance.reason.substr(0, instance.reason.find(':'))},
               {"state-reason-message", instance.reason},
               {"reason", transition_reason(cloud, instance)},
               {"launch-index", std::to_string(instance.launch_index)},
               {"ip-address", public_address(instance)},
               {"monitoring-state", instance.extras.monitoring ? "enabled" : "disabled"},
               {"placement-group-name", instance.placement_group}};
  if (!instance.profile.empty())
    all.emplace("iam-instance-profile.arn", profile_arn(cloud, instance.profile));
  if (const auto its = lifecycle_of(instance); its != on_demand)
    all.emplace("instance-lifecycle", its);
  if (instance.reserved) all.emplace("capacity-reservation-id", instance.reserved.id);
  if (instance.state != InstanceState::Terminated)  // its interfaces are gone
    for (const std::string& it : instance.security_groups) all.emplace("instance.group-id", it);
  cloud.volumes.each_seen(cloud.now, [&](const Volume& volume) {
    if (!volume.attachment || volume.attachment->instance != instance.id) return;
    all.emplace("block-device-mapping.volume-id", volume.id.str());
    all.emplace("block-device-mapping.device-name", volume.attachment->device);
  });
  return all;
}

Answer describe_instances(Session& session) {
  const auto ids = session.query.list("InstanceId");
  const Cloud& cloud = session.cloud;
  const auto page = select<Instance>(
      session, Instances(session.cloud).list(), ids, "InvalidInstanceID.NotFound", known,
      [&](const Instance& it) { return facts(cloud, it); },
      [](const Instance& it) { return it.id.str(); });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  std::vector<std::vector<Instance>> reservations;
  std::map<std::string, std::size_t> places;
  for (const Instance& it : page->rows) {
    const auto place = places.emplace(reservation_of(it), reservations.size());
    if (place.second) reservations.emplace_back();
    reservations[place.first->second].push_back(it);
  }
  xml.items("reservationSet", reservations,
            [&](const std::vector<Instance>& its) { write_reservation(xml, cloud, its); });
  xml.optional("nextToken", page->next);
  return xml;
}

// The launch of RunInstances: its own parameters over those of a launch template.
Expected<LaunchInstance> launch_request(Session& session) {
  const Query& query = session.query;
  LaunchInstance request{.spot = false, .client_token = query.text("ClientToken")};
  LaunchOption& option = request.option;
  if (!query.below("LaunchTemplate.").empty()) {
    const TemplateReference reference = template_reference(query, "LaunchTemplate.");
    SPOTTER_CHECK_QUERY(session);
    const auto version = Templates(session.cloud).version(reference);
    if (!version) return tl::unexpected(version.error());
    option = option_of(*Templates(session.cloud).find(reference), *version);
    request.spot = version->spot;
  }
  read_market(session, "", option, request.spot);
  request.when_interrupted = option.terms.when_interrupted;
  option.image = query.text("ImageId", option.image);
  if (option.image.empty()) query.required("ImageId");
  option.type = InstanceType(query.text("InstanceType", option.type.str()));
  if (option.type.empty()) option.type = InstanceType("m1.small");  // the API's default
  option.key_name = query.text("KeyName", option.key_name);
  option.profile =
      query.text("IamInstanceProfile.Arn", query.text("IamInstanceProfile.Name", option.profile));
  if (query.has("UserData")) option.user_data = query.base64("UserData");
  option.instance_tags.merge(query.tags_for("instance"));
  option.request_tags = query.tags_for("spot-instances-request");
  if (const auto shown = query.text("MetadataOptions.InstanceMetadataTags"); !shown.empty())
    option.metadata_tags = shown == "enabled";
  option.http_tokens = query.text("MetadataOptions.HttpTokens", option.http_tokens);
  option.extras = extras_parameters(query, "", option.extras);
  if (const int hops = hop_limit_parameter(query, "MetadataOptions.HttpPutResponseHopLimit"))
    option.hop_limit = hops;
  option.placement_group = query.text("Placement.GroupName", option.placement_group);
  if (auto groups = security_groups(session, ""); !groups.empty())
    option.security_groups = std::move(groups);
  if (const auto asked = interfaces_of(query, "NetworkInterface"); !asked.empty())
    option.interfaces = asked;
  std::string subnet = query.text("SubnetId");
  if (!option.interfaces.empty() && !subnet.empty())
    query.refuse("InvalidParameterCombination",
                 "Network interfaces and an instance-level subnet ID may not be specified on the "
                 "same request");
  if (!option.interfaces.empty()) subnet = option.interfaces.front().subnet;
  const std::string zone = zone_parameter(session, "Placement.");
  const auto where = sites(session, zone.empty() ? option.zone.str() : zone, subnet);
  option.zone = where.front().zone;
  option.subnet = where.front().subnet;
  SPOTTER_CHECK_QUERY(session);
  return request;
}

constexpr std::uint64_t image_gibibytes = 8;

// The data of the launch template that the request names.
std::map<std::string, std::string> sent_template(const Session& session) {
  if (session.query.below("LaunchTemplate.").empty()) return {};
  const auto version =
      Templates(session.cloud).version(template_reference(session.query, "LaunchTemplate."));
  return version ? version->sent : std::map<std::string, std::string>();
}

// Of BlockDeviceMapping, else the template's; and the root volume where its tags or size are given.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/block-device-mapping-concepts.html
Expected<std::vector<LaunchVolume>> launch_volumes(Session& session, const Zone& zone) {
  const auto sent = sent_template(session);
  const Query by_template(sent);
  const bool has_own = !session.query.members("BlockDeviceMapping").empty();
  const Query& query = has_own ? session.query : by_template;
  Tags tags = session.query.tags_for("volume");
  tags.merge(by_template.tags_for("volume"));
  std::vector<LaunchVolume> volumes;
  bool has_root = false;
  for (const std::string& it : query.members("BlockDeviceMapping")) {
    check_disk(query, it);
    const std::string ebs = it + "Ebs.";
    LaunchVolume one{.device = query.required(it + "DeviceName"),
                     .volume = {.zone = zone,
                                .type = query.text(ebs + "VolumeType", "gp2"),
                                .iops = query.integer(ebs + "Iops"),
                                .throughput = query.integer(ebs + "Throughput"),
                                .encrypted = query.boolean(ebs + "Encrypted"),
                                .key = query.text(ebs + "KmsKeyId"),
                                .tags = tags},
                     .deletes = query.text(ebs + "DeleteOnTermination", "true") != "false"};
    CreateVolume& volume = one.volume;
    volume.root = one.device == root_device;
    if (std::ranges::find(volumes, one.device, &LaunchVolume::device) != volumes.end())
      session.query.refuse("InvalidBlockDeviceMapping", "Duplicate device name " + one.device);
    if (volume.root && (volume.type == "st1" || volume.type == "sc1"))
      session.query.refuse("InvalidParameterValue",
                           "Volume type " + volume.type + " cannot be used for a root volume");
    has_root = has_root || volume.root;
    if (const auto size = query.integer(ebs + "VolumeSize"))
      volume.gibibytes = static_cast<std::uint64_t>(*size);
    if (query.has(ebs + "SnapshotId")) volume.snapshot = SnapshotId(query.text(ebs + "SnapshotId"));
    if (volume.root && !volume.gibibytes) volume.gibibytes = image_gibibytes;
    if (volume.root && (*volume.gibibytes < image_gibibytes || volume.snapshot))
      session.query.refuse("InvalidBlockDeviceMapping",
                           "The root volume is of the image's snapshot, and of 8 GiB at least");
    volumes.push_back(std::move(one));
  }
  if (!has_root && !tags.empty())
    volumes.push_back({.device = root_device,
                       .volume = {.zone = zone,
                                  .gibibytes = image_gibibytes,
                                  .type = "gp3",
                                  .tags = tags,
                                  .root = true}});
  SPOTTER_CHECK_QUERY(session);
  for (const LaunchVolume& it : volumes)
    if (auto fits = Volumes(session.cloud).check_new(it.volume); !fits)
      return tl::unexpected(fits.error());
  return volumes;
}

Answer run_instances(Session& session) {
  for (const char* count : {"MinCount", "MaxCount"}) (void)session.query.required(count);
  SPOTTER_CHECK_QUERY(session);
  const int least = *session.query.integer("MinCount");
  const int most = session.query.integer("MaxCount").value_or(0);
  if (least < 1 || most < least || most > 100) {
    session.query.refuse("InvalidParameterValue", "MinCount and MaxCount are invalid.");
  }
  auto request = launch_request(session);
  if (!request) return tl::unexpected(request.error());
  const auto volumes = launch_volumes(session, request->option.zone);
  if (!volumes) return tl::unexpected(volumes.error());
  std::vector<Instance> made;
  session.cloud.instances.each([&](const Instance& earlier) {
    const bool same =
        !request->client_token.empty() && earlier.client_token == request->client_token;
    if (same) made.push_back(earlier);
  });
  std::optional<ApiError> trouble;
  while (made.empty() || (std::ssize(made) < most && made.front().launched == session.cloud.now)) {
    const auto launched = request->option.terms.persistent
                              ? Fleets(session.cloud).launch_persistent(*request)
                              : Instances(session.cloud).launch(*request);
    if (!launched) {
      trouble = launched.error();
      break;
    }
    made.push_back(*launched);
    request->reservation = reservation_of(made.front());
    request->launch_index = static_cast<int>(made.size());
    for (const LaunchVolume& it : *volumes) (void)Volumes(session.cloud).launch_with(it, *launched);
  }
  // "If this is more than EC2 can launch, it launches ... above MinCount"; fewer: none.
  if (std::ssize(made) < least) {
    for (const Instance& it : made) (void)Instances(session.cloud).terminate(it.id, user_reason);
    return tl::unexpected(trouble.value_or(ApiError{"InsufficientInstanceCapacity", "", 500}));
  }
  Xml xml;
  write_reservation(xml, session.cloud, made);
  return xml;
}

// Those that a call changes: all of them are there.
Expected<std::vector<std::string>> changed_ids(Session& session) {
  std::vector<std::string> ids;
  for (const std::string& id : session.query.list("InstanceId"))
    if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  if (ids.empty()) session.query.required("InstanceId");
  SPOTTER_CHECK_QUERY(session);
  const Instances instances(session.cloud);
  for (const std::string& id : ids) {
    if (!instances.seen(InstanceId(id))) {
      return refusal("InvalidInstanceID.NotFound", "The instance ID '" + id + "' does not exist");
    }
  }
  return ids;
}

void write_change(Xml& xml, const Cloud& cloud, const std::string& id, InstanceState before) {
  xml.text("instanceId", id);
  write_state(xml, "currentState", cloud.instances.find(InstanceId(id))->state);
  write_state(xml, "previousState", before);
}

Answer stop_instances(Session& session) {
  const auto ids = changed_ids(session);
  if (!ids) return tl::unexpected(ids.error());
  Xml xml;
  std::optional<ApiError> refused;
  xml.items("instancesSet", *ids, [&](const std::string& id) {
    const InstanceState before = session.cloud.instances.find(InstanceId(id))->state;
    if (const auto done = Instances(session.cloud).stop(InstanceId(id)); !done && !refused)
      refused = done.error();
    write_change(xml, session.cloud, id, before);
  });
  if (refused) return tl::unexpected(*refused);
  return xml;
}

Answer start_instances(Session& session) {
  const auto ids = changed_ids(session);
  if (!ids) return tl::unexpected(ids.error());
  Xml xml;
  std::optional<ApiError> refused;
  xml.items("instancesSet", *ids, [&](const std::string& id) {
    const Instance& it = *session.cloud.instances.find(InstanceId(id));
    const InstanceState before = it.state;
    if (before != InstanceState::Stopped && !is_alive(it))
      refused = {"IncorrectInstanceState",
                 "The instance '" + id + "' is not in a state from which it can be started."};
    else if (before == InstanceState::Stopped && !Instances(session.cloud).restart(it.id))
      refused = {"InsufficientInstanceCapacity", "Insufficient capacity.", 500};
    write_change(xml, session.cloud, id, before);
  });
  if (refused) return tl::unexpected(*refused);
  return xml;
}

// Running instances pass their checks, which take two minutes from the launch.
const char* status_of(const Cloud& cloud, const Instance& it) {
  if (it.state != InstanceState::Running) return "not-applicable";
  return cloud.now < it.launched + std::chrono::minutes(2) ? "initializing" : "ok";
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceStatus.html
Answer describe_instance_status(Session& session) {
  const Cloud& cloud = session.cloud;
  const auto ids = session.query.list("InstanceId");
  std::vector<Instance> rows = Instances(session.cloud).list();
  if (!session.query.boolean("IncludeAllInstances"))
    std::erase_if(rows, [&](const Instance& it) {
      return it.state != InstanceState::Running && std::ranges::find(ids, it.id.str()) == ids.end();
    });
  SPOTTER_CHECK_QUERY(session);
  const auto page = select<Instance>(
      session, std::move(rows), ids, "InvalidInstanceID.NotFound",
      {"availability-zone", "instance-state-code", "instance-state-name", "instance-status.status",
       "system-status.status"},
      [&](const Instance& it) -> Facts {
        const char* status = status_of(cloud, it);
        return {{"availability-zone", it.zone.str()},
                {"instance-state-code", std::to_string(code(it.state))},
                {"instance-state-name", std::string(name(it.state))},
                {"instance-status.status", status},
                {"system-status.status", status}};
      },
      [](const Instance& it) { return it.id.str(); });
  if (!page) return tl::unexpected(page.error());
  const bool all = session.query.boolean("IncludeAllInstances");
  std::vector<Instance> shown = page->rows;
  std::erase_if(shown,
                [&](const Instance& it) { return !all && it.state != InstanceState::Running; });
  Xml xml;
  xml.items("instanceStatusSet", shown, [&](const Instance& it) {
    const std::string status = status_of(cloud, it);
    xml.text("instanceId", it.id.view());
    xml.text("availabilityZone", it.zone.view());
    xml.text("availabilityZoneId", zone_id(cloud, it.zone));
    write_state(xml, "instanceState", it.state);
    for (const char* checks : {"systemStatus", "instanceStatus"}) {
      xml.element(checks, [&] {
        xml.text("status", status);
        if (status == "not-applicable") return;
        xml.element("details", [&] {
          xml.element("item", [&] {
            xml.text("name", "reachability");
            xml.text("status", status == "ok" ? "passed" : status);
          });
        });
      });
    }
  });
  xml.optional("nextToken", page->next);
  return xml;
}

Answer terminate_instances(Session& session) {
  const auto found = changed_ids(session);
  if (!found) return tl::unexpected(found.error());
  const auto& ids = *found;
  for (const std::string& id : ids)
    if (session.cloud.instances.find(InstanceId(id))->extras.keeps_existing)
      return refusal("OperationNotPermitted",
                     "The instance '" + id +
                         "' may not be terminated. Modify its 'disableApiTermination' instance "
                         "attribute and try again.");
  Xml xml;
  xml.items("instancesSet", ids, [&](const std::string& id) {
    const InstanceState before = session.cloud.instances.find(InstanceId(id))->state;
    (void)Instances(session.cloud).terminate(InstanceId(id), user_reason);
    write_change(xml, session.cloud, id, before);
  });
  return xml;
}

}  // namespace

std::optional<ApiError> refuse_run(Session& session) {
  auto request = launch_request(session);
  if (!request) return request.error();
  request->option.reserved = {};  // a rehearsal says nothing of capacity
  return refuse_launch(session.cloud, request->option);
}

void add_instance_operations(Operations& operations) {
  operations["DescribeInstances"] = describe_instances;
  operations["RunInstances"] = run_instances;
  operations["TerminateInstances"] = terminate_instances;
  operations["StopInstances"] = stop_instances;
  operations["StartInstances"] = start_instances;
  operations["DescribeInstanceStatus"] = describe_instance_status;
}

}  // namespace spotter::world
