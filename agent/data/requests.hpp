// Where a trainer asks that a channel begins elsewhere: it knows which checkpoint it goes on from,
// and nobody else does (it may be one in a faster place, or in S3, or an older one that a person
// chose). A trainer that knows nothing of this asks for nothing, and begins at epoch 0.
//
//   <folder of the FIFOs>/.start/<channel>, "EPOCH:BYTES\n", put there by a rename
//
// That it is gone again is the answer: the FIFOs now begin there. It is answered as soon as nobody
// reads the channel. A folder without .start is fed by somebody who cannot be asked.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::data {

// Where a stream begins: so many bytes into that epoch's.
struct Position {
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// "EPOCH:BYTES".
std::optional<Position> parse_position(std::string_view text);

class Requests {
 public:
  // Nothing is asked yet: what lay there is of a run that is over.
  static Result<Requests> make(const std::filesystem::path& fifos);
  Requests(Requests&& other) noexcept : folder_(std::move(other.folder_)) { other.folder_.clear(); }
  Requests& operator=(Requests&&) = delete;
  ~Requests();

  const std::filesystem::path& folder() const { return folder_; }
  // None: nobody asks. Fails on what is no position.
  Result<std::optional<Position>> asked(const std::string& channel) const;
  void answer(const std::string& channel) const;

 private:
  explicit Requests(std::filesystem::path folder) : folder_(std::move(folder)) {}

  std::filesystem::path folder_;
};

}  // namespace spotter::data
