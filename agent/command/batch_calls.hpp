// AWS Batch for a command in the foreground: one call after the other, each waited for. The
// credentials are the SDKs' chain, the instance's role at its end.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "agent/wire/batch.hpp"

namespace spotter::command {

struct BatchError {
  std::string code;        // ClientException; empty without an answer
  std::string message;     // for a person, with the action
  bool unsettled = false;  // it may have been carried out
};
template <class T>
using BatchResult = tl::expected<T, BatchError>;

class BatchCalls {
 public:
  // Fails without a region.
  static Result<std::unique_ptr<BatchCalls>> open();
  ~BatchCalls();
  BatchCalls(const BatchCalls&) = delete;
  BatchCalls& operator=(const BatchCalls&) = delete;

  // The body of a 200; throttling and AWS's own trouble were waited out for a minute at most.
  BatchResult<std::string> perform(const wire::BatchCall& call);

  // The same, decoded.
  template <class T, class... Wanted>
  BatchResult<T> ask(const wire::BatchCall& call,
                     Result<T> (*decode)(std::string_view, const Wanted&...),
                     const Wanted&... wanted) {
    const auto body = perform(call);
    if (!body) return tl::unexpected(body.error());
    auto decoded = decode(*body, wanted...);
    if (decoded) return std::move(*decoded);
    return tl::unexpected(BatchError{"", call.action + ": " + decoded.error().message,
                                     call.repeatable != wire::Repeatable::Read});
  }

 private:
  struct Parts;
  explicit BatchCalls(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace spotter::command
