// Which members of a request an operation honours: whatever else AWS's model has is refused, so
// that nothing is accepted and ignored. A table a service, by which it refuses: *members.cpp, here
// and below; tests/shapes/members_test.py goes through AWS's models by them.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace spotter::world {

class Members {
 public:
  // "VolumeId Tag{Key Value} Tenancy=default|host tags{*}": names, and in braces those below one.
  // After '=' the only values that are honoured, since nothing else is what this world does; '*' is
  // every name.
  Members(std::string_view honoured) : Members(std::string(honoured)) {}
  Members(const char* honoured) : Members(std::string(honoured)) {}
  Members(const std::string& honoured);

  // `path`: "Tag.Key", without the numbers of lists.
  bool honours(const std::string& path, const std::string& value = {}) const;
  bool is_above(const std::string& path) const { return above_.contains(path); }
  bool knows(const std::string& path) const { return all_.contains(path) || above_.contains(path); }
  // By path; without values: every one.
  const std::map<std::string, std::set<std::string>>& all() const { return all_; }

 private:
  std::map<std::string, std::set<std::string>> all_;
  std::set<std::string> above_;  // paths with others below them
};

using MemberTable = std::map<std::string, Members>;  // by operation

// The refusal's message.
std::string not_honoured(const std::string& path, const std::string& value);

// That of the first member which is not honoured: of a Query request with its Action and Version,
// of JSON.
std::optional<std::string> refuse_members(const Members& honoured,
                                          const std::map<std::string, std::string>& parameters);
std::optional<std::string> refuse_members(const Members& honoured, const nlohmann::json& request);

// "Tag.1.Key" as "Tag.Key".
std::string without_numbers(std::string_view name);

}  // namespace spotter::world
