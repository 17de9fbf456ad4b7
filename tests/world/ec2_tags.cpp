#include "tests/world/ec2_api.hpp"
#include "tests/world/tagging.hpp"

namespace spotter::world {

namespace {

Answer create_tags_call(Session& session) {
  const auto resources = session.query.list("ResourceId");
  const Tags tags = session.query.tags("Tag");
  if (resources.empty()) session.query.required("ResourceId");
  if (tags.empty()) session.query.required("Tag");
  SPOTTER_CHECK_QUERY(session);
  const auto done = create_tags(session.cloud, resources, tags);
  if (!done) return tl::unexpected(done.error());
  return returned_true();
}

Answer delete_tags_call(Session& session) {
  const auto resources = session.query.list("ResourceId");
  if (resources.empty()) session.query.required("ResourceId");
  std::vector<std::pair<std::string, std::optional<std::string>>> tags;
  for (const std::string& member : session.query.members("Tag")) {
    std::optional<std::string> value;
    if (session.query.has(member + "Value")) value = session.query.text(member + "Value");
    tags.emplace_back(session.query.required(member + "Key"), value);
  }
  SPOTTER_CHECK_QUERY(session);
  const auto done = delete_tags(session.cloud, resources, tags);
  if (!done) return tl::unexpected(done.error());
  return returned_true();
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeTags.html, Filters
Answer describe_tags(Session& session) {
  const auto page = select<TagRow>(
      session, list_tags(session.cloud), {}, "", {"key", "value", "resource-id", "resource-type"},
      [](const TagRow& it) -> Facts {
        return {{"key", it.key},
                {"value", it.value},
                {"resource-id", it.resource},
                {"resource-type", it.type}};
      },
      [](const TagRow& it) { return it.resource; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("tagSet", page->rows, [&](const TagRow& it) {
    xml.text("resourceId", it.resource);
    xml.text("resourceType", it.type);
    xml.text("key", it.key);
    xml.text("value", it.value);
  });
  xml.optional("nextToken", page->next);
  return xml;
}

}  // namespace

void add_tag_operations(Operations& operations) {
  operations["CreateTags"] = create_tags_call;
  operations["DeleteTags"] = delete_tags_call;
  operations["DescribeTags"] = describe_tags;
}

}  // namespace spotter::world
