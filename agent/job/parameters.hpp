// The experiments of a sweep: a list of parameter sets, one an experiment, and how a set reaches
// the trainer. Pure; job/sweep.hpp reads them from YAML.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::sweep {

// As many as an array of AWS Batch may have.
inline constexpr std::size_t most_sets = 10'000;

struct Parameter {
  std::string name;  // a letter or `_`, then letters, digits, `_`
  std::string text;  // as a command line has it: adam, 0.5, true, [64,32]
  std::string json;  // as JSON has it: "adam", 0.5, true, [64,32]
};
using Set = std::vector<Parameter>;  // in the user's order; each name once

bool is_parameter_name(std::string_view name);

// A JSON object on one line, in the set's order.
std::string to_json(const Set& set);

// Every combination, in the order of a nested loop over `axes`: the last one changes fastest. An
// axis is one parameter with each of its values. Empty where an axis has none.
std::vector<Set> grid(const std::vector<Set>& axes);
// How many these would be; stops counting beyond most_sets.
std::size_t grid_size(const std::vector<Set>& axes);

struct Uniform {
  double low, high;  // low <= value < high, rounded to six digits
};
struct LogUniform {
  double low, high;  // both positive: every power of ten is as likely
};
struct Integer {
  std::int64_t low, high;  // both are drawn, too
};
struct Choice {
  std::vector<Parameter> values;
};
struct Drawn {
  std::string name;
  std::variant<Uniform, LogUniform, Integer, Choice> from;
};
// The same on every machine. Each parameter has random numbers of its own, made of the seed and its
// name: another parameter beside it, or more sets, leave what was drawn as it is.
std::vector<Set> draw(const std::vector<Drawn>& parameters, std::size_t sets, std::uint64_t seed);

// `{name}` of the command -> the set's value, quoted for a shell where it needs to be; `{{name}}`
// -> `{name}`. Braces that do not hold a name alone, and those behind a `$`, are the shell's.
// Fails on a name that the set lacks.
Result<std::string> fill(std::string_view command, const Set& set);
// The same for one word of a command, which is quoted later, if at all.
Result<std::string> fill_word(std::string_view word, const Set& set);

// An error that names the first set that lacks a name of the command, or none at all is there.
Result<void> check(const std::vector<Set>& sets, std::string_view command);

}  // namespace spotter::sweep
