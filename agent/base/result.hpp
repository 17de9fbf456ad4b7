// Bad input and failed conversions are values: Result<T>. The world's failures are events
// (decide/event.hpp), our own bugs are assertions.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace spotter {

struct Error {
  std::string message;  // for a person: what is wrong, and what to do
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> failure(std::string message) {
  return tl::unexpected<Error>(Error{std::move(message)});
}

}  // namespace spotter
