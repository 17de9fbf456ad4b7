#include "trainer/checkpoint/place_writer.hpp"

#include "trainer/checkpoint/writer.hpp"

namespace spotter::checkpoint {

bool PlaceWriter::unchanged(const Part& part, const std::string& sample) const {
  const auto known = known_.find(part.name);
  return known != known_.end() && known->second.entry.bytes == part.bytes.size() &&
         known->second.sample == sample && known->second.entry.xxh3_128 == sum_of(part.bytes);
}

Result<PlaceWriter::Written> PlaceWriter::write(const Copy& copy) {
  auto writer = Writer::begin(place_.directory, copy.step());
  if (!writer) return tl::unexpected(writer.error());
  Written written;
  std::map<std::string, std::string> samples;
  std::vector<Part> changed;
  for (const auto& part : copy.parts()) {
    const auto& sample = samples[part.name] = sample_of(part.bytes);
    if (unchanged(part, sample) && writer->link_part(known_.find(part.name)->second.entry, last_)) {
      continue;
    }
    changed.push_back(part);
    written.bytes += part.bytes.size();
  }
  if (auto added = writer->add_parts(changed); !added) return tl::unexpected(added.error());
  auto path = writer->commit(copy.meta(), copy.metric());
  if (!path) {
    known_.clear();
    return tl::unexpected(path.error());
  }
  last_ = written.path = *path;
  known_.clear();
  for (const auto& entry : writer->manifest().parts) {
    known_[entry.name] = {entry, samples[entry.name]};
  }
  apply(place_.retention, place_.directory, copy.step());
  return written;
}

}  // namespace spotter::checkpoint
