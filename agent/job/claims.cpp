#include "agent/job/claims.hpp"

#include "agent/aws/formats/s3.hpp"
#include "agent/job/scalars.hpp"

namespace spotter::config {
namespace {

const Scalar<wire::S3Location> prefix{"where in S3, such as s3://bucket/claims", parse_s3_prefix};

// Several writes to S3, each with retries, must fit into a lease.
const Scalar<Duration> lease{"a duration such as 60s", parse_lease<1>};

}  // namespace

Reader::Take claims(Reader& reader, std::optional<Claims>& claims) {
  return [&](const Node& node, const std::string& path) {
    claims.emplace();
    reader.map(node, path,
               {{"at", required, reader.expanded(claims->at, prefix)},
                {"lease", optional, reader.scalar(claims->lease, lease)}});
  };
}

void finish_claims(Reader& reader, const Node& root, Job& job) {
  const Node* sweep = child(root, "sweep");
  const Node* stop = sweep == nullptr ? nullptr : child(*sweep, "stop");
  if (stop != nullptr && child(root, "claims") == nullptr)
    reader.problem(*stop, "sweep.stop",
                   "needs `claims: {at: s3://bucket/prefix}`: what the experiments have reached is "
                   "compared there. In an array (Batch, Slurm, Kubernetes) each runs to its end");
  if (!job.claims) return;
  const bool in_vain = job.storage.in_bucket() && !job.sweep;
  if (const Node* node = child(root, "claims"); node != nullptr && in_vain)
    reader.problem(*node, "claims",
                   "is not needed with storage.s3: the home's own head says who may write");
  job.claims->at.key += job.name.str() + "/";
  for (std::size_t i = 0; i < root.keys.size() && i < root.items.size(); ++i) {
    if (root.keys[i].text == "claims" && !job.storage.share && !job.sweep) {
      reader.problem(
          root.items[i], "claims",
          "one job on storage.ebs needs none: a volume is attached to one instance at a time");
    }
  }
}

}  // namespace spotter::config
