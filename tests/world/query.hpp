// The parameters of an EC2 Query request, read by type. Lists are Name.1, Name.2, ...; structures
// Name.Member. https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/world/values.hpp"

namespace spotter::world {

struct Filter {
  std::string name;
  std::vector<std::string> values;  // one of which must match; * and ? are wildcards
};

// Reading never fails at once: the first problem is kept in error().
class Query {
 public:
  using Parameters = std::map<std::string, std::string>;
  explicit Query(const Parameters& parameters) : parameters_(parameters) {}

  bool has(const std::string& name) const { return parameters_.count(name) > 0; }
  std::string text(const std::string& name, const std::string& otherwise = {}) const;
  std::string required(const std::string& name) const;
  std::optional<int> integer(const std::string& name) const;
  double decimal(const std::string& name, double otherwise) const;
  bool boolean(const std::string& name) const;
  std::string base64(const std::string& name) const;  // decoded

  std::vector<std::string> list(
      const std::string& name) const;  // the values of Name.1, Name.2, ...
  // "Name.1.", "Name.2.", ...: the prefixes of a list of structures, in numeric order.
  std::vector<std::string> members(const std::string& name) const;
  // The tags in `name` (a list of tag specifications) for this type of resource.
  Tags tags_for(const std::string& resource, const std::string& name = "TagSpecification") const;
  Tags tags(const std::string& name) const;  // Name.1.Key, Name.1.Value, ...
  std::vector<Filter> filters() const;
  Parameters below(const std::string& prefix) const;  // without the prefix
  const Parameters& all() const { return parameters_; }
  // The names that nobody has asked for by the functions above, but for below() and all(): what was
  // accepted and did nothing.
  std::vector<std::string> unread() const;

  const std::optional<ApiError>& error() const { return error_; }
  void refuse(const std::string& code, const std::string& message) const;

 private:
  const Parameters& parameters_;
  mutable std::optional<ApiError> error_;
  mutable std::set<std::string> read_;
};

// A row's value under each filter's name; several entries where a name has several values.
using Facts = std::multimap<std::string, std::string>;

bool matches(const std::string& pattern, const std::string& text);  // with * and ?
// InvalidParameterValue for a filter that is neither known nor tag:KEY, tag-key, tag-value.
Expected<void> check_filters(const std::vector<Filter>& filters,
                             const std::vector<std::string>& known);
bool passes(const std::vector<Filter>& filters, const Facts& facts, const Tags& tags);

// One page of the rows by MaxResults and NextToken; `next` is empty at the end.
template <class Row>
struct Page {
  std::vector<Row> rows;
  std::string next;
};
template <class Row>
Page<Row> page(std::vector<Row> rows, const Query& query) {
  Page<Row> result;
  const std::string token = query.text("NextToken");
  std::size_t first = 0;
  if (token.rfind("page-", 0) == 0) {
    first = static_cast<std::size_t>(std::atoll(token.c_str() + 5));
  } else if (!token.empty()) {
    query.refuse("InvalidNextToken", "The token is invalid.");
  }
  first = std::min(first, rows.size());
  const int most = query.integer("MaxResults").value_or(0);
  std::size_t last = rows.size();
  if (most > 0) last = std::min(last, first + static_cast<std::size_t>(most));
  if (last < rows.size()) result.next = "page-" + std::to_string(last);
  result.rows.assign(rows.begin() + static_cast<std::ptrdiff_t>(first),
                     rows.begin() + static_cast<std::ptrdiff_t>(last));
  return result;
}

}  // namespace spotter::world
