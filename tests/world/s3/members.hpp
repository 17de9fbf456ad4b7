// The members that S3's operations honour of a request's query, headers and document.
#pragma once

#include <optional>
#include <string_view>

#include "tests/world/members.hpp"
#include "tests/world/s3/digest.hpp"
#include "tests/world/s3/request.hpp"

namespace spotter::world::s3 {

// By operation: names of the query and, in lower case, of headers; paths of the document's
// elements.
const MemberTable& members();

// NotImplemented, or nothing. Headers that no operation's model has are none of S3's, and ignored.
std::optional<ApiError> refuse_members(const Request& request);
// The checksum that comes with the request's content, by its header or by that of the trailer.
std::optional<Algorithm> given_checksum(const Request& request);
std::optional<ApiError> refuse_elements(const Request& request, std::string_view document);

}  // namespace spotter::world::s3
