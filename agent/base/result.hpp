// Bad input and failed conversions are values: Result<T>. The world's failures are events
// (decide/event.hpp), our own bugs are assertions. The error is an Error; of a system call the
// std::error_code; of a call over the network a CallError (base/call_error.hpp).
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace spotter {

struct Error {
  std::string message;  // for a person: what is wrong, and what to do
  std::string kind{};   // for a program: stable, kebab-case, "device-absent"; empty: none decides
};

template <class T, class E = Error>
using Result = tl::expected<T, E>;

inline tl::unexpected<Error> failure(std::string message, std::string kind = {}) {
  return tl::unexpected(Error{std::move(message), std::move(kind)});
}

}  // namespace spotter
