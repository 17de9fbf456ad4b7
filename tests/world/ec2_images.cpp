// Images, which are of one region each.
#include <algorithm>

#include "tests/world/ec2_api.hpp"
#include "tests/world/offers.hpp"

namespace spotter::world {

std::string local_image(const Settings& settings, std::string id) {
  constexpr std::size_t digit = std::string_view("ami-0").size();
  if (settings.foreign_images && id.size() > digit) id[digit] = 'e';
  return id;
}

namespace {

constexpr const char* image_owner = "136693071363";

struct ImageRow {
  std::string id;
  const char* architecture;
  const char* state;
  int days_old;
  int deprecated_in;  // days from the world's beginning
  Tags tags;
  const char* name = "";
  const char* parameter = "";
};

// The first is what AWS's own parameters name. All are AWS's, and so are shown as long as they are
// neither deprecated nor disabled.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ami-deprecate.html
std::vector<ImageRow> images(const Settings& settings) {
  std::vector<ImageRow> rows = {
      {"ami-0123456789abcdef0",
       "x86_64",
       "available",
       30,
       700,
       {},
       "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.10 (Ubuntu 24.04) 20261101",
       "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.10-ubuntu-24.04/"
       "latest/ami-id"},
      {"ami-0b110000000000000",
       "x86_64",
       "available",
       20,
       710,
       {},
       "Deep Learning OSS Nvidia Driver AMI GPU PyTorch 2.11 (Ubuntu 24.04) 20261111",
       "/aws/service/deeplearning/ami/x86_64/oss-nvidia-driver-gpu-pytorch-2.11-ubuntu-24.04/"
       "latest/ami-id"},
      {"ami-0a640000000000000", "arm64", "available", 30, 700, {}},
      {"ami-0d000000000000000", "x86_64", "available", 800, -70, {}},
      {"ami-0d150000000000000", "x86_64", "disabled", 400, 330, {}},
      {"ami-0f000000000000000", "x86_64", "pending", 0, 730, {}},
  };
  for (ImageRow& it : rows) it.id = local_image(settings, it.id);
  return rows;
}

std::optional<ApiError> check_image_ids(const Query& query, const Settings& settings) {
  for (const std::string& id : query.list("ImageId")) {
    if (!id.starts_with("ami-"))
      return ApiError{"InvalidAMIID.Malformed",
                      "Invalid id: \"" + id + "\" (expecting \"ami-...\")"};
    if (std::ranges::none_of(images(settings), [&](const ImageRow& it) { return it.id == id; }))
      return ApiError{"InvalidAMIID.NotFound", "The image id '[" + id + "]' does not exist"};
  }
  return std::nullopt;
}

void write_image(Xml& xml, const ImageRow& it, const Cloud& cloud) {
  const auto date = [&](int days) {
    return xml_time(cloud.settings.origin + std::chrono::days{days});
  };
  xml.text("imageId", it.id);
  xml.text("imageState", it.state);
  xml.text("imageOwnerId", image_owner);
  xml.text("imageOwnerAlias", "amazon");
  if (*it.name != '\0') xml.text("name", it.name);
  if (*it.parameter != '\0') xml.text("publicSsmParameterName", it.parameter);
  xml.text("creationDate", date(-it.days_old));
  xml.text("deprecationTime", date(it.deprecated_in));
  xml.value("isPublic", true);
  xml.text("architecture", it.architecture);
  xml.text("imageType", "machine");
  xml.text("rootDeviceType", "ebs");
  xml.text("rootDeviceName", "/dev/xvda");
  xml.element("blockDeviceMapping", [&] {
    xml.element("item", [&] {
      xml.text("deviceName", "/dev/xvda");
      xml.element("ebs", [&] { xml.value("volumeSize", 8); });
    });
  });
  xml.text("virtualizationType", "hvm");
  xml.value("enaSupport", true);
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html
Answer describe_images(Session& session) {
  const Query& query = session.query;
  if (auto wrong = check_image_ids(query, session.cloud.settings)) return tl::unexpected(*wrong);
  std::vector<ImageRow> rows = images(session.cloud.settings);
  const bool deprecated = query.boolean("IncludeDeprecated");
  const bool disabled = query.boolean("IncludeDisabled");
  const auto ids = query.list("ImageId");
  const auto owners = query.list("Owner");
  const bool of_owners = owners.empty() || std::ranges::any_of(owners, [](const std::string& it) {
                           return it == image_owner || it == "amazon";
                         });
  if (!of_owners) rows.clear();
  std::erase_if(rows, [&](const ImageRow& it) {
    if (!ids.empty() && std::ranges::count(ids, it.id) == 0) return true;
    if (std::string_view(it.state) == "disabled") return !disabled;
    return it.deprecated_in < 0 && !deprecated;
  });
  const auto page = select<ImageRow>(
      session, rows, {}, "", {"architecture", "image-id", "name", "state"},
      [](const ImageRow& it) -> Facts {
        return {{"architecture", it.architecture},
                {"image-id", it.id},
                {"name", it.name},
                {"state", it.state}};
      },
      [](const ImageRow& it) { return it.id; });
  if (!page) return tl::unexpected(page.error());
  Xml xml;
  xml.items("imagesSet", page->rows,
            [&](const ImageRow& it) { write_image(xml, it, session.cloud); });
  xml.optional("nextToken", page->next);
  return xml;
}

}  // namespace

std::string architecture_of_image(const Settings& settings, const std::string& id) {
  for (const ImageRow& it : images(settings))
    if (it.id == id) return it.architecture;
  return "";
}

bool is_of_another_region(const Settings& settings, const std::string& id) {
  Settings other = settings;
  other.foreign_images = !settings.foreign_images;
  const auto rows = images(other);
  return std::ranges::find(rows, id, &ImageRow::id) != rows.end();
}

void add_image_operations(Operations& operations) {
  operations["DescribeImages"] = describe_images;
}

}  // namespace spotter::world
