#include "tests/world/batch/retry.hpp"

#include <algorithm>
#include <cctype>

#include "tests/world/batch/reader.hpp"

namespace spotter::world::batch {
namespace {

constexpr int most_attempts = 10;
constexpr std::size_t most_rules = 5;
constexpr std::size_t longest_pattern = 512;

bool matches(const std::optional<std::string>& pattern, std::string_view text) {
  if (!pattern) return true;
  if (!pattern->ends_with('*')) return text == *pattern;
  return text.starts_with(std::string_view(*pattern).substr(0, pattern->size() - 1));
}

bool is_text(unsigned char letter) {
  return std::isalnum(letter) || letter == '.' || letter == ':' || std::isspace(letter);
}
bool is_digit(unsigned char letter) { return std::isdigit(letter); }

std::optional<std::string> pattern(Reader& reader, const char* name,
                                   bool (*allowed)(unsigned char)) {
  if (!reader.has(name)) return std::nullopt;
  const std::string text = reader.text(name);
  std::string_view plain = text;
  if (plain.ends_with('*')) plain.remove_suffix(1);
  if (text.size() > longest_pattern || !std::all_of(plain.begin(), plain.end(), allowed)) {
    reader.refuse(std::string("evaluateOnExit ") + name + " '" + text + "' is not a valid pattern");
  }
  return text;
}

ExitRule parse_rule(Reader reader) {
  ExitRule rule{pattern(reader, "onStatusReason", is_text), pattern(reader, "onReason", is_text),
                pattern(reader, "onExitCode", is_digit)};
  if (!rule.on_status_reason && !rule.on_reason && !rule.on_exit_code)
    reader.refuse("evaluateOnExit needs onStatusReason, onReason or onExitCode");
  std::string action = reader.required("action");
  std::transform(action.begin(), action.end(), action.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  if (action != "RETRY" && action != "EXIT") {
    reader.refuse("evaluateOnExit action must be RETRY or EXIT");
  }
  rule.retry = action == "RETRY";
  return rule;
}

}  // namespace

bool tries_again(const RetryStrategy& strategy, int made, const Ending& ending) {
  if (made >= strategy.attempts) return false;
  const std::string exit_code = ending.exit_code ? std::to_string(*ending.exit_code) : "";
  for (const ExitRule& rule : strategy.rules) {
    if (matches(rule.on_status_reason, ending.status_reason) &&
        matches(rule.on_reason, ending.reason) && matches(rule.on_exit_code, exit_code)) {
      return rule.retry;
    }
  }
  return true;
}

Expected<RetryStrategy> parse_retry(const Json& document) {
  RetryStrategy strategy;
  if (document.is_null()) return strategy;
  Problem problem;
  Reader reader(document, problem);
  strategy.attempts = reader.integer("attempts", 1, most_attempts).value_or(1);
  const auto rules = reader.objects("evaluateOnExit");
  if (rules.size() > most_rules) reader.refuse("evaluateOnExit may hold 5 conditions at most");
  if (!rules.empty() && !reader.has("attempts")) {
    reader.refuse("attempts must be specified with evaluateOnExit");
  }
  for (const Reader& rule : rules) strategy.rules.push_back(parse_rule(rule));
  if (problem) return tl::unexpected(*problem);
  return strategy;
}

}  // namespace spotter::world::batch
