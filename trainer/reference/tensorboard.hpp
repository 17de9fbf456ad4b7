// The scalars of a run as TensorBoard reads them: one event file, TFRecords of Event messages.
// Format: tensorflow/core/lib/io/record_writer.h (length, masked CRC-32C of it, bytes, masked
// CRC-32C of them) and tensorflow/core/util/event.proto (wall_time 1, step 2, file_version 3,
// summary 5).
#pragma once

#include <memory>

#include "trainer/library/files.hpp"

namespace spotter::train {

using Scalars = std::vector<std::pair<std::string, double>>;

class TensorBoard {
 public:
  // Goes on behind the records of steps up to `step`; later ones, and a torn end, are cut off: no
  // step is recorded twice, however often it was interrupted. `to_come`: a tag whose record of
  // `step` itself is still to be added; where it is there already it is cut off, too.
  static Result<std::unique_ptr<TensorBoard>> open(const fs::path& directory, std::uint64_t step,
                                                   const std::string& to_come = "");
  void add(std::uint64_t step, const Scalars& scalars);
  // All that was added is durable when it returns.
  Result<void> flush();

 private:
  TensorBoard(checkpoint::Descriptor file, fs::path path)
      : file_(std::move(file)), path_(std::move(path)) {}

  checkpoint::Descriptor file_;
  fs::path path_;
  std::string pending_;
};

// One framed record, for tests too.
std::string tensorboard_record(const std::string& event);

}  // namespace spotter::train
