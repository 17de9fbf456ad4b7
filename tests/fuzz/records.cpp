// The records of a channel, in each framing, and the positions in a checkpoint's meta.
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "trainer/library/reader.hpp"
#include "trainer/library/recordio.hpp"

namespace spotter::fuzz {
namespace {

using channel::Format;
using channel::Framing;

struct Cut {
  std::vector<std::string> records;
  std::size_t taken = 0;
  bool failed = false;
  friend bool operator==(const Cut&, const Cut&) = default;
};

Cut cut(std::string_view bytes, Format format, std::size_t step) {
  Framing framing(format);
  Cut all;
  for (std::size_t end = 0;;) {
    const auto record = framing.cut(bytes.substr(all.taken, end - all.taken));
    all.failed = !record;
    if (!record) return all;
    if (*record) {
      must((*record)->taken > 0, "a record takes something");
      must((*record)->taken <= end - all.taken, "a record is of what was given");
      must((*record)->bytes.size() <= (*record)->taken, "a record is no larger than its stream");
      all.records.emplace_back((*record)->bytes);
      all.taken += (*record)->taken;
    } else if (end == bytes.size()) {
      return all;
    } else {
      end = std::min(bytes.size(), end + step);
    }
  }
}

void positions(std::string_view bytes) {
  const auto meta = nlohmann::json::parse(bytes, nullptr, false);
  if (!meta.is_object()) return;
  const auto position = channel::recorded(meta, "t");
  if (!position) return must(!position.error().message.empty(), "an error is reported");
  auto again = nlohmann::json::object();
  channel::record(again, "t", *position);
  must(channel::recorded(again, "t") == *position, "a position recorded reads the same");
}

}  // namespace

void examine(std::string_view bytes) {
  for (const Format format : {Format{Format::Kind::RecordIo}, Format{Format::Kind::Lines},
                              Format{Format::Kind::Fixed, 5}}) {
    const Cut whole = cut(bytes, format, bytes.size() + 1);
    must(cut(bytes, format, 1) == whole, "however it comes, it is the same records");
    must(cut(bytes, format, 7) == whole, "however it comes, it is the same records");
    const Cut again = cut(bytes.substr(whole.taken), format, 64);
    must(again.records.empty(), "behind the records there is none");
    must(cut(bytes.substr(0, whole.taken), format, 64).records == whole.records,
         "a stream that ends behind a record has all of them");
  }
  positions(bytes);
}

}  // namespace spotter::fuzz
