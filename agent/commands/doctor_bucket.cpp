// Checks the buckets: reachable, readable, and writable where the job writes.

#include "agent/aws/s3/objects.hpp"
#include "agent/aws/settings/settings.hpp"
#include "agent/commands/doctor.hpp"

namespace spotter::command {
namespace {

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
