// Writes copies as checkpoints of one place. Unchanged parts (frozen layers) are hard-linked to the
// checkpoint before the last one, not written again. So two neighbours never share bytes on the
// disk, and a bad block damages only one of them. If only one checkpoint is kept, parts are linked
// to that.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>

#include "agent/base/result.hpp"
#include "trainer/library/copy.hpp"
#include "trainer/library/saver.hpp"
#include "trainer/library/writer_lock.hpp"

namespace spotter::checkpoint {

class PlaceWriter {
 public:
  // `lock`: of the directory; a checkpoint gets its name only while that is still held. None: there
  // is no other writer. It must outlive this.
  explicit PlaceWriter(Place place, const WriterLock* lock = nullptr)
      : place_(std::move(place)), lock_(lock) {}

  struct Written {
    std::filesystem::path path;
    std::uint64_t bytes = 0;  // without linked parts
  };

  // Fails when another writer has the directory since.
  Result<void> is_writer() const;
  // Durable when it returns; then applies the retention. Touches nothing unless it is_writer().
  Result<Written> write(const Copy& copy);

 private:
  struct Known {
    PartEntry entry;
    std::string sample;
  };
  using Parts = std::map<std::string, Known, std::less<>>;

  struct Made {
    std::filesystem::path path;
    Parts parts;
  };

  // The part of `made` that has the same bytes; null: none.
  static const PartEntry* unchanged(const Made& made, const Part& part, const std::string& sample);

  Place place_;
  const WriterLock* lock_;
  // The last checkpoints that this writer made durable, the newest last: parts are linked only to
  // these. Two, or one if only one is kept.
  std::deque<Made> made_;
};

}  // namespace spotter::checkpoint
