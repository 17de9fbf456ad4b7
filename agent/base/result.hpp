// Bad input and failed conversions are values: Result<T>. The world's failures are events
// (decide/event.hpp), our own bugs are assertions. The error is an Error; of a system call the
// std::error_code; of a call over the network a CallError.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace spotter {

struct CallError;

struct Error {
  std::string message;  // for a person: what is wrong, and what to do
  std::string kind{};   // for a program: stable, kebab-case, "device-absent"; empty: none decides

  operator CallError() const;  // NOLINT: of a call that came to nothing before it was made
};

template <class T, class E = Error>
using Result = tl::expected<T, E>;

template <class T, class E>
T value_in(Result<T, E>&& result) {
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// The value of the Result that is given; where it has none, the function that says this returns the
// error. A macro, as no function returns for its caller, of a statement in an expression, which GCC
// and Clang have. Coroutines cannot use it, nor can the words within another TRY.
// A value that guards something, such as a lock, needs a name: else it goes at the semicolon.
#define TRY(...)                                                 \
  __extension__({                                                \
    auto tried = (__VA_ARGS__);                                  \
    if (!tried) return tl::unexpected(std::move(tried).error()); \
    spotter::value_in(std::move(tried));                         \
  })

inline tl::unexpected<Error> failure(std::string message, std::string kind = {}) {
  return tl::unexpected(Error{std::move(message), std::move(kind)});
}

// The same Result, whose error, if it has one, is an Error of no kind: these words, ": ", its own.
template <class T, class E>
Result<T> behind(const std::string& words, Result<T, E> result) {
  return std::move(result).map_error([&](const E& it) {
    if constexpr (requires { it.text(); })
      return Error{words + ": " + it.text()};
    else if constexpr (requires { it.message(); })
      return Error{words + ": " + it.message()};
    else
      return Error{words + ": " + it.message};
  });
}

// Why a call over the network came to nothing: to one of AWS's services, to the instance metadata
// service, or any other exchange over HTTP.
struct CallError {
  enum class Kind : std::uint8_t {
    NotSent,        // certainly nothing reached the server
    Throttled,      // to the end of the attempts; nothing was changed
    Transient,      // the server's own trouble, a time-out, or a lost answer: of an exchange
                    // over HTTP it may have been carried out, of a call to AWS it changes nothing
    Unknown,        // a mutating call whose answer was lost: it may have been carried out
    NoCredentials,  // no source has any
    ExpiredCredentials,  // and fresh ones did not help
    NotFound,
    Permission,  // the server says no, or its certificate is not accepted: nothing was changed
    DryRun,      // it would have succeeded
    Unreadable,  // the answer is too long, or not what the API documents
    Cancelled,   // by the caller
    Other,       // refused: `code` says why
  };
  Kind kind = Kind::Other;
  std::string code{};  // AWS's, e.g. IncorrectState; empty when there was no answer
  std::string message{};
  std::string retry_after{};  // the header x-amz-retry-after, as it came
  std::string action{};       // what was asked for: DescribeVolumes
  int status = 0;             // HTTP; 0: no answer
  int attempts = 0;

  bool unsettled() const { return kind == Kind::Unknown; }
  bool forbidden() const { return kind == Kind::Permission; }
  operator Error() const { return {message}; }  // NOLINT: its words are all that a person needs
};
inline Error::operator CallError() const { return {.message = message}; }

// The base of a class that others refer to, or that owns what the system knows by its place: it is
// neither copied nor moved.
struct Pinned {
  Pinned() = default;
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
};

// A check's finding before a job's start, for a person.
struct Finding {
  enum class Verdict : std::uint8_t { Ok, Warn, Fail };
  std::string check;  // credentials, volume, zones, ...
  Verdict verdict = Verdict::Ok;
  std::string what;    // what was found
  std::string advice;  // what to do; empty if nothing
};
using Verdict = Finding::Verdict;
using Findings = std::vector<Finding>;

// Exit statuses of commands, other than 0 and 1.

inline constexpr int wrong_input = 2;  // the arguments or job.yaml are wrong; nothing was done
inline constexpr const char* input_mistake = "wrong-input";  // the kind of such an Error
// Without words: they are printed already.
inline tl::unexpected<Error> mistake(std::string message = {}) {
  return failure(std::move(message), input_mistake);
}
// The same Result, whose error, if it has one, is such a mistake.
template <class T, class E>
Result<T> of_input(Result<T, E>&& result) {
  return std::move(result).map_error([](const Error& it) { return mistake(it.message).value(); });
}
inline constexpr int job_failed = 3;  // of commands that look at a job: it gave up
// EX_UNAVAILABLE: of `spotter gang`, to its agent: the machine is not fit for the gang.
inline constexpr int give_machine_back = 69;
// EX_CONFIG: of `spotter set-up`, to its agent: the trainer was not reached.
inline constexpr int setup_failed = 78;

}  // namespace spotter
