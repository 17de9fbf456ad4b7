#include "agent/aws/formats/efs.hpp"

#include "agent/base/json.hpp"

namespace spotter::wire {
namespace {

EfsCall efs_call(const char* action, const char* what, const std::string& file_system,
                 const std::string& marker) {
  std::string path = "/2015-02-01/" + std::string(what) + "?FileSystemId=" + escape(file_system);
  if (!marker.empty()) path += "&Marker=" + escape(marker);
  return {action, std::move(path)};
}

template <class Item, class Read>
Result<Page<Item>> efs_page(std::string_view json, const char* list, Read read) {
  const auto document = parse_json_object(json);
  if (!document) return tl::unexpected(document.error());
  const auto found = document->find(list);
  if (found == document->end() || !found->is_array())
    return failure("EFS answers without " + std::string(list));
  Page<Item> page;
  for (const Json& each : *found) {
    Result<Item> item = each.is_object() ? read(each) : failure("no object in its list");
    if (!item)
      return failure("EFS answers with strange " + std::string(list) + ": " + item.error().message);
    page.items.push_back(*std::move(item));
  }
  page.next_token = text_field(*document, "NextMarker");
  return page;
}

}  // namespace

EfsCall encode(const DescribeFileSystems& request) {
  return efs_call("DescribeFileSystems", "file-systems", request.id, request.next_token);
}

EfsCall encode(const DescribeMountTargets& request) {
  return efs_call("DescribeMountTargets", "mount-targets", request.file_system, request.next_token);
}

template <>
Result<Page<FileSystem>> decode<DescribeFileSystems>(std::string_view json) {
  return efs_page<FileSystem>(json, "FileSystems", [](const Json& it) -> Result<FileSystem> {
    auto id = required_text(it, "FileSystemId");
    if (!id) return tl::unexpected(id.error());
    auto state = required_text(it, "LifeCycleState");
    if (!state) return tl::unexpected(state.error());
    return FileSystem{*std::move(id), *std::move(state),
                      Zone(text_field(it, "AvailabilityZoneName"))};
  });
}

template <>
Result<Page<MountTarget>> decode<DescribeMountTargets>(std::string_view json) {
  return efs_page<MountTarget>(json, "MountTargets", [](const Json& it) -> Result<MountTarget> {
    auto id = required_text(it, "MountTargetId");
    if (!id) return tl::unexpected(id.error());
    auto state = required_text(it, "LifeCycleState");
    if (!state) return tl::unexpected(state.error());
    auto zone = required_text(it, "AvailabilityZoneName");
    if (!zone) return tl::unexpected(zone.error());
    return MountTarget{*std::move(id), *std::move(state), Zone(*std::move(zone))};
  });
}

}  // namespace spotter::wire
