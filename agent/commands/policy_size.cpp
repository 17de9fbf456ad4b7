// Policies that are too long for IAM: said before it refuses them, and cut or shortened.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/commands/iam.hpp"

namespace spotter::command {

std::size_t policy_characters(std::string_view document) {
  constexpr std::string_view white = " \t\r\n";
  return static_cast<std::size_t>(std::ranges::count_if(
      document, [&](char letter) { return white.find(letter) == white.npos; }));
}

std::string with_commas(std::size_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string too_long_for_a_role(std::size_t characters) {
  if (characters <= longest_of_a_role) return "";
  return with_commas(characters) + " characters, and all policies in a role have at most " +
         with_commas(longest_of_a_role) +
         " together: name in trainer.reads a prefix that many channels have, give each job a role "
         "of its "
         "own, or attach managed policies, each with some of the statements and at most " +
         with_commas(longest_managed);
}

std::vector<std::string> parts_of(const std::string& document, std::size_t most) {
  const auto whole = nlohmann::ordered_json::parse(document);
  auto part = whole;
  part["Statement"] = nlohmann::ordered_json::array();
  std::vector<std::string> parts;
  for (const auto& statement : whole["Statement"]) {
    part["Statement"].push_back(statement);
    if (part["Statement"].size() == 1 || policy_characters(part.dump()) <= most) continue;
    part["Statement"].erase(part["Statement"].size() - 1);
    parts.push_back(part.dump(2));
    part["Statement"] = nlohmann::ordered_json::array({statement});
  }
  parts.push_back(part.dump(2));
  return parts;
}

std::string with_room(const std::string& document) {
  if (document.empty() || policy_characters(document) <= longest_managed) return document;
  auto shorter = nlohmann::ordered_json::parse(document);
  for (auto& statement : shorter["Statement"]) statement.erase("Sid");
  std::string text = shorter.dump(2);
  return policy_characters(text) <= longest_managed ? text : document;
}

UserPolicyAdvice advice_for_a_user(const std::string& document) {
  if (document.empty()) return {};
  const std::size_t characters = policy_characters(document);
  if (characters <= longest_of_a_user) return {};
  if (characters <= longest_managed)
    return {false, with_commas(characters) +
                       " characters, and all policies in a user have at most " +
                       with_commas(longest_of_a_user) +
                       " together: make a managed policy of it (aws iam create-policy, then "
                       "attach-user-policy), which may have " +
                       with_commas(longest_managed)};
  const auto parts = parts_of(document);
  const bool each_fits = std::ranges::all_of(
      parts, [](const std::string& it) { return policy_characters(it) <= longest_managed; });
  const std::string count = std::to_string(parts.size());
  return {true, with_commas(characters) + " characters, and a managed policy has at most " +
                    with_commas(longest_managed) + ": make " + count + " of it, which " +
                    (each_fits ? "--part 1 to --part " + count + " print"
                               : "takes fewer resources in one of its statements, too")};
}

}  // namespace spotter::command
