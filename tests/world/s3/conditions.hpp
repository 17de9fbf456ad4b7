// Whether a request's conditions and range hold of an object. Pure.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-reads.html, RFC 9110 sections
// 13 and 14
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "tests/world/s3/request.hpp"
#include "tests/world/settings.hpp"

namespace spotter::world::s3 {

enum class Condition : std::uint8_t { Holds, NotModified, Failed };

// `etag` without its quotation marks. `prefix`: "", or "x-amz-copy-source-" for CopyObject.
Condition reading(const Request& request, std::string_view etag, WallTime modified,
                  const std::string& prefix = "");

// Why a conditional write is refused, if it is: 412 PreconditionFailed, 404 NoSuchKey for an
// If-Match where there is nothing, 501 for an If-None-Match of anything but "*".
// `etag`: of the object that is there, if one is.
std::optional<ApiError> refuse_write(const Request& request,
                                     const std::optional<std::string>& etag);
bool is_conditional_write(const Request& request);

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t size = 0;
};
struct Unsatisfiable {};
// The whole object (monostate: no range, or one that RFC 9110 tells to ignore), a part of it, or
// 416.
using Selection = std::variant<std::monostate, ByteRange, Unsatisfiable>;
Selection select_range(std::string_view header, std::uint64_t size);
// The range of a part's copy, first to last within the source; all of it where `header` is empty.
Expected<ByteRange> copy_range(std::string_view header, std::uint64_t size);

}  // namespace spotter::world::s3
