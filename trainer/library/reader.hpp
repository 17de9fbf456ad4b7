// The position in a channel, recorded in a checkpoint's `meta`, so that a run that restores the
// weights continues with the next record.
//   "spotter_channels": {"train": {"epoch": 3, "bytes": 47760, "records": 60}}
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "trainer/library/recordio.hpp"

namespace spotter::channel {

// The consumed part of an epoch: bytes of its stream, framing included, and records.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  std::uint64_t records = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

inline constexpr const char* kPositions = "spotter_channels";

// REQUIRES: `meta` is an object.
void record(nlohmann::json& meta, const std::string& channel, const Position& position);

// The start of epoch 0 if `meta` lacks the channel. Fails for what record() did not write.
Result<Position> recorded(const nlohmann::json& meta, const std::string& channel);

// Reads a channel's records, epoch after epoch, from SageMaker's FIFOs `<folder>/<channel>_<epoch>`
// (or regular files of these names).
//
//   auto reader = Reader::open({.channel = "train", .start = *recorded(meta, "train")});
//   while (true) {
//     auto next = (*reader)->next();
//     if (!next) die(next.error().message);       // also for an incomplete last record
//     if (next->kind == Next::Kind::EndOfEpoch) break;
//     use(next->record);                          // valid until the next call
//   }
//
// Records are not copied, except for a record that crosses the end of the buffer. The position is
// that of the returned records, whatever was read ahead.
//
// To begin in the middle it asks `spotter pipe` (agent/data/stream.hpp) to start the stream
// there: only the trainer knows from which checkpoint it resumes. Source of the protocol:
// https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html

struct ReaderSettings {
  std::string channel;
  Format format;
  // The folder of `<channel>_0`, ...; empty: $SM_CHANNEL_<CHANNEL>'s, else /opt/ml/input/data.
  std::filesystem::path folder;
  Position start;
};

struct Next {
  enum class Kind : std::uint8_t {
    Record,
    EndOfEpoch,  // the next call begins the next epoch
    NotYet,      // nothing arrived in the given time
  } kind = Kind::NotYet;
  std::string_view record;
};

class Reader {
 public:
  // Opens no file yet. Fails for an invalid format.
  static Result<std::unique_ptr<Reader>> open(ReaderSettings settings);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Fails, and in all later calls as well, when the stream ends inside a record, is no stream of
  // records, cannot begin where requested, or never appears.
  Result<Next> next(std::chrono::milliseconds longest = std::chrono::hours(24 * 365));

  // Continues at `position`; drops what was read ahead.
  void move_to(const Position& position);

  const std::string& name() const;
  // After the last record that next() returned. After the end of an epoch: the begin of the next.
  const Position& position() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace spotter::channel
