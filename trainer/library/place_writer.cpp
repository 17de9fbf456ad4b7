#include "trainer/library/place_writer.hpp"

#include "trainer/library/writer.hpp"

namespace spotter::checkpoint {

const PartEntry* PlaceWriter::unchanged(const Made& made, const Part& part,
                                        const std::string& sample) {
  const auto known = made.parts.find(part.name);
  const bool same = known != made.parts.end() && known->second.entry.bytes == part.bytes.size() &&
                    known->second.sample == sample &&
                    known->second.entry.xxh3_128 == sum_of(part.bytes);
  return same ? &known->second.entry : nullptr;
}

Result<void> PlaceWriter::is_writer() const {
  return lock_ != nullptr ? lock_->still_held() : Result<void>();
}

Result<PlaceWriter::Written> PlaceWriter::write(const Copy& copy) {
  // Also before: what looks like a dead writer's leftovers may be the other one's checkpoint.
  if (auto held = is_writer(); !held) return tl::unexpected(held.error());
  auto writer = Writer::begin(place_.directory, copy.step());
  if (!writer) return tl::unexpected(writer.error());
  const std::size_t copies = place_.retention.last > 1 ? 2 : 1;
  const Made none;
  const Made& origin = made_.size() < copies ? none : made_.front();
  Written written;
  std::map<std::string, std::string> samples;
  std::vector<Part> changed;
  for (const auto& part : copy.parts()) {
    const auto& sample = samples[part.name] = sample_of(part.bytes);
    const auto* known = unchanged(origin, part, sample);
    if (known && writer->link_part(*known, origin.path)) continue;
    changed.push_back(part);
    written.bytes += part.bytes.size();
  }
  if (auto added = writer->add_parts(changed); !added) return tl::unexpected(added.error());
  if (auto held = is_writer(); !held) return tl::unexpected(held.error());
  auto path = writer->commit(copy.meta(), copy.metric());
  if (!path) {
    made_.clear();
    return tl::unexpected(path.error());
  }
  Made made{*path, {}};
  for (const auto& entry : writer->manifest().parts) {
    made.parts[entry.name] = {entry, samples[entry.name]};
  }
  std::erase_if(made_, [&](const Made& one) { return one.path == *path; });  // it was replaced
  made_.push_back(std::move(made));
  if (made_.size() > copies) made_.pop_front();
  written.path = *path;
  apply(place_.retention, place_.directory, copy.step());
  return written;
}

}  // namespace spotter::checkpoint
