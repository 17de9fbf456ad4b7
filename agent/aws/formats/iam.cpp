#include "agent/aws/formats/iam.hpp"

#include <algorithm>

#include "agent/base/json.hpp"

namespace spotter::wire {
namespace {

using Ordered = nlohmann::ordered_json;

// Thrown and caught here: recursion over a document's values has one way out.
struct Unknown {
  std::string name;
};
struct Unfit {
  std::string text;
};

// IAM's documents have letters up to U+00FF only; those beyond it begin with C4 or more in UTF-8.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_PutRolePolicy.html
void check_letters(const Ordered& value) {
  const auto check = [](const std::string& text) {
    if (std::ranges::any_of(text, [](unsigned char it) { return it >= 0xC4; })) throw Unfit{text};
  };
  if (value.is_string()) check(value.get_ref<const std::string&>());
  if (!value.is_structured()) return;
  for (const auto& [name, below] : value.items()) {
    check(name);
    check_letters(below);
  }
}

// The name that is the whole of the text: "{owners}".
std::string whole_name(std::string_view text) {
  const bool is_one = text.size() > 2 && text.front() == '{' && text.find('}') == text.size() - 1;
  return is_one ? std::string(text.substr(1, text.size() - 2)) : "";
}

std::string fill_text(std::string_view text, const IamValues& values) {
  std::string filled;
  while (!text.empty()) {
    const auto open = text.find('{');
    const auto close = open == text.npos ? text.npos : text.find('}', open);
    if (close == text.npos) return filled.append(text);
    const std::string name(text.substr(open + 1, close - open - 1));
    const auto value = values.one.find(name);
    if (value == values.one.end()) throw Unknown{name};
    filled.append(text.substr(0, open)).append(value->second);
    text.remove_prefix(close + 1);
  }
  return filled;
}

// In a list the names of others may stand, which are empty without a value.
Ordered fill(const Ordered& value, const IamValues& values, bool in_list = false) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const std::string name = whole_name(text);
    const auto list = values.many.find(name);
    if (list != values.many.end()) return list->second;
    const bool may_lack = in_list && !name.empty() && !values.one.contains(name);
    return may_lack ? Ordered::array() : Ordered(fill_text(text, values));
  }
  if (value.is_object()) {
    Ordered filled = Ordered::object();
    for (const auto& [name, below] : value.items())
      filled[fill_text(name, values)] = fill(below, values);
    return filled;
  }
  if (!value.is_array()) return value;
  Ordered filled = Ordered::array();
  for (const auto& each : value) {
    Ordered item = fill(each, values, true);
    if (!item.is_array())
      filled.push_back(std::move(item));
    else
      for (auto& below : item) filled.push_back(std::move(below));
  }
  return filled;
}

bool names(const Json& action, std::string_view wanted) {
  if (action.is_string()) return action.get_ref<const std::string&>() == wanted;
  return action.is_array() && std::any_of(action.begin(), action.end(), [&](const Json& each) {
           return each.is_string() && each.get_ref<const std::string&>() == wanted;
         });
}

// Up to the next blank, without the quotation marks that S3 puts there.
std::string_view word_after(std::string_view text, std::string_view what) {
  const auto at = text.find(what);
  if (at == text.npos) return {};
  text.remove_prefix(at + what.size());
  text = text.substr(0, text.find_first_of(" \n"));
  while (text.starts_with('"')) text.remove_prefix(1);
  while (text.ends_with('"') || text.ends_with('.')) text.remove_suffix(1);
  return text;
}

// The end of arn:partition:service:region:account:volume/vol-1, from "volume" on.
std::string_view own_part(std::string_view arn) {
  for (int colons = 0; colons < 5 && arn.find(':') != arn.npos; ++colons)
    arn.remove_prefix(arn.find(':') + 1);
  return arn;
}

// "agent.json: UseTheJobsVolumes, ...; launcher.json: ...": the statements of scripts/iam that name
// the action (ec2:AttachVolume); empty when none does.
std::string statements_for(std::string_view action) {
  std::string found;
  for (const IamDocument& document : iam_documents()) {
    std::string here;
    const Json parsed = Json::parse(document.text);
    for (const Json& statement : parsed.at("Statement")) {
      const std::string sid = text_field(statement, "Sid");
      if (sid.empty() || !names(statement.at("Action"), action)) continue;
      here += (here.empty() ? "" : ", ") + sid;
    }
    if (here.empty()) continue;
    found += (found.empty() ? "" : "; ") + std::string(document.name) + ".json: " + here;
  }
  return found;
}

}  // namespace

Result<std::string> fill_in(const IamDocument& document, const IamValues& values) {
  try {
    Ordered filled = Ordered::parse(document.text);
    Ordered statements = Ordered::array();
    for (const auto& statement : filled["Statement"]) {
      // First: what the rest speaks of may not be there when there is no resource.
      const auto none = [&](const char* name) {
        const auto resource = statement.find(name);
        return resource != statement.end() && fill(*resource, values) == Ordered::array();
      };
      if (none("Resource") || none("NotResource")) continue;
      statements.push_back(fill(statement, values));
      // An empty list of a condition may grant what a value would not.
      for (const auto& operation : statements.back().value("Condition", Ordered::object()))
        for (const auto& [key, wanted] : operation.items())
          if (wanted == Ordered::array()) throw Unknown{key};
    }
    filled["Statement"] = std::move(statements);
    check_letters(filled["Statement"]);
    return filled.dump(2);
  } catch (const Unfit& unfit) {
    return failure("IAM takes no letter beyond U+00FF in a policy, and '" + unfit.text +
                   "' has one: take names, tags and places without such letters");
  } catch (const Unknown& unknown) {
    return failure("scripts/iam/" + std::string(document.name) + ".json: no value for {" +
                   unknown.name + "}");
  }
}

IamName iam_name(std::string_view text) {
  IamName its;
  if (text.starts_with("arn:")) {  // arn:partition:iam::account:role/path/name
    for (int colon = 0; colon < 4; ++colon) text.remove_prefix(text.find(':') + 1);
    its.account = text.substr(0, text.find(':'));
    text.remove_prefix(std::min(text.size(), text.find('/') + 1));
  }
  const auto slash = text.rfind('/');
  its.name = text.substr(slash + 1);  // npos + 1: all of it
  if (slash != text.npos) its.path = "/" + std::string(text.substr(0, slash + 1));
  return its;
}

std::string wrong_iam_name(const IamName& name, std::size_t longest) {
  constexpr std::string_view marks = "_+=,.@-";
  constexpr std::size_t longest_path = 512;
  const auto fits = [&](unsigned char letter) {
    return std::isalnum(letter) != 0 || marks.find(static_cast<char>(letter)) != marks.npos;
  };
  if (name.name.empty() || name.name.size() > longest || !std::ranges::all_of(name.name, fits))
    return "'" + name.name + "' is no name that IAM takes: 1 to " + std::to_string(longest) +
           " letters, digits and any of " + std::string(marks);
  const bool visible = std::ranges::all_of(
      name.path, [](unsigned char letter) { return letter > ' ' && letter < 0x7F; });
  if (name.path.size() > longest_path || !visible)
    return "'" + name.path + "' is no path that IAM takes: at most " +
           std::to_string(longest_path) + " letters of ASCII, without blanks";
  return "";
}

std::string literally(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    const bool special = letter == '*' || letter == '?' || letter == '$';
    escaped += special ? std::string("${") + letter + "}" : std::string(1, letter);
  }
  return escaped;
}

std::string missing_permission(std::string_view action, std::string_view message) {
  const auto named = word_after(message, "is not authorized to perform: ");
  if (!named.empty()) action = named;
  std::string text = "needs " + std::string(action);
  const auto resource = own_part(word_after(message, "on resource: "));
  if (!resource.empty()) text += " on " + std::string(resource);
  if (message.find("with an explicit deny") != message.npos)
    return text + ", which a policy denies explicitly: " + std::string(message);
  const std::string statements = statements_for(action);
  return statements.empty() ? text : text + " (scripts/iam/" + statements + ")";
}

}  // namespace spotter::wire
