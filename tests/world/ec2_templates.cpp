#include "tests/world/ec2_api.hpp"

namespace spotter::world {

namespace {

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

constexpr const char* data = "LaunchTemplateData.";

TemplateVersion version_of(Session& session) {
  const Query& query = session.query;
  const auto at = [](const char* name) { return std::string(data) + name; };
  LaunchOption option;
  bool spot = false;
  read_market(session, data, option, spot);
  for (const std::string& it : query.members(at("BlockDeviceMapping"))) check_disk(query, it);
  return {.description = query.text("VersionDescription"),
          .image = query.text(at("ImageId")),
          .type = InstanceType(query.text(at("InstanceType"))),
          .zone = Zone(zone_parameter(session, at("Placement."))),
          .key_name = query.text(at("KeyName")),
          .profile =
              query.text(at("IamInstanceProfile.Arn"), query.text(at("IamInstanceProfile.Name"))),
          .user_data = query.base64(at("UserData")),
          .max_price = option.max_price,
          .spot = spot,
          .instance_tags = query.tags_for("instance", at("TagSpecification")),
          .metadata_tags = query.text(at("MetadataOptions.InstanceMetadataTags")) == "enabled",
          .http_tokens = query.text(at("MetadataOptions.HttpTokens")),
          .security_groups = security_groups(session, data),
          .volume_tags = query.tags_for("volume", at("TagSpecification")),
          .placement_group = query.text(at("Placement.GroupName")),
          .interfaces = interfaces_of(query, at("NetworkInterface")),
          .hop_limit = hop_limit_parameter(query, at("MetadataOptions.HttpPutResponseHopLimit")),
          .terms = option.terms,
          .extras = extras_parameters(query, data),
          .reserved = option.reserved,
          .sent = query.below(data)};
}

Answer create_launch_template(Session& session) {
  const Query& query = session.query;
  const TemplateVersion version = version_of(session);
  const std::string name = query.required("LaunchTemplateName");
  if (query.below(data).empty()) query.required("LaunchTemplateData");
  const Tags tags = query.tags_for("launch-template");
  SPOTTER_CHECK_QUERY(session);
  const auto made = Templates(session.cloud).create(name, version, tags);
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  xml.element("launchTemplate", [&] { write_template(xml, session.cloud, *made); });
  return xml;
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DeleteLaunchTemplate.html
Answer delete_launch_template(Session& session) {
  const TemplateReference which = template_reference(session.query, "");
  SPOTTER_CHECK_QUERY(session);
  const auto gone = Templates(session.cloud).remove(which);
  if (!gone) return tl::unexpected(gone.error());
  Xml xml;
  xml.element("launchTemplate", [&] { write_template(xml, session.cloud, *gone); });
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

// As it was sent.
void write_data(Xml& xml, const TemplateVersion& version) {
  static const ListNames lists = {{"BlockDeviceMapping", {"blockDeviceMappingSet", "item"}},
                                  {"NetworkInterface", {"networkInterfaceSet", "item"}},
                                  {"Group", {"groupSet", "groupId"}},
                                  {"SecurityGroup", {"securityGroupSet", "item"}},
                                  {"SecurityGroupId", {"securityGroupIdSet", "item"}},
                                  {"Tag", {"tagSet", "item"}},
                                  {"TagSpecification", {"tagSpecificationSet", "item"}}};
  std::map<std::string, std::string> sent;
  for (const auto& [parameter, value] : version.sent) {
    std::string name = parameter;
    if (const auto of = name.find(".SecurityGroupId."); of != name.npos)  // of an interface
      name.replace(of, 17, ".Group.");
    sent[name] = value;
  }
  write_sent(xml, sent, lists);
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

// "SourceVersion: ... the new version inherits the same launch parameters as the source version,
// except for parameters that you specify" (API_CreateLaunchTemplateVersion.html)
Expected<Query::Parameters> with_source(const Session& session, const TemplateReference& of) {
  Query::Parameters all = session.query.all();
  if (of.version.empty()) return all;
  const auto source = Templates(session.cloud).version(of);
  if (!source) return tl::unexpected(source.error());
  const auto own = session.query.below(data);
  for (const auto& [name, value] : source->sent) {
    const std::string member = name.substr(0, name.find('.'));
    const auto given = own.lower_bound(member);
    const bool replaced =
        given != own.end() && (given->first == member || given->first.starts_with(member + '.'));
    if (!replaced) all[data + name] = value;
  }
  return all;
}

Answer create_launch_template_version(Session& session) {
  const Query& query = session.query;
  const TemplateReference of{query.text("LaunchTemplateId"), query.text("LaunchTemplateName"),
                             query.text("SourceVersion")};
  (void)template_reference(query, "");
  (void)version_of(session);  // looks at all that was sent
  SPOTTER_CHECK_QUERY(session);
  const auto all = with_source(session, of);
  if (!all) return tl::unexpected(all.error());
  const Query merged(*all);
  Session whole{session.cloud, merged};
  const TemplateVersion version = version_of(whole);
  SPOTTER_CHECK_QUERY(whole);
  Templates templates(session.cloud);
  const auto made = templates.add_version(of, version);
  if (!made) return tl::unexpected(made.error());
  Xml xml;
  xml.element("launchTemplateVersion",
              [&] { write_version(xml, session.cloud, *templates.find(of), *made); });
  return xml;
}

struct VersionRow {
  const LaunchTemplate* of;
  TemplateVersion it;
  Tags tags;
};

// Of one template those that are named, or between the bounds; of all templates the latest or the
// default ones.
Expected<std::vector<VersionRow>> version_rows(Session& session) {
  const Query& query = session.query;
  const TemplateReference named{query.text("LaunchTemplateId"), query.text("LaunchTemplateName")};
  const auto numbers = query.list("LaunchTemplateVersion");
  const auto least = query.integer("MinVersion"), most = query.integer("MaxVersion");
  if (!numbers.empty() && (least || most))
    query.refuse("InvalidParameterCombination",
                 "Versions cannot be used with MinVersion or MaxVersion");
  const bool of_all = named.id.empty() && named.name.empty();
  for (const std::string& number : numbers)
    if (of_all && number != "$Latest" && number != "$Default")
      query.refuse("InvalidParameterCombination",
                   "Without a launch template only $Latest and $Default can be described");
  if (of_all && numbers.empty()) query.required("LaunchTemplateId");
  SPOTTER_CHECK_QUERY(session);
  const Templates templates(session.cloud);
  if (!of_all)
    if (const auto found = templates.find(named); !found) return tl::unexpected(found.error());
  std::vector<VersionRow> rows;
  for (const auto& [id, it] : session.cloud.templates) {
    if (!of_all && id != templates.find(named)->id) continue;
    for (const std::string& number : numbers) {
      const auto version = templates.version({.id = id, .name = {}, .version = number});
      if (!version) return tl::unexpected(version.error());
      rows.push_back({&it, *version, {}});
    }
    if (!numbers.empty()) continue;
    for (const TemplateVersion& version : it.versions)
      if (version.number >= least.value_or(0) && version.number <= most.value_or(version.number))
        rows.push_back({&it, version, {}});
  }
  return rows;
}

Answer describe_launch_template_versions(Session& session) {
  auto rows = version_rows(session);
  if (!rows) return tl::unexpected(rows.error());
  const Cloud& cloud = session.cloud;
  const auto page = select<VersionRow>(
      session, std::move(*rows), {}, "",
      {"create-time", "image-id", "instance-type", "is-default-version"},
      [&](const VersionRow& it) -> Facts {
        return {{"create-time", xml_time(cloud.wall(it.it.created))},
                {"image-id", it.it.image},
                {"instance-type", it.it.type.str()},
                {"is-default-version", it.it.number == it.of->default_version ? "true" : "false"}};
      },
      [](const VersionRow& it) { return it.of->id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("launchTemplateVersionSet", page->rows,
            [&](const VersionRow& it) { write_version(xml, cloud, *it.of, it.it); });
  xml.optional("nextToken", page->next);
  return xml;
}

}  // namespace

void add_template_operations(Operations& operations) {
  operations["CreateLaunchTemplate"] = create_launch_template;
  operations["CreateLaunchTemplateVersion"] = create_launch_template_version;
  operations["DeleteLaunchTemplate"] = delete_launch_template;
  operations["DescribeLaunchTemplates"] = describe_launch_templates;
  operations["DescribeLaunchTemplateVersions"] = describe_launch_template_versions;
}

}  // namespace spotter::world
