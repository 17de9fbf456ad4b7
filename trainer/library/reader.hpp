// The records of a channel, epoch after epoch, from SageMaker's FIFOs `<folder>/<channel>_<epoch>`
// (or regular files of these names).
//
//   auto reader = Reader::open({.channel = "train", .start = *recorded(meta, "train")});
//   while (true) {
//     auto next = (*reader)->next();
//     if (!next) die(next.error().message);       // also a last record that is cut off
//     if (next->kind == Next::Kind::EndOfEpoch) break;
//     use(next->record);                          // valid until the next call
//   }
//
// The records lie where they were read to: what is copied is the begin of one that the end of the
// memory cut. The position is that of the records handed out, whatever was read ahead.
//
// Beginning in the middle is asked of `spotter pipe` (agent/data/requests.hpp), which starts the
// stream there: only the trainer knows which checkpoint it goes on from. Source of the protocol:
// https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"
#include "trainer/library/framing.hpp"
#include "trainer/library/position.hpp"

namespace spotter::channel {

struct ReaderSettings {
  std::string channel;
  Format format;
  // Of `<channel>_0`, ...; empty: that of $SM_CHANNEL_<CHANNEL>, else /opt/ml/input/data.
  std::filesystem::path folder;
  Position start;
};

struct Next {
  enum class Kind : std::uint8_t {
    Record,
    EndOfEpoch,  // the call after it begins the next one
    NotYet,      // nothing came in the time given
  } kind = Kind::NotYet;
  std::string_view record;
};

class Reader {
 public:
  // Opens nothing yet. Fails on a format that is none.
  static Result<std::unique_ptr<Reader>> open(ReaderSettings settings);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  // Fails, and from then on always, when the stream ends inside a record, is no stream of records,
  // cannot begin where it was asked to, or never appears.
  Result<Next> next(std::chrono::milliseconds longest = std::chrono::hours(24 * 365));

  // Goes on there; what was read ahead is forgotten.
  void move_to(const Position& position);

  const std::string& name() const;
  // Of what next() has handed out. Behind the end of an epoch: the begin of the next one.
  const Position& position() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace spotter::channel
