// The IAM documents of scripts/iam, which are part of the program: filled in for one job, and asked
// which statement allows an action. No I/O. Grammar:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html
#pragma once

#include <map>
#include <span>
#include <string_view>

#include "agent/base/result.hpp"

namespace spotter::wire {

struct IamDocument {
  std::string_view name;  // of scripts/iam/NAME.json
  std::string_view text;
};
std::span<const IamDocument> iam_documents();

// The values for the names in braces in the documents. One of `one` may stand for a part of a text,
// or name something; one of `many` stands for a whole text, which becomes one or several.
struct IamValues {
  std::map<std::string, std::string> one;
  std::map<std::string, std::vector<std::string>> many;
};
// A statement for which there is no resource is left out. Fails when a value is missing, or has
// letters that IAM does not take.
Result<std::string> fill_in(const IamDocument& document, const IamValues& values);

// A role or an instance profile as job.yaml names it: by its name, or by an ARN, in which a path
// may stand before the name. Source:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
struct IamName {
  std::string account;     // empty: no ARN said
  std::string path = "/";  // "/" or "/one/two/"
  std::string name;

  std::string with_path() const { return path.substr(1) + name; }
};
IamName iam_name(std::string_view text);
// Says why IAM would refuse the name; empty: it takes it. `longest`: of the kind of thing.
std::string wrong_iam_name(const IamName& name, std::size_t longest);
inline constexpr std::size_t longest_role_name = 64;

// In a StringLike a text that stands for itself.
std::string literally(std::string_view text);

// Text for a person whose call was refused: what has to be allowed, on what, and which statement
// does. `action` is the call's; `message` is AWS's, which may name another action that the call
// takes, such as kms:Decrypt.
std::string missing_permission(std::string_view action, std::string_view message);

}  // namespace spotter::wire
