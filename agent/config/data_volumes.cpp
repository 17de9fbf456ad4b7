// `storage:` as a list: the job's own volume, and volumes of data.

#include "agent/config/scalars.hpp"
#include "agent/config/storage.hpp"

namespace spotter::config {
namespace {

// EC2 recommends eleven device names, one of which is the job's own volume's.
constexpr std::size_t most_data = 10;

bool is_snapshot(std::string_view text) { return is_id(text, "snap-") && SnapshotId::fits(text); }
const Scalar<std::string> snapshot{.expected = "a snapshot's id such as snap-0123456789abcdef0",
                                   .fits = is_snapshot};

// VolumeInitializationRate:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVolume.html
const Scalar<int> initialization_rate{"MiB/s, such as 200", parse_between<100, 300>};

Reader::Fields data_fields(Reader& reader, DataVolume& data) {
  return {{"snapshot", required, reader.expanded(data.snapshot, snapshot)},
          {"mount", required, reader.expanded(data.mount, mount_point)},
          {"type", optional, reader.scalar(data.type, volume_type)},
          {"iops", optional, reader.scalar(data.iops, volume_rate)},
          {"throughput", optional, reader.scalar(data.throughput, volume_rate)},
          {"initialization_rate", optional,
           reader.scalar(data.initialization_rate, initialization_rate)}};
}

void check_type(Reader& reader, const Node& node, const std::string& path, const DataVolume& data) {
  const bool provisioned = data.type == "io1" || data.type == "io2";
  if (provisioned && !data.iops)
    reader.problem(node, path, "a volume of type " + data.type + " needs iops");
  if (data.iops && !provisioned && data.type != "gp3")
    reader.problem(node, path, "a volume of type " + data.type + " takes no iops");
  if (data.throughput && data.type != "gp3")
    reader.problem(node, path, "a volume of type " + data.type + " takes no throughput");
}

// None may be mounted below another, which could then not be unmounted.
void check_mounts(Reader& reader, const Node& node, const std::string& path,
                  const Storage& storage) {
  for (std::size_t i = 0; i < storage.data.size(); ++i) {
    const DataVolume& data = storage.data[i];
    std::vector<std::string> others{storage.ebs.mount};
    for (std::size_t j = 0; j < i; ++j) {
      others.push_back(storage.data[j].mount);
      if (storage.data[j].snapshot == data.snapshot && !data.snapshot.empty())
        reader.problem(node, path, data.snapshot + " is there twice: one volume of it will do");
    }
    for (const std::string& other : others)
      if (!data.mount.empty() && !other.empty() &&
          (is_at_or_below(data.mount, other) || is_at_or_below(other, data.mount)))
        reader.problem(node, path,
                       "the mounts " + data.mount + " and " + other +
                           " lie within one another: keep them apart");
  }
}

}  // namespace

void storage_list(Reader& reader, Storage& to, const Node& node, const std::string& path) {
  std::size_t states = 0;
  to.data.reserve(node.items.size());
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i];
    const std::string here = path + "[" + std::to_string(i) + "]";
    const auto state = [&](const Node& value, const std::string& below) {
      ++states;
      if (value.kind == Node::Kind::List) return reader.problem(value, below, "is no list");
      read_storage(reader, value, below, to);
      if (to.share)
        reader.problem(value, below, "with volumes of data beside it the state is kept on `ebs`");
    };
    const auto data = [&](const Node& value, const std::string& below) {
      reader.map(value, below, data_fields(reader, to.data.emplace_back()));
      check_type(reader, value, below, to.data.back());
    };
    reader.map(item, here, {{"state", optional, state}, {"data", optional, data}});
    if (item.kind == Node::Kind::Map && item.keys.size() != 1)
      reader.problem(
          item, here,
          "expected exactly one of state, data, found " + std::to_string(item.keys.size()));
  }
  if (states != 1)
    reader.problem(node, path, "expected exactly one state, found " + std::to_string(states));
  if (to.data.size() > most_data)
    reader.problem(node, path,
                   "at most 10 volumes of data, found " + std::to_string(to.data.size()));
  check_mounts(reader, node, path, to);
}

void check_data(Reader& reader, const Job& job) {
  if (job.storage.data.empty()) return;
  if (job.claims)
    reader.problem("storage",
                   "volumes of data are not for a job with claims: name the data in `channels:`, "
                   "or put it on the share");
  if (reader.environment().foreground)
    reader.problem("storage",
                   "spotter run attaches no volumes of data: use spotter agent, or name the data "
                   "in `channels:`");
  if (reader.given("sagemaker.link") == nullptr || !job.sagemaker) return;
  for (const DataVolume& data : job.storage.data)
    if (!data.mount.empty() && is_at_or_below(job.sagemaker->link, data.mount))
      reader.problem("sagemaker.link", "lies on a volume of data, which is read-only");
}

}  // namespace spotter::config
