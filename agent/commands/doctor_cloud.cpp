// Checks what AWS has for the job: its volume, zones, subnets, types; and its buckets.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "agent/aws/formats/ec2_places.hpp"
#include "agent/aws/formats/ec2_query.hpp"
#include "agent/aws/formats/tags.hpp"
#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/commands/commands.hpp"
#include "agent/commands/doctor.hpp"
#include "agent/commands/job_storage.hpp"

namespace spotter::command {
namespace {

const char* const allow_it = "allow it: `spotter iam` prints the policies";

Finding refused(const char* check, const CallError& failure) {
  return {check, Verdict::Fail, failure.message, failure.forbidden() ? allow_it : "try again"};
}

// Looks for what would stop the agent from using this volume.
Finding judge(const wire::Volume& volume, const config::Job& job) {
  const std::string what = volume.id.str() + " in " + volume.zone.str() + ", " + volume.type +
                           ", " + std::to_string(volume.size_gib) + " GiB, " +
                           std::string(to_text(volume.state));
  const std::string owner = wire::value_of(volume.tags, tag::job);
  if (!owner.empty() && owner != job.volumes_owner())
    return {"volume", Verdict::Fail, what + ", is of the job " + owner,
            "give this job a tag of its own in storage.ebs.tag, or remove the tag spotter:job"};
  if (volume.state == wire::VolumeState::Error)
    return {"volume", Verdict::Fail, what, "make another and move the tag to it"};
  if (!wire::value_of(volume.tags, tag::done).empty())
    return {"volume", Verdict::Warn, what + ", says that the job is done",
            how_to_run_again(volume)};
  const bool new_and_blank = owner.empty() && volume.from_snapshot.empty();
  if (new_and_blank && wire::value_of(volume.tags, tag::format).empty())
    return {"volume", Verdict::Warn, what + ", was never used by Spotter",
            "if it is new and empty, give it the tag spotter:format=blank: only then it gets a "
            "file system"};
  return {"volume", Verdict::Ok, what, ""};
}

Finding move_of(const config::Job& job, std::uint64_t gibibytes) {
  return {"move", Verdict::Ok, words_of_move(job, gibibytes), ""};
}

// With a fence the original of a move carries the tag, too, until it is deleted while the job runs
// on the copy.
void erase_originals(std::vector<wire::Volume>& found) {
  const auto line = [](const wire::Volume& it) {
    const std::string lineage = wire::value_of(it.tags, tag::lineage);
    return lineage.empty() ? it.id.str() : lineage;
  };
  const auto moves = [](const wire::Volume& it) {
    return std::atoi(wire::value_of(it.tags, tag::moves).c_str());
  };
  const std::vector<wire::Volume> all = found;
  std::erase_if(found, [&](const wire::Volume& it) {
    return std::ranges::any_of(all, [&](const wire::Volume& other) {
      return line(other) == line(it) && moves(other) > moves(it);
    });
  });
}

Findings judge_tag(AwsCalls& calls, const config::Job& job, const DoctorScope& scope) {
  config::Tag tag = job.storage.ebs.tag;
  // Each experiment has its own volume: see config::Job.
  const std::string more =
      job.sweep && !job.experiment ? std::string{config::before_index, '*'} : "";
  const std::string pattern = wire::exactly(tag.value) + more;
  tag.value += more;
  const std::string named = "the tag " + tag.key + "=" + tag.value;
  auto found = calls.ask_all(wire::DescribeVolumes{{}, {{"tag:" + tag.key, {pattern}}}, {}});
  if (!found) return {refused("volume", found.error())};
  std::erase_if(*found, [](const wire::Volume& it) {
    return it.state == wire::VolumeState::Deleting || it.state == wire::VolumeState::Deleted;
  });
  if (job.sweep && !job.experiment)
    return {{"volume", Verdict::Ok,
             std::to_string(found->size()) + " volumes of experiments carry " + named, ""}};
  if (found->empty() && scope.makes_volume)
    return {{"volume", Verdict::Ok, "no volume carries " + named + ", one will be made", ""},
            move_of(job, job.launch->volume->size_gib)};
  if (found->empty())
    return {{"volume", Verdict::Fail, "no volume in this region carries " + named,
             "make one, or give the tag to the one that is meant"}};
  erase_originals(*found);
  if (found->size() == 1)
    return {judge(found->front(), job), move_of(job, found->front().size_gib)};
  std::set<std::string> ids;
  for (const wire::Volume& it : *found) ids.insert(it.id.str());
  return {{"volume", Verdict::Fail,
           std::to_string(ids.size()) + " volumes carry " + named + " (" + joined(ids) + ")",
           "take the tag from all but one"}};
}

// Checks the snapshot from which a volume of data is made.
Finding judge_data(AwsCalls& calls, const config::DataVolume& data) {
  wire::DescribeSnapshots request;
  request.filters = {{"snapshot-id", {data.snapshot}}};
  const auto found = calls.ask_all(request);
  if (!found) return refused("data", found.error());
  const std::string what = data.snapshot + " for " + data.mount;
  if (found->empty())
    return {"data", Verdict::Warn, what + ": this account has no such snapshot in this region",
            "if another account shares it, all may be well; else correct job.yaml"};
  const wire::Snapshot& seen = found->front();
  if (seen.state != wire::SnapshotState::Completed)
    return {"data", Verdict::Fail,
            what + " is not completed: " + std::to_string(seen.progress) + " %",
            "wait until it is, or name another"};
  return {"data", Verdict::Ok, what + ", " + std::to_string(seen.size_gib) + " GiB", ""};
}

// The zones that exist, and those in which the job may run.
struct Zones {
  std::set<std::string> all;
  std::map<std::string, std::string> names;  // by id
  Findings findings;
};
Zones zones_of(AwsCalls& calls, const DoctorScope& scope) {
  Zones zones;
  const auto there = calls.ask(wire::DescribeAvailabilityZones{});
  if (!there) {
    zones.findings.push_back(refused("zones", there.error()));
    return zones;
  }
  std::set<std::string> known, impaired;
  for (const auto& it : there->items) {
    known.insert(it.zone.str());
    zones.names[it.id] = it.zone.str();
    if (it.state != "available") impaired.insert(it.zone.str());
  }
  std::set<std::string> unknown;
  for (const std::string& wanted : scope.zones)
    (known.contains(wanted) ? zones.all : unknown).insert(wanted);
  if (scope.zones.empty()) zones.all = known;
  if (!unknown.empty())
    zones.findings.push_back(
        {"zones", Verdict::Fail,
         "this account has no " + joined(unknown) + " in " + calls.region().str(),
         "choose among " + joined(known)});
  else if (!impaired.empty())
    zones.findings.push_back(
        {"zones", Verdict::Warn, "not available now: " + joined(impaired), "wait, or leave out"});
  else
    zones.findings.push_back({"zones", Verdict::Ok, joined(zones.all), ""});
  return zones;
}

Finding judge_subnets(AwsCalls& calls, const DoctorScope& scope,
                      const std::set<std::string>& zones) {
  wire::DescribeSubnets request{.subnets = scope.subnets};
  if (scope.subnets.empty()) request.filters = {{"default-for-az", {"true"}}};
  const auto found = calls.ask_all(std::move(request));
  if (!found && found.error().code == "InvalidSubnetID.NotFound")
    return {"subnets", Verdict::Fail, found.error().message, "name subnets of this region"};
  if (!found) return refused("subnets", found.error());
  std::set<std::string> without = zones, full;
  for (const wire::Subnet& it : *found) {
    without.erase(it.zone.str());
    if (it.free_addresses == 0) full.insert(it.id);
  }
  const char* const which = scope.subnets.empty() ? "default subnets" : "subnets";
  if (without == zones)
    return {"subnets", Verdict::Fail, std::string("there are no ") + which + " in " + joined(zones),
            "name subnets, or make the default ones: `aws ec2 create-default-subnet`"};
  if (!full.empty())
    return {"subnets", Verdict::Fail, "no address is free in " + joined(full), "name others"};
  if (!without.empty())
    return {"subnets", Verdict::Warn, std::string("no ") + which + " in " + joined(without),
            "nothing will be launched there"};
  return {"subnets", Verdict::Ok, std::to_string(found->size()) + " in " + joined(zones), ""};
}

Finding judge_types(AwsCalls& calls, const DoctorScope& scope, const std::set<std::string>& zones) {
  const auto found = calls.ask_all(wire::DescribeInstanceTypeOfferings{scope.types, {}});
  if (!found) return refused("types", found.error());
  std::set<std::string> unknown(scope.types.begin(), scope.types.end());
  std::set<std::string> without = zones;
  for (const wire::TypeOffering& it : *found) {
    if (!zones.contains(it.zone.str())) continue;
    unknown.erase(it.type.str());
    without.erase(it.zone.str());
  }
  const std::set<std::string> all(scope.types.begin(), scope.types.end());
  if (unknown == all)
    return {"types", Verdict::Fail, "none of these zones has " + joined(all),
            "choose other instance types or zones"};
  if (!unknown.empty())
    return {"types", Verdict::Warn, "in none of these zones: " + joined(unknown),
            "they will never be launched"};
  if (!without.empty())
    return {"types", Verdict::Warn, "nothing of " + joined(all) + " in " + joined(without),
            "nothing will be launched there"};
  return {"types", Verdict::Ok, joined(all), ""};
}

// EC2's own estimate, which says something of three types and more. It refuses nothing.
Finding judge_capacity(AwsCalls& calls, const DoctorScope& scope, const Zones& zones) {
  constexpr std::uint64_t likely = 4;  // of 10
  const auto found = calls.ask_all(
      wire::GetSpotPlacementScores{scope.types, scope.capacity.value_or(1), calls.region()});
  if (!found)
    return {"capacity", Verdict::Ok, "EC2 was not asked how likely it is: " + found.error().message,
            ""};
  std::set<std::string> scores;
  std::uint64_t best = 0;
  for (const wire::SpotPlacementScore& it : *found) {
    const auto name = zones.names.find(it.zone_id);
    if (name == zones.names.end() || !zones.all.contains(name->second)) continue;
    scores.insert(name->second + " " + std::to_string(it.score));
    best = std::max(best, it.score);
  }
  const std::string what = scores.empty() ? "EC2 has no spot placement score for these zones"
                                          : "spot placement scores, 10 is best: " + joined(scores);
  if (best >= likely) return {"capacity", Verdict::Ok, what, ""};
  return {"capacity", Verdict::Warn, what, "it may wait: name more instance types or zones"};
}

// The buckets: reachable, readable, and writable where the job writes.

Finding refused(const s3::Failure& failure) {
  using Kind = s3::Failure::Kind;
  std::string advice = "try again";
  if (failure.kind == Kind::NoSuchBucket) advice = "make it, or name the one that is meant";
  if (failure.kind == Kind::Permission)
    advice =
        "allow it: `spotter iam` prints the policies; a channel of a bucket whose requester "
        "pays has to say `requester_pays: true`";
  if (failure.kind == Kind::Untrusted) advice = "mend this machine's trust or clock, as it says";
  if (failure.kind == Kind::NoSuchKey) advice = "put it there, or name the one that is meant";
  return {"bucket", Verdict::Fail, failure.text(), advice};
}

// Asks with our keys and at the owner's cost, unless a channel says otherwise.
s3::Client client_of(const wire::Channel& channel = {}) {
  return s3::Client({.environment = act::Environment::of_this_process(),
                     .anonymous = channel.anonymous,
                     .requester_pays = channel.requester_pays});
}

// Lists one page only.
Finding readable(const wire::Channel& channel, const std::string& what) {
  const wire::S3Location& where = channel.source;
  s3::Client client = client_of(channel);
  const auto answer = client.perform(s3::list_request(where, "", ""));
  const auto page = s3::page_of(where, answer);
  if (!page) return refused(page.error());
  if (page->objects.empty())
    return {"bucket", Verdict::Fail, what + ": there is nothing at " + wire::to_url(where),
            "put the data there, or name the place that is meant"};
  return {"bucket", Verdict::Ok, what + ": " + wire::to_url(where) + " can be listed", ""};
}

Finding there(const wire::Channel& channel, const std::string& what) {
  const wire::S3Location& where = channel.source;
  s3::Client client = client_of(channel);
  const auto head = s3::head(client, where);
  if (!head) return refused(head.error());
  return {"bucket", Verdict::Ok, what + ": " + wire::to_url(where) + " can be read", ""};
}

// The test object, always of the same name, stays if the writer may not delete there.
Finding puttable(const wire::S3Location& below, const std::string& what) {
  s3::Client client = client_of();
  const wire::S3Location probe{below.bucket, below.key + "doctor"};
  if (const auto put = s3::put(client, probe, ""); !put) return refused(put.error());
  (void)s3::remove(client, probe);
  return {"bucket", Verdict::Ok, what + ": " + wire::to_url(below) + " can be written", ""};
}

// Some stores that speak S3's language pass over If-None-Match or If-Match: there two machines
// could write one home. One test object, always the same, stays if nothing may be removed.
Finding conditional(const wire::S3Location& below, const std::string& what) {
  using Kind = s3::Failure::Kind;
  s3::Client client = client_of();
  const wire::S3Location probe{below.bucket, below.key + "doctor"};
  const auto first = s3::put(client, probe, s3::new_writer());
  if (!first) return refused(first.error());
  const auto second = s3::put(client, probe, s3::new_writer(), {.absent = true, .etag = {}});
  const auto now = s3::put(client, probe, s3::new_writer());
  if (!now) return refused(now.error());
  const auto stale = s3::put(client, probe, s3::new_writer(), {.absent = false, .etag = *first});
  (void)s3::remove(client, probe);
  // A write that a condition refuses fails as Exists, whichever condition that is.
  const bool absent = !second && second.error().kind == Kind::Exists;
  const bool same = !stale && stale.error().kind == Kind::Exists;
  if (absent && same)
    return {"bucket", Verdict::Ok,
            what + ": " + wire::to_url(below) + " takes conditional writes alone", ""};
  if (!second && !absent) return refused(second.error());
  if (!stale && !same) return refused(stale.error());
  return {"bucket", Verdict::Fail,
          what + ": the store of " + wire::to_url(below) + " passes over " +
              (absent ? "If-Match" : "If-None-Match") + ": two machines could write at once",
          "take a store that honours conditional writes, as S3 does, or other storage"};
}

// Writes, reads and removes an object of a unique name.
Finding writable(const wire::S3Location& below, const std::string& what) {
  s3::Client client = client_of();
  const std::string content = s3::new_writer();
  const wire::S3Location probe{below.bucket, below.key + "doctor-" + content};
  if (const auto put = s3::put(client, probe, content); !put) return refused(put.error());
  const auto read = s3::read(client, probe);
  const auto removed = s3::remove(client, probe);
  if (!read) return refused(read.error());
  if (!removed) {
    Finding finding = refused(removed.error());
    finding.advice += "; then remove " + wire::to_url(probe);
    return finding;
  }
  return {"bucket", Verdict::Ok,
          what + ": " + wire::to_url(below) + " can be written, read and removed", ""};
}

}  // namespace

Findings examine_storage(AwsCalls& calls, const config::Job& job, const DoctorScope& scope) {
  if (!job.storage.share) {
    Findings findings = judge_tag(calls, job, scope);
    for (const config::DataVolume& data : job.storage.data)
      findings.push_back(judge_data(calls, data));
    return findings;
  }
  if (job.storage.in_bucket()) return {{"storage", Verdict::Ok, config::describe(job.storage), ""}};
  const bool shared_out = job.claims || job.gang;
  if (scope.capacity.value_or(1) > 1 && !shared_out)
    return {{"storage", Verdict::Fail,
             std::to_string(*scope.capacity) + " instances at once would write to " +
                 config::describe(job.storage),
             "launch one, or let them share out the work: `claims: {at: s3://...}`"}};
  if (!shared_out)
    return {{"storage", Verdict::Warn, config::describe(job.storage) + ", and nothing locks it",
             "launch one instance at a time, or add `claims:`"}};
  return {{"storage", Verdict::Ok, config::describe(job.storage), ""}};
}

Findings examine_places(AwsCalls& calls, const config::Job&, const DoctorScope& scope) {
  Zones zones = zones_of(calls, scope);
  Findings findings = std::move(zones.findings);
  if (zones.all.empty()) return findings;
  findings.push_back(judge_subnets(calls, scope, zones.all));
  if (!scope.types.empty()) findings.push_back(judge_types(calls, scope, zones.all));
  if (std::set(scope.types.begin(), scope.types.end()).size() >= 3)
    findings.push_back(judge_capacity(calls, scope, zones));
  return findings;
}

Findings examine_package(const LaunchedJob& launched) {
  const config::Package& package = launched.job.launch->package;
  // AWS's own parameters name images that everybody has.
  if (package.source == "baked" && launched.job.launch->image.starts_with("resolve:ssm:/aws/"))
    return {{"package", Verdict::Warn,
             "launch.package is `baked`, and launch.image is a public one, which has no Spotter",
             "say `package: {s3: s3://bucket/prefix/}`, and `spotter launch` brings it"}};
  const auto where = wire::parse_s3_url(package.source);
  if (!where) return {};
  if (package.is_sent()) return {puttable(*where, "launch.package")};
  s3::Client client = client_of();
  const auto head = s3::head(client, *where);
  // Only the instances have to read it; an earlier version's policy did not let who launches.
  if (!head && head.error().kind == s3::Failure::Kind::Permission)
    return {{"bucket", Verdict::Warn, "launch.package: " + wire::to_url(*where) + " cannot be read",
             "whether it is there is open: give who launches what `spotter iam launcher` prints"}};
  return {there({.source = *where}, "launch.package")};
}

Findings examine_buckets(const config::Job& job, bool on_instance) {
  Findings findings;
  for (const wire::Channel& channel : job.channels.all) {
    const bool one_object = channel.type != wire::S3DataType::S3Prefix;
    const auto look = one_object ? there : readable;
    findings.push_back(look(channel, "channel " + channel.name));
  }
  if (job.sweep && !job.sweep->source.empty())
    if (const auto where = wire::parse_s3_url(job.sweep->source))
      findings.push_back(there({.source = *where}, "sweep.parameters"));
  if (job.claims) findings.push_back(writable(job.claims->at, "claims"));
  if (job.gang && !on_instance) findings.push_back(conditional(job.gang->at, "gang"));
  if (const auto where = job.fenced_at()) findings.push_back(puttable(*where, "fence"));
  if (const auto where = job.headed_at()) findings.push_back(conditional(*where, "storage.s3"));
  if (const auto where = job.published_at()) findings.push_back(puttable(*where, "publish"));
  return findings;
}

}  // namespace spotter::command
