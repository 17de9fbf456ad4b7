// How a trainer asks that a channel begins at another position. Only the trainer knows from which
// checkpoint it resumes: one in a faster place, in S3, or an older one that a person chose. A
// trainer that does not ask begins at epoch 0.
//
//   <folder of the FIFOs>/.start/<channel>, "EPOCH:BYTES\n", put there by a rename
//
// The plane removes the file once the FIFOs begin there: that is the answer. It does so as soon as
// nobody reads the channel. A folder without .start belongs to a feeder that takes no requests.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::data {

// Where a stream begins: after `bytes` bytes of that epoch.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// "EPOCH:BYTES".
std::optional<Position> parse_position(std::string_view text);

class Requests {
 public:
  // Removes requests of an earlier run.
  static Result<Requests> make(const std::filesystem::path& fifos);
  Requests(Requests&& other) noexcept : folder_(std::move(other.folder_)) { other.folder_.clear(); }
  Requests& operator=(Requests&&) = delete;
  ~Requests();

  const std::filesystem::path& folder() const { return folder_; }
  // None: there is no request. Fails for text that is no position.
  Result<std::optional<Position>> asked(const std::string& channel) const;
  void answer(const std::string& channel) const;

 private:
  explicit Requests(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

}  // namespace spotter::data
