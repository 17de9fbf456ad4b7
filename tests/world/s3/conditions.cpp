#include "tests/world/s3/conditions.hpp"

#include <algorithm>
#include <charconv>

#include "agent/base/clock_text.hpp"

namespace spotter::world::s3 {
namespace {

// "*", or a list of "..." of which one is the etag; S3 takes one without marks, too.
bool names_etag(std::string_view list, std::string_view etag) {
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    while (one.ends_with(' ')) one.remove_suffix(1);
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one.size() >= 2 && one.starts_with('"') && one.ends_with('"'))
      one = one.substr(1, one.size() - 2);
    if (one == "*" || one == etag) return true;
  }
  return false;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

Condition reading(const Request& request, std::string_view etag, WallTime modified,
                  const std::string& prefix) {
  const auto changed_after = [&](const std::string& header) -> std::optional<bool> {
    const auto date = wire::parse_http_date(request.header(prefix + header));
    if (!date) return std::nullopt;
    return std::chrono::floor<std::chrono::seconds>(modified) > *date;
  };
  const std::string match = request.header(prefix + "if-match");
  if (!match.empty() && !names_etag(match, etag)) return Condition::Failed;
  if (match.empty() && changed_after("if-unmodified-since").value_or(false))
    return Condition::Failed;
  const std::string none_match = request.header(prefix + "if-none-match");
  if (!none_match.empty())
    return names_etag(none_match, etag) ? Condition::NotModified : Condition::Holds;
  return changed_after("if-modified-since").value_or(true) ? Condition::Holds
                                                           : Condition::NotModified;
}

bool is_conditional_write(const Request& request) {
  return request.headers.contains("if-match") || request.headers.contains("if-none-match");
}

std::optional<ApiError> refuse_write(const Request& request,
                                     const std::optional<std::string>& etag) {
  const std::string match = request.header("if-match");
  const std::string none_match = request.header("if-none-match");
  if (!none_match.empty() && none_match != "*")
    return ApiError{"NotImplemented",
                    "A header you provided implies functionality that is not implemented: "
                    "if-none-match is * for a write",
                    501};
  if (!match.empty() && !etag)
    return ApiError{"NoSuchKey", "The specified key does not exist.", 404};
  if ((!none_match.empty() && etag) || (!match.empty() && !names_etag(match, *etag)))
    return ApiError{"PreconditionFailed",
                    "At least one of the pre-conditions you specified did not hold", 412};
  return std::nullopt;
}

Expected<ByteRange> copy_range(std::string_view header, std::uint64_t size) {
  if (header.empty()) return ByteRange{0, size};
  constexpr std::string_view unit = "bytes=";
  const auto dash = header.find('-');
  const bool whole = header.starts_with(unit) && dash != std::string_view::npos;
  const auto first = whole ? number(header.substr(unit.size(), dash - unit.size())) : std::nullopt;
  const auto last = whole ? number(header.substr(dash + 1)) : std::nullopt;
  if (!first || !last || *last < *first)
    return refusal("InvalidArgument",
                   "The x-amz-copy-source-range value must be of the form bytes=first-last where "
                   "first and last are the zero-based offsets of the first and last bytes to copy");
  if (*last >= size)
    return refusal("InvalidArgument", "Range specified is not valid for source object of size: " +
                                          std::to_string(size));
  return ByteRange{*first, *last - *first + 1};
}

Selection select_range(std::string_view header, std::uint64_t size) {
  constexpr std::string_view unit = "bytes=";
  if (!header.starts_with(unit) || header.find(',') != std::string_view::npos) return {};
  header.remove_prefix(unit.size());
  const auto dash = header.find('-');
  if (dash == std::string_view::npos) return {};
  const auto first = number(header.substr(0, dash));
  const auto last = number(header.substr(dash + 1));
  const bool open_end = dash + 1 == header.size();
  if (dash == 0) {
    if (!last) return {};
    const std::uint64_t tail = std::min(*last, size);
    if (tail == 0) return Unsatisfiable{};
    return ByteRange{size - tail, tail};
  }
  if (!first || (!last && !open_end) || (last && *last < *first)) return {};
  if (*first >= size) return Unsatisfiable{};
  const std::uint64_t end = last ? std::min(*last, size - 1) : size - 1;
  return ByteRange{*first, end - *first + 1};
}

}  // namespace spotter::world::s3
