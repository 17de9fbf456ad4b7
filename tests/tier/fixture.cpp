#include "tests/tier/fixture.hpp"

#include <stdlib.h>

#include <atomic>
#include <fstream>
#include <memory>

#include "trainer/library/bucket.hpp"

namespace spotter::tier {

namespace fs = std::filesystem;

constexpr const char* prefix = "runs/one 1/";

InS3::InS3() { record_one("checkpoint-1", transformers("checkpoint-1")); }

InS3::~InS3() {
  for (const auto& storage : lost_) fs::remove_all(storage);
}

Options InS3::options(const std::string& job) const {
  Options options{where(), {"bucket", prefix}, job, {}};
  options.where.as_trainer = true;
  options.s3 = s3_test::settings_for(server_);
  return options;
}

void InS3::lose_the_storage() {
  lost_.push_back(mount_);
  char name[] = "/tmp/spotter-guard-XXXXXX";
  mount_ = ::mkdtemp(name);
  fs::create_directories(mount_ / ".spotter");
}

void InS3::record_one(const std::string& name, const Steps& steps) {
  run(steps);
  auto watching = keeper();
  record(watching, name);
}

void InS3::save(const std::string& name) {
  record_one(name, transformers(name));
  const auto copied = copy(options());
  ASSERT_TRUE(copied) << copied.error().message;
  ASSERT_EQ(*copied, name);
}

Result<std::optional<std::string>> InS3::fetch() {
  return tier::fetch(options(), [this](const std::string& words) { said_.push_back(words); });
}

std::string InS3::fetched() {
  const auto name = fetch();
  EXPECT_TRUE(name) << name.error().message;
  return name ? name->value_or("") : "";
}

std::vector<std::string> InS3::keys() const {
  std::set<std::string> keys;
  for (const auto& request : server_.requests()) {
    constexpr std::string_view bucket = "/bucket/";
    if (request.method == "PUT" && server_.find(request.path.substr(bucket.size())))
      keys.insert(request.path.substr(bucket.size() + std::string_view(prefix).size()));
  }
  return {keys.begin(), keys.end()};
}

std::string InS3::manifest_of(const std::string& folder) const {
  for (const std::string& key : keys())
    if (key.starts_with("manifests/" + folder + "-")) return prefix + key;
  return {};
}

std::string InS3::key_of(const std::string& folder, const std::string& file) const {
  const auto manifest = server_.find(manifest_of(folder));
  const auto decoded = manifest ? bucket::decode(manifest->bytes) : failure("");
  return decoded ? prefix + decoded->files.at(file).key() : "";
}

void InS3::refuse_from(int request, int status) {
  if (request == 0) return server_.refuse({});
  const auto count = std::make_shared<std::atomic<int>>(0);
  server_.refuse([=](const auto&) -> std::optional<s3_test::Reply> {
    if (++*count < request) return std::nullopt;
    return s3_test::refusal(status, status == 403 ? "AccessDenied" : "InternalError");
  });
}

std::map<std::string, std::string> InS3::contents(const std::string& folder) const {
  std::map<std::string, std::string> contents;
  if (!exists(folder)) return contents;
  for (const auto& each : fs::recursive_directory_iterator(path(folder))) {
    const auto name = fs::relative(each.path(), path(folder)).string();
    if (each.is_regular_file()) contents[name] = read(folder + "/" + name);
  }
  return contents;
}

void InS3::expect_whole(const std::string& folder) const {
  const auto settled = settle();
  EXPECT_EQ(settled.name, folder);
  EXPECT_TRUE(settled.torn.empty());
  EXPECT_EQ(set_aside(), 0U);
  EXPECT_FALSE(exists(".spotter-fetching"));
}

}  // namespace spotter::tier
