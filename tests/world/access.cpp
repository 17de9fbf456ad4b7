#include "tests/world/access.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>

namespace spotter::world {
namespace {

using Json = nlohmann::json;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return result;
}

// A pattern's letters, and which of them are wildcards.
struct Letter {
  char letter;
  bool wild = false;
};
using Pattern = std::vector<Letter>;

// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html: ${*}, ${?}
// and ${$} stand for themselves; a variable without a value fits nothing.
bool expand(std::string_view text, const AccessRequest& request, Pattern& into) {
  const auto add = [&](std::string_view letters) {
    for (const char letter : letters) into.push_back({letter});
  };
  while (!text.empty()) {
    const auto end = text.starts_with("${") ? text.find('}') : text.npos;
    if (end == text.npos) {
      into.push_back({text[0], text[0] == '*' || text[0] == '?'});
      text.remove_prefix(1);
      continue;
    }
    const std::string_view name = text.substr(2, end - 2);
    text.remove_prefix(end + 1);
    if (name == "*" || name == "?" || name == "$") {
      add(name);
      continue;
    }
    const auto value = request.context.find(lower(name));
    if (value == request.context.end()) return false;
    add(value->second);
  }
  return true;
}

// Greedy, with one place to come back to: the last star.
bool fits_letters(const Pattern& pattern, std::string_view text) {
  std::size_t at = 0, read = 0, star = pattern.size(), after = 0;
  while (read < text.size()) {
    const Letter* next = at < pattern.size() ? &pattern[at] : nullptr;
    if (next != nullptr && next->wild && next->letter == '*') {
      star = at++;
      after = read;
    } else if (next != nullptr && (next->wild || next->letter == text[read])) {
      ++at;
      ++read;
    } else if (star < pattern.size()) {
      at = star + 1;
      read = ++after;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at].wild && pattern[at].letter == '*') ++at;
  return at == pattern.size();
}

bool is_text_or_list(const Json& value) {
  const auto scalar = [](const Json& it) { return it.is_string() || it.is_boolean(); };
  return scalar(value) || (value.is_array() && std::all_of(value.begin(), value.end(), scalar));
}

std::vector<std::string> texts(const Json& value) {
  const auto text = [](const Json& it) {
    return it.is_boolean() ? std::string(it.get<bool>() ? "true" : "false") : it.get<std::string>();
  };
  if (!value.is_array()) return {text(value)};
  std::vector<std::string> all;
  for (const Json& each : value) all.push_back(text(each));
  return all;
}

}  // namespace

void AccessRequest::know(std::string key, const std::string& value) {
  context.emplace(lower(key), value);
}

bool matches_pattern(std::string_view pattern, std::string_view text,
                     const AccessRequest& request) {
  Pattern letters;
  return expand(pattern, request, letters) && fits_letters(letters, text);
}

// Reads one policy; keeps the first thing that is wrong with it.
struct Policy::Reader {
  std::string problem;
  std::set<std::string> sids;

  void note(const std::string& what) {
    if (problem.empty()) problem = what;
  }

  std::vector<std::string> list(const Json& statement, const char* name) {
    const auto found = statement.find(name);
    if (found == statement.end() || !is_text_or_list(*found)) {
      note(std::string("a statement has no ") + name);
      return {};
    }
    auto values = texts(*found);
    if (values.empty()) note(std::string("a statement's ") + name + " is empty");
    return values;
  }

  // IAM's own words.
  void check_names(const Statement& statement) {
    for (const std::string& action : statement.actions)
      if (action != "*" && action.find(':') == action.npos)
        note("Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.");
    for (const std::string& resource : statement.resources)
      if (resource != "*" &&
          (!resource.starts_with("arn:") || std::ranges::count(resource, ':') < 5))
        note("Resource " + resource + " must be in ARN format or \"*\".");
  }

  void check_sid(const Json& from) {
    const Json sid = from.value("Sid", Json(""));
    const std::string text = sid.is_string() ? sid.get<std::string>() : "not a text";
    if (!std::ranges::all_of(text, [](unsigned char it) { return std::isalnum(it) != 0; }))
      note(
          "Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular "
          "expression [0-9A-Za-z]*");
    if (!text.empty() && !sids.insert(text).second)
      note("Statement IDs (SID) in a single policy must be unique.");
  }

  // "ForAllValues:StringLikeIfExists"
  void read_operator(std::string_view name, Condition& condition) {
    const std::string whole(name);
    const auto begins = [&](std::string_view with) {
      const bool so = name.starts_with(with);
      if (so) name.remove_prefix(with.size());
      return so;
    };
    if (begins("ForAllValues:"))
      condition.sets = Condition::Sets::ForAll;
    else if (begins("ForAnyValue:"))
      condition.sets = Condition::Sets::ForAny;
    if (name.ends_with("IfExists")) {
      condition.if_exists = true;
      name.remove_suffix(std::string_view("IfExists").size());
    }
    using Kind = Condition::Kind;
    struct Known {
      std::string_view name;
      Kind kind;
      bool negated;
    };
    static constexpr Known known[] = {{"StringEquals", Kind::Equal, false},
                                      {"StringNotEquals", Kind::Equal, true},
                                      {"StringEqualsIgnoreCase", Kind::EqualIgnoringCase, false},
                                      {"StringNotEqualsIgnoreCase", Kind::EqualIgnoringCase, true},
                                      {"StringLike", Kind::Like, false},
                                      {"StringNotLike", Kind::Like, true},
                                      {"ArnEquals", Kind::Like, false},
                                      {"ArnLike", Kind::Like, false},
                                      {"ArnNotEquals", Kind::Like, true},
                                      {"ArnNotLike", Kind::Like, true},
                                      {"Bool", Kind::Bool, false},
                                      {"Null", Kind::Null, false}};
    for (const Known& it : known) {
      if (it.name != name) continue;
      condition.kind = it.kind;
      condition.negated = it.negated;
      return;
    }
    note("the condition operator " + whole + " is not modelled");
  }

  void read_conditions(const Json& all, Statement& statement) {
    if (!all.is_object()) return note("a Condition is no object");
    for (const auto& [operation, keys] : all.items()) {
      if (!keys.is_object()) return note("the condition " + operation + " is no object");
      for (const auto& [key, values] : keys.items()) {
        Condition condition;
        read_operator(operation, condition);
        condition.key = lower(key);
        if (!is_text_or_list(values)) return note("the values of " + key + " are no texts");
        condition.values = texts(values);
        statement.conditions.push_back(std::move(condition));
      }
    }
  }

  Statement statement(const Json& from) {
    Statement made;
    if (!from.is_object()) {
      note("a statement is no object");
      return made;
    }
    for (const auto& [name, value] : from.items())
      if (name != "Sid" && name != "Effect" && name != "Action" && name != "NotAction" &&
          name != "Resource" && name != "NotResource" && name != "Condition")
        note("the element " + name + " is not modelled");
    const auto effect = from.find("Effect");
    const bool known = effect != from.end() && (*effect == "Allow" || *effect == "Deny");
    if (!known) note("a statement's Effect is neither Allow nor Deny");
    made.allows = known && *effect == "Allow";
    made.all_other = from.contains("NotAction");
    if (made.all_other && from.contains("Action")) note("a statement has Action and NotAction");
    made.actions = list(from, made.all_other ? "NotAction" : "Action");
    made.other_resources = from.contains("NotResource");
    if (made.other_resources && from.contains("Resource"))
      note("a statement has Resource and NotResource");
    made.resources = list(from, made.other_resources ? "NotResource" : "Resource");
    check_names(made);
    check_sid(from);
    if (const auto found = from.find("Condition"); found != from.end())
      read_conditions(*found, made);
    return made;
  }
};

Result<Policy> Policy::parse(std::string_view json) {
  const Json document = Json::parse(json, nullptr, false);
  if (!document.is_object()) return failure("a policy is a JSON object");
  if (document.value("Version", Json()) != "2012-10-17")
    return failure("a policy's Version is 2012-10-17: without it variables are no variables");
  const auto found = document.find("Statement");
  if (found == document.end()) return failure("a policy has a Statement");
  Policy policy;
  Reader reader;
  const Json all = found->is_array() ? *found : Json::array({*found});
  for (const Json& each : all) policy.statements_.push_back(reader.statement(each));
  if (!reader.problem.empty()) return failure(reader.problem);
  return policy;
}

bool Policy::holds(const Condition& condition, const AccessRequest& request) {
  const auto [first, last] = request.context.equal_range(condition.key);
  const bool present = first != last;
  if (condition.kind == Condition::Kind::Null)
    return std::any_of(condition.values.begin(), condition.values.end(),
                       [&](const std::string& wanted) { return (wanted == "true") != present; });
  if (!present)
    return condition.if_exists || condition.negated || condition.sets == Condition::Sets::ForAll;
  const auto fits = [&](const std::string& value) {
    const bool any = std::any_of(condition.values.begin(), condition.values.end(),
                                 [&](const std::string& wanted) {
                                   if (condition.kind == Condition::Kind::Like)
                                     return matches_pattern(wanted, value, request);
                                   if (condition.kind == Condition::Kind::Equal) {
                                     Pattern letters;
                                     if (!expand(wanted, request, letters)) return false;
                                     for (Letter& letter : letters) letter.wild = false;
                                     return fits_letters(letters, value);
                                   }
                                   return lower(wanted) == lower(value);
                                 });
    return any != condition.negated;
  };
  if (condition.sets == Condition::Sets::ForAll)
    return std::all_of(first, last, [&](const auto& entry) { return fits(entry.second); });
  return std::any_of(first, last, [&](const auto& entry) { return fits(entry.second); });
}

bool Policy::fits(const Statement& statement, const AccessRequest& request) {
  const auto action = [&](const std::string& pattern) {
    return matches_pattern(lower(pattern), lower(request.action), request);
  };
  const auto resource = [&](const std::string& pattern) {
    return matches_pattern(pattern, request.resource, request);
  };
  const bool named = std::any_of(statement.actions.begin(), statement.actions.end(), action);
  return named != statement.all_other &&
         std::ranges::any_of(statement.resources, resource) != statement.other_resources &&
         std::all_of(statement.conditions.begin(), statement.conditions.end(),
                     [&](const Condition& condition) { return holds(condition, request); });
}

Policy::Verdict Policy::judge(const AccessRequest& request) const {
  Verdict verdict = Verdict::NotAllowed;
  for (const Statement& statement : statements_) {
    if (!fits(statement, request)) continue;
    if (!statement.allows) return Verdict::Denied;
    verdict = Verdict::Allowed;
  }
  return verdict;
}

bool Access::allows(std::string_view caller, const AccessRequest& request) const {
  std::string_view who = caller.starts_with("i-") ? "instance" : caller;
  if (who.starts_with("role/")) who = who.substr(0, who.rfind('/'));
  const auto session = sessions_.find(caller);
  if (session != sessions_.end() && session->second.judge(request) != Policy::Verdict::Allowed)
    return false;
  const auto found = policies_.find(who);
  if (found == policies_.end()) return true;
  bool allowed = false;
  for (const Policy& policy : found->second) {
    const auto verdict = policy.judge(request);
    if (verdict == Policy::Verdict::Denied) return false;
    allowed = allowed || verdict == Policy::Verdict::Allowed;
  }
  return allowed;
}

}  // namespace spotter::world
