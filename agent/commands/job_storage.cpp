#include "agent/commands/job_storage.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <set>
#include <thread>

#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/config/prepare.hpp"
#include "agent/config/run.hpp"
#include "agent/decide/policy.hpp"
#include "agent/host/cold.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"
#include "agent/launch/machines.hpp"
#include "agent/launch/requests.hpp"
#include "agent/sweep/summary.hpp"
#include "agent/wire/status.hpp"

namespace spotter::command {
namespace {

constexpr int looks = 60;  // one a second: a new volume usually appears within seconds
using wire::VolumeState;

bool is_gone(const wire::Volume& volume) {
  return volume.state == VolumeState::Deleting || volume.state == VolumeState::Deleted ||
         volume.state == VolumeState::Error;
}

// A volume of data, made from a user's snapshot.
bool is_of_data(const wire::Volume& volume) {
  return wire::value_of(volume.tags, tag::role) == "data";
}

// EC2 answers 200 even if the key may not be used; the volume then vanishes.
Result<void, CallError> wait_for(AwsCalls& calls, const VolumeId& id) {
  for (int look = 0; look < looks; ++look) {
    const auto seen = TRY(calls.ask_all(
        wire::DescribeVolumes{.volumes = {}, .filters = {{"volume-id", {id.str()}}}}));
    if (!seen.empty() && seen.front().state == VolumeState::Available) return {};
    if (!seen.empty() && is_gone(seen.front())) break;
    std::this_thread::sleep_for(std::chrono::seconds{1});
  }
  return failed("the new volume " + id.str() +
                " does not become available; if it is encrypted: may you use its KMS key?");
}

bool has_found_tag(const wire::Volume& volume, const config::Job& job) {
  const config::Tag& tag = job.storage.ebs.tag;
  return wire::value_of(volume.tags, tag.key) == tag.value;
}

// A volume with the job's name but without its tag: it belongs to a namesake whose tag does not
// name its storage (made by a user or an earlier version), or it is ours and lost its tag.
Result<void, CallError> refuse_namesakes_volume(const std::vector<wire::Volume>& there,
                                                const config::Job& job) {
  const auto named = [&](const wire::Volume& it) { return has_found_tag(it, job); };
  if (std::ranges::any_of(there, named)) return {};
  const config::Tag& tag = job.storage.ebs.tag;
  const std::string own = tag.key + "=" + tag.value;
  for (const wire::Volume& it : there) {
    if (wire::value_of(it.tags, tag::role) != "state") continue;
    const std::string its = wire::value_of(it.tags, tag.key);
    return failed("two jobs are called " + job.volumes_owner() + ", or the job's volume lost its " +
                  "tag: " + it.id.str() + (its.empty() ? "" : " (" + tag.key + "=" + its + ")") +
                  " is of a job of that name, and job.yaml wants " + own +
                  ": give one of them another name, or the volume that tag");
  }
  return {};
}

Result<void, CallError> provide(AwsCalls& calls, const config::Job& job,
                                const std::string& generation) {
  const auto there = TRY(volumes_of(calls, job));
  for (const wire::Volume& volume : there)
    if (volume.tags.contains(tag::done) && !job.sweep)
      return failed("the job is done already: " + volume.id.str() + " has the tag spotter:done; " +
                    how_to_run_again(volume));
  for (const wire::Volume& volume : there)
    if (!job.prepare.empty() &&
        !wire::value_of(volume.tags, tag::prepared).starts_with(config::digest_of(job.prepare)))
      std::fprintf(stderr, "spotter: %s has not got what `prepare:` names: `spotter prepare`\n",
                   volume.id.str().c_str());
  TRY(refuse_namesakes_volume(there, job));
  if (!there.empty()) return {};
  const auto snapshots = TRY(has_snapshots(calls, job));
  if (snapshots) return {};
  const config::Tag& tag = job.storage.ebs.tag;
  if (!job.launch->volume)
    return failed("no volume has the tag " + tag.key + "=" + tag.value +
                  ": make one, or say `launch.volume: {size: 100}`, and it is made");
  const std::string seed = job.volumes_owner() + "\n" + tag.key + "\n" + tag.value + "\n";
  const std::string token = "spotter-" + wire::sha256_hex(seed + generation).substr(0, 40);
  const auto command = launch::create_volume(job, token);
  const auto made = TRY(calls.ask(command, wire::decode<wire::CreateVolume>));
  std::fprintf(stderr, "spotter: the volume %s is made in %s (%llu GiB, %s=%s)\n",
               made.id.str().c_str(), made.zone.str().c_str(),
               static_cast<unsigned long long>(made.size_gib), tag.key.c_str(), tag.value.c_str());
  return wait_for(calls, made.id);
}

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

// Knows the names that scripts/package gives the agent's packages: spotter_1.0_amd64.deb,
// spotter-1.0-1.x86_64.rpm; not spotter-trainer_1.0_amd64.deb.
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

// Those that the wheel brings, or build/packages of the checkout whose build/FLAVOUR/bin this
// program lies in; empty: neither.
fs::path made_here() {
  std::error_code error;
  const fs::path installed = fs::path(own_program()).parent_path().parent_path();
  const fs::path build = installed.parent_path();
  if (const fs::path own = installed / "lib/spotter/packages"; fs::is_directory(own, error))
    return own;
  const fs::path made = build / "packages";
  return build.filename() == "build" && fs::is_directory(made, error) ? made : fs::path();
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
                   ": put Spotter's .deb, .rpm or .tar.gz (the wheel has them, `scripts/package` "
                   "makes them) beside " +
                   job_file + ", or name it in launch.package.file");
  return found;
}

Result<std::string> content_of(const std::string& path) {
  return behind(path, io::read_text(path, package_limit));
}

// The key is in the instances' shell, in an address, and on their disk.
bool has_plain_name(const fs::path& file) {
  return std::ranges::all_of(file.filename().string(), [](char each) {
    return std::isalnum(static_cast<unsigned char>(each)) != 0 ||
           std::string_view("._+~-").find(each) != std::string_view::npos;
  });
}

s3::Checksum checksum_of(const launch::SentPackage& package) {
  return {"x-amz-checksum-sha256", launch::bytes_of_hex(package.sha256)};
}

// S3 may have another kind of checksum: then the bytes are fetched.
Result<bool, s3::Failure> is_the_same(s3::Client& client, const s3::Object& object,
                                      const launch::SentPackage& package) {
  const auto ours = checksum_of(package);
  if (object.checksum.header == ours.header) return object.checksum.value == ours.value;
  if (object.size > package_limit) return false;
  std::string bytes(object.size, '\0');
  TRY(client.perform({.bucket = object.bucket,
                      .key = object.key,
                      .into = bytes,
                      .whole = true,
                      .etag = object.etag}));
  if (wire::sha256_hex(bytes) == package.sha256) return true;
  s3::Digest digest(object.checksum);
  digest.add(bytes);
  if (digest.matches()) return false;
  return tl::unexpected(
      s3::Failure{.kind = s3::Failure::Kind::Corrupt, .bucket = object.bucket, .key = object.key});
}

// True: it is there. False: it is not, or S3 does not say.
Result<bool, CallError> is_there(s3::Client& client, const launch::SentPackage& package) {
  using Kind = s3::Failure::Kind;
  const auto object = s3::head(client, package.where);
  if (!object) {
    // A caller who may not list the bucket gets this answer about a missing key, too.
    const Kind kind = object.error().kind;
    if (kind == Kind::NoSuchKey || kind == Kind::Permission) return false;
    return failed(object.error().text());
  }
  const auto same = TRY(is_the_same(client, *object, package));
  if (same) return true;
  return failed(wire::to_url(package.where) + " is another object than " + package.file +
                ", and instances would not install it: remove it, or name another place in "
                "launch.package.s3");
}

Result<void, CallError> send_one(s3::Client& client, const launch::SentPackage& package) {
  const auto there = TRY(is_there(client, package));
  if (there) return {};
  const auto bytes = TRY(content_of(package.file));
  const auto put =
      s3::put(client, package.where, bytes, {.absent = true, .etag = {}}, checksum_of(package));
  if (put) {
    io::complain("launch", package.file + " is sent to " + wire::to_url(package.where));
    return {};
  }
  if (put.error().kind != s3::Failure::Kind::Exists) return failed(put.error().text());
  if (!TRY(is_there(client, package)))  // another launch's
    return failed(put.error().text());
  return {};
}

}  // namespace

Result<std::vector<wire::Volume>, CallError> volumes_of(AwsCalls& calls, const config::Job& job) {
  std::vector<wire::Volume> found;
  std::set<VolumeId> known;
  const config::Tag& tag = job.storage.ebs.tag;
  for (const wire::Filter& filter :
       {wire::tagged(tag.key, tag.value), wire::tagged(tag::job, job.volumes_owner())}) {
    auto some = TRY(calls.ask_all(wire::DescribeVolumes{.volumes = {}, .filters = {filter}}));
    for (auto& volume : some) {
      const bool others =
          !has_found_tag(volume, job) && config::is_of_other_storage(volume.tags, job);
      if (!others && !is_gone(volume) && !is_of_data(volume) && known.insert(volume.id).second)
        found.push_back(std::move(volume));
    }
  }
  return found;
}

Result<bool, CallError> has_snapshots(AwsCalls& calls, const config::Job& job) {
  wire::DescribeSnapshots request;
  request.filters = {wire::tagged(tag::job, job.volumes_owner())};
  const auto found = TRY(calls.ask_all(request));
  return std::ranges::any_of(
      found, [&](const wire::Snapshot& it) { return !config::is_of_other_storage(it.tags, job); });
}

std::string words_of_move(const config::Job& job, std::uint64_t gibibytes) {
  constexpr double of_one_request = 2.5;  // MiB/s, at least: users' figures (tests/world/cold.hpp)
  constexpr std::uint64_t few = 16;       // GiB
  const decide::Policy policy;
  const double mebibytes = 1024 * static_cast<double>(gibibytes);
  const double gigabytes = mebibytes * (1U << 20) / 1e9;
  const auto paid = job.launch && job.launch->volume ? job.launch->volume->initialization_rate
                                                     : policy.initialization_rate;
  const double rate = paid.value_or(0);
  const double loaded = mebibytes / (rate > 0 ? rate : act::host::reads_behind * of_one_request);
  const std::string all = std::to_string(gibibytes) + " GiB";
  std::string words = "a move to another zone copies what changed since the last snapshot (" +
                      wire::duration_text(gigabytes * policy.copy_of_gigabyte.count()) +
                      " for all " + all + "), then reads the newest checkpoint, " +
                      wire::duration_text(1024 / policy.cold_rate) +
                      " a GiB; the rest, slow until then, is " +
                      (rate > 0 ? "loaded at the rate that is paid" : "read behind the trainer") +
                      " in " + wire::duration_text(loaded) + " at most";
  if (gibibytes > few)
    words +=
        "; the state on a volume of few GiB of its own, and data beside it or in channels "
        "(spotter-data(7)), make it quick";
  return words;
}

Result<void, CallError> provide_volumes(AwsCalls& calls, const config::Job& job,
                                        const std::string& generation) {
  if (job.storage.share) return {};
  if (!job.sweep) return provide(calls, job, generation);
  const auto sets = TRY(sets_of(job));
  for (std::size_t index = 0; index < sets.size(); ++index) {
    config::Job one = job;
    set_experiment(one, index, sets[index]);
    TRY(provide(calls, one, generation));
  }
  return {};
}

std::string how_to_run_again(const wire::Volume& volume) {
  const std::string place = wire::value_of(volume.tags, tag::fence);
  if (place.empty()) return "remove the tag spotter:done to run it again";
  const std::string line = wire::value_of(volume.tags, tag::lineage);
  return "to run it again, remove the tags spotter:done and spotter:fence, and the object " +
         place + (line.empty() ? volume.id.str() : line) + ".epoch";
}

Result<std::vector<launch::SentPackage>> packages_to_send(const config::Package& package,
                                                          const std::string& job_file) {
  std::vector<launch::SentPackage> packages;
  if (!package.is_sent()) return packages;
  const auto files = TRY(packages_here(package, job_file));
  for (const fs::path& file : files) {
    if (!has_plain_name(file))
      return failure(file.string() + ": give it a name of letters, digits and ._+~- alone");
    const auto bytes = TRY(content_of(file.string()));
    if (bytes.empty()) return failure(file.string() + " is empty: make the package again");
    const auto sha256 = wire::sha256_hex(bytes);
    packages.push_back({file.string(),
                        launch::place_of(package.source, file.filename().string(), sha256),
                        sha256});
  }
  return packages;
}

Result<void, CallError> send_packages(const std::vector<launch::SentPackage>& packages) {
  if (packages.empty()) return {};
  s3::Client client({.environment = act::Environment::of_this_process()});
  for (const launch::SentPackage& it : packages) TRY(send_one(client, it));
  return {};
}

}  // namespace spotter::command
