// S3 with one object, the gang's record. A request may be lost, take long, be done after its sender
// gave up, or be done and its answer lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/gang/participant.hpp"

namespace spotter::gang {

struct Answer {
  enum class Kind : std::uint8_t { Seen, Wrote, Refused } kind = Kind::Seen;
  std::optional<Seen> seen{};
  std::string etag{};
};

// Watches each version of the record.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void changed(const std::optional<Record>& before, const Record& after,
                       const std::string& by) = 0;
};

class SimBucket {
 public:
  explicit SimBucket(Watcher& watcher) : watcher_(watcher) {}

  Answer carry_out(const Ask& ask, const std::string& by) {
    const std::string etag = record_ ? std::to_string(version_) : "";
    const auto* write = std::get_if<Write>(&ask);
    if (write == nullptr) {
      if (!record_) return {Answer::Kind::Seen};
      return {Answer::Kind::Seen, Seen{*record_, etag}};
    }
    if (write->etag != etag) return {Answer::Kind::Refused};
    watcher_.changed(record_, write->record, by);
    record_ = write->record;
    return {Answer::Kind::Wrote, std::nullopt, std::to_string(++version_)};
  }
  const std::optional<Record>& record() const { return record_; }

 private:
  Watcher& watcher_;
  std::optional<Record> record_;
  std::uint64_t version_ = 0;
};

}  // namespace spotter::gang
