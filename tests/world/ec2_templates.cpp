#include <openssl/evp.h>

#include "tests/world/ec2_api.hpp"

namespace spotter::world {

namespace {

std::string base64(const std::string& text) {
  std::string encoded(4 * ((text.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(encoded.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  encoded.resize(static_cast<std::size_t>(size));
  return encoded;
}

std::string creator(const Cloud& cloud) {
  return "arn:aws:iam::" + cloud.settings.account + ":user/emulator";
}

void write_template(Xml& xml, const Cloud& cloud, const LaunchTemplate& it) {
  xml.text("launchTemplateId", it.id);
  xml.text("launchTemplateName", it.name);
  xml.text("createTime", xml_time(cloud.wall(it.created)));
  xml.text("createdBy", creator(cloud));
  xml.value("defaultVersionNumber", it.default_version);
  xml.value("latestVersionNumber", it.versions.back().number);
  write_tags(xml, it.tags);
}

std::vector<BlockDevice> disks_of(const Query& query, const std::string& prefix) {
  std::vector<BlockDevice> disks;
  for (const std::string& it : query.members(prefix))
    disks.push_back({query.text(it + "DeviceName"), query.text(it + "Ebs.VolumeSize"),
                     query.text(it + "Ebs.VolumeType"), query.text(it + "Ebs.Throughput")});
  return disks;
}

TemplateVersion version_of(const Query& query) {
  const std::string data = "LaunchTemplateData.";
  const std::string placement = query.text(data + "Placement.AvailabilityZone");
  return {.description = query.text("VersionDescription"),
          .image = query.text(data + "ImageId"),
          .type = InstanceType(query.text(data + "InstanceType")),
          .zone = Zone(placement),
          .key_name = query.text(data + "KeyName"),
          .profile = query.text(data + "IamInstanceProfile.Arn",
                                query.text(data + "IamInstanceProfile.Name")),
          .user_data = query.base64(data + "UserData"),
          .max_price = query.text(data + "InstanceMarketOptions.SpotOptions.MaxPrice"),
          .spot = query.text(data + "InstanceMarketOptions.MarketType") == "spot",
          .instance_tags = query.tags_for("instance", data + "TagSpecification"),
          .metadata_tags = query.text(data + "MetadataOptions.InstanceMetadataTags") == "enabled",
          .http_tokens = query.text(data + "MetadataOptions.HttpTokens"),
          .security_groups = query.list(data + "SecurityGroupId"),
          .volume_tags = query.tags_for("volume", data + "TagSpecification"),
          .placement_group = query.text(data + "Placement.GroupName"),
          .interfaces = interfaces_of(query, data + "NetworkInterface"),
          .disks = disks_of(query, data + "BlockDeviceMapping")};
}

Answer create_launch_template(Session& session) {
  const Query& query = session.query;
  const TemplateVersion version = version_of(query);
  const std::string name = query.required("LaunchTemplateName");
  const Tags tags = query.tags_for("launch-template");
  SPOTTER_CHECK_QUERY(session);
  const auto made = Templates(session.cloud).create(name, version, tags);
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  xml.element("launchTemplate", [&] { write_template(xml, session.cloud, *made); });
  return xml;
}

Answer describe_launch_templates(Session& session) {
  std::vector<LaunchTemplate> rows;
  const auto names = session.query.list("LaunchTemplateName");
  for (const std::string& name : names) {
    const auto found = Templates(session.cloud).find({.id = {}, .name = name});
    if (!found) return tl::unexpected(found.error());
  }
  for (const auto& [id, it] : session.cloud.templates) {
    const bool named = std::find(names.begin(), names.end(), it.name) != names.end();
    if (names.empty() || named) rows.push_back(it);
  }
  const auto page = select<LaunchTemplate>(
      session, std::move(rows), session.query.list("LaunchTemplateId"),
      "InvalidLaunchTemplateId.NotFound", {"launch-template-name", "create-time"},
      [&](const LaunchTemplate& it) -> Facts {
        return {{"launch-template-name", it.name},
                {"create-time", xml_time(session.cloud.wall(it.created))}};
      },
      [](const LaunchTemplate& it) { return it.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("launchTemplates", page->rows,
            [&](const LaunchTemplate& it) { write_template(xml, session.cloud, it); });
  xml.optional("nextToken", page->next);
  return xml;
}

void write_data(Xml& xml, const TemplateVersion& version) {
  xml.optional("imageId", version.image);
  xml.optional("instanceType", version.type.view());
  xml.optional("keyName", version.key_name);
  xml.optional("userData", base64(version.user_data));
  if (version.zone || !version.placement_group.empty()) {
    xml.element("placement", [&] {
      xml.optional("availabilityZone", version.zone.view());
      xml.optional("groupName", version.placement_group);
    });
  }
  if (!version.disks.empty()) {
    xml.items("blockDeviceMappingSet", version.disks, [&](const BlockDevice& it) {
      xml.text("deviceName", it.name);
      xml.element("ebs", [&] {
        xml.optional("volumeSize", it.size);
        xml.optional("volumeType", it.type);
        xml.optional("throughput", it.throughput);
      });
    });
  }
  if (!version.interfaces.empty()) {
    xml.items("networkInterfaceSet", version.interfaces, [&](const Interface& it) {
      xml.value("networkCardIndex", it.card);
      xml.value("deviceIndex", it.device);
      xml.text("interfaceType", it.type);
      xml.element("groupSet", [&] {
        for (const std::string& group : it.groups) xml.text("groupId", group);
      });
    });
  }
  if (!version.profile.empty()) {
    const bool arn = version.profile.rfind("arn:", 0) == 0;
    xml.element("iamInstanceProfile", [&] { xml.text(arn ? "arn" : "name", version.profile); });
  }
  if (version.spot) {
    xml.element("instanceMarketOptions", [&] {
      xml.text("marketType", "spot");
      if (version.max_price.empty()) return;
      xml.element("spotOptions", [&] { xml.text("maxPrice", version.max_price); });
    });
  }
  if (version.metadata_tags || !version.http_tokens.empty()) {
    xml.element("metadataOptions", [&] {
      if (!version.http_tokens.empty()) xml.text("httpTokens", version.http_tokens);
      if (version.metadata_tags) xml.text("instanceMetadataTags", "enabled");
    });
  }
  if (!version.instance_tags.empty()) {
    xml.element("tagSpecificationSet", [&] {
      xml.element("item", [&] {
        xml.text("resourceType", "instance");
        write_tags(xml, version.instance_tags);
      });
    });
  }
}

void write_version(Xml& xml, const Cloud& cloud, const LaunchTemplate& of,
                   const TemplateVersion& it) {
  xml.text("launchTemplateId", of.id);
  xml.text("launchTemplateName", of.name);
  xml.value("versionNumber", it.number);
  xml.optional("versionDescription", it.description);
  xml.text("createTime", xml_time(cloud.wall(it.created)));
  xml.text("createdBy", creator(cloud));
  xml.value("defaultVersion", it.number == of.default_version);
  xml.element("launchTemplateData", [&] { write_data(xml, it); });
}

Answer create_launch_template_version(Session& session) {
  const Query& query = session.query;
  const TemplateReference of{.id = query.text("LaunchTemplateId"),
                             .name = query.text("LaunchTemplateName")};
  if (of.id.empty() && of.name.empty()) query.required("LaunchTemplateId");
  const TemplateVersion version = version_of(query);
  SPOTTER_CHECK_QUERY(session);
  Templates templates(session.cloud);
  const auto made = templates.add_version(of, version);
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  xml.element("launchTemplateVersion",
              [&] { write_version(xml, session.cloud, *templates.find(of), *made); });
  return xml;
}

Answer describe_launch_template_versions(Session& session) {
  const Query& query = session.query;
  const std::string id = query.text("LaunchTemplateId"), name = query.text("LaunchTemplateName");
  if (id.empty() && name.empty()) query.required("LaunchTemplateId");
  SPOTTER_CHECK_QUERY(session);
  const Templates templates(session.cloud);
  const auto found = templates.find({.id = id, .name = name});
  if (!found) return tl::unexpected(found.error());
  std::vector<TemplateVersion> versions;
  for (const std::string& number : query.list("LaunchTemplateVersion")) {
    const auto version = templates.version({.id = id, .name = name, .version = number});
    if (!version) return tl::unexpected(version.error());
    versions.push_back(*version);
  }
  if (versions.empty()) versions = found->versions;
  Xml xml;
  xml.items("launchTemplateVersionSet", versions,
            [&](const TemplateVersion& it) { write_version(xml, session.cloud, *found, it); });
  return xml;
}

}  // namespace

void add_template_operations(Operations& operations) {
  operations["CreateLaunchTemplate"] = create_launch_template;
  operations["CreateLaunchTemplateVersion"] = create_launch_template_version;
  operations["DescribeLaunchTemplates"] = describe_launch_templates;
  operations["DescribeLaunchTemplateVersions"] = describe_launch_template_versions;
}

}  // namespace spotter::world
