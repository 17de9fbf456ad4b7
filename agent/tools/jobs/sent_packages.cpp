#include "agent/tools/jobs/sent_packages.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/io/complain.hpp"
#include "agent/job/file.hpp"
#include "agent/launch/machines.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

// A package has some MiB; the name of what is larger is a mistake.
constexpr std::size_t package_limit = 256U << 20;

constexpr std::array<std::string_view, 3> package_kinds{".deb", ".rpm", ".tar.gz"};

std::string_view kind_of(const fs::path& file) {
  const std::string name = file.filename().string();
  const auto it =
      std::ranges::find_if(package_kinds, [&](auto kind) { return name.ends_with(kind); });
  return it == package_kinds.end() ? std::string_view() : *it;
}

// As scripts/package names the agent's: spotter_1.0_amd64.deb, spotter-1.0-1.x86_64.rpm; not
// spotter-trainer_1.0_amd64.deb.
bool is_of_the_agent(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.size() > 8 && (name.starts_with("spotter_") || name.starts_with("spotter-")) &&
         std::isdigit(static_cast<unsigned char>(name[8])) != 0 && !kind_of(file).empty();
}

// An instance chooses by kind and architecture.
bool are_for_the_same(const fs::path& one, const fs::path& other) {
  const auto of_one = launch::architecture_of_package(one.filename().string());
  const auto of_other = launch::architecture_of_package(other.filename().string());
  const bool differ = !of_one.empty() && !of_other.empty() && of_one != of_other;
  return kind_of(one) == kind_of(other) && !differ;
}

Result<Paths> packages_in(const fs::path& folder) {
  Paths found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (is_of_the_agent(it->path())) found.push_back(it->path());
  if (error) return failure(folder.string() + ": " + error.message());
  std::ranges::sort(found);
  for (const fs::path& one : found)
    for (const fs::path& other : found)
      if (one < other && are_for_the_same(one, other))
        return failure("there are " + one.string() + " and " + other.filename().string() +
                       ": name one in launch.package.file, or remove the other");
  return found;
}

// build/packages of the checkout whose build/FLAVOUR/bin this program lies in; empty: it does not.
fs::path made_here() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path build = program.parent_path().parent_path().parent_path();
  const fs::path made = build / "packages";
  return !error && build.filename() == "build" && fs::is_directory(made, error) ? made : fs::path();
}

Result<Paths> packages_here(const config::Package& package, const std::string& job_file) {
  const fs::path beside = fs::absolute(job_file).parent_path();
  if (!package.file.empty()) {
    const fs::path named = beside / package.file;
    std::error_code error;
    if (!fs::is_directory(named, error)) {
      if (!kind_of(named).empty()) return Paths{named};
      return failure("launch.package.file: " + named.string() +
                     " is no folder, and its name does not end with .deb, .rpm or .tar.gz");
    }
    auto found = packages_in(named);
    if (found && found->empty())
      return failure("launch.package.file: " + named.string() +
                     " has no package of Spotter's agent, such as spotter_1.0_amd64.deb");
    return found;
  }
  auto found = packages_in(beside);
  if (const auto made = made_here(); found && found->empty() && !made.empty())
    found = packages_in(made);
  if (found && found->empty())
    return failure("there is no package to send to " + package.source +
                   ": put Spotter's .deb, .rpm or .tar.gz (`scripts/package` makes them) beside " +
                   job_file + ", or name it in launch.package.file");
  return found;
}

Result<std::string> content_of(const std::string& path) {
  auto file = config::read_small_file(path, package_limit);
  if (!file) return failure(path + ": " + file.error().message);
  return std::move(file->content);
}

// The key is in the instances' shell, in an address, and on their disk.
bool has_plain_name(const fs::path& file) {
  return std::ranges::all_of(file.filename().string(), [](char each) {
    return std::isalnum(static_cast<unsigned char>(each)) != 0 ||
           std::string_view("._+~-").find(each) != std::string_view::npos;
  });
}

s3::Checksum checksum_of(const launch::SentPackage& package) {
  return {s3::Checksum::Kind::Sha256, launch::bytes_of_hex(package.sha256)};
}

// S3 may have another kind of checksum: then the bytes are fetched.
Result<bool, s3::Failure> is_the_same(s3::Client& client, const s3::Object& object,
                                      const launch::SentPackage& package) {
  if (object.checksum.kind == s3::Checksum::Kind::Sha256)
    return object.checksum.value == checksum_of(package).value;
  if (object.size > package_limit) return false;
  std::string bytes(object.size, '\0');
  if (const auto read = s3::read_into(client, object, bytes); !read)
    return tl::unexpected(read.error());
  return wire::sha256_hex(bytes) == package.sha256;
}

// True: it is there. False: it is not, or S3 does not say.
Result<bool, CallError> is_there(s3::Client& client, const launch::SentPackage& package) {
  using Kind = s3::Failure::Kind;
  const auto object = s3::head(client, package.where);
  if (!object) {
    // Who may not list the bucket gets this answer about a key that is not there, too.
    const Kind kind = object.error().kind;
    if (kind == Kind::NoSuchKey || kind == Kind::Permission) return false;
    return failed(object.error().text());
  }
  const auto same = is_the_same(client, *object, package);
  if (!same) return failed(same.error().text());
  if (*same) return true;
  return failed(wire::to_url(package.where) + " is another object than " + package.file +
                ", and instances would not install it: remove it, or name another place in "
                "launch.package.s3");
}

Result<void, CallError> send_one(s3::Client& client, const launch::SentPackage& package) {
  const auto there = is_there(client, package);
  if (!there) return tl::unexpected(there.error());
  if (*there) return {};
  const auto bytes = content_of(package.file);
  if (!bytes) return failed(bytes.error().message);
  const auto put =
      s3::put(client, package.where, *bytes, {.absent = true, .etag = {}}, checksum_of(package));
  if (put) {
    io::complain("launch", package.file + " is sent to " + wire::to_url(package.where));
    return {};
  }
  if (put.error().kind != s3::Failure::Kind::Exists) return failed(put.error().text());
  const auto meanwhile = is_there(client, package);  // another launch's
  if (!meanwhile) return tl::unexpected(meanwhile.error());
  if (!*meanwhile) return failed(put.error().text());
  return {};
}

}  // namespace

Result<std::vector<launch::SentPackage>> packages_to_send(const config::Package& package,
                                                          const std::string& job_file) {
  std::vector<launch::SentPackage> packages;
  if (!package.is_sent()) return packages;
  const auto files = packages_here(package, job_file);
  if (!files) return tl::unexpected(files.error());
  for (const fs::path& file : *files) {
    if (!has_plain_name(file))
      return failure(file.string() + ": give it a name of letters, digits and ._+~- alone");
    const auto bytes = content_of(file.string());
    if (!bytes) return tl::unexpected(bytes.error());
    if (bytes->empty()) return failure(file.string() + " is empty: make the package again");
    const auto sha256 = wire::sha256_hex(*bytes);
    packages.push_back({file.string(),
                        launch::place_of(package.source, file.filename().string(), sha256),
                        sha256});
  }
  return packages;
}

Result<void, CallError> send_packages(const std::vector<launch::SentPackage>& packages) {
  if (packages.empty()) return {};
  s3::Client client({.environment = act::Environment::of_this_process()});
  for (const launch::SentPackage& it : packages)
    if (auto sent = send_one(client, it); !sent) return sent;
  return {};
}

}  // namespace spotter::command
