// The experiments of a sweep: a list of parameter sets, one for each, how a set is passed to the
// trainer, and by what they are compared. Pure; config/sweep.hpp reads them from YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "agent/base/result.hpp"

namespace spotter::sweep {

// The limit of an array of AWS Batch.
inline constexpr std::size_t most_sets = 10'000;

struct Parameter {
  std::string name;  // a letter or `_`, then letters, digits, `_`
  std::string text;  // as in a command line: adam, 0.5, true, [64,32]
  std::string json;  // as in JSON: "adam", 0.5, true, [64,32]
};
using Set = std::vector<Parameter>;  // in the user's order; each name once

bool is_parameter_name(std::string_view name);

// A JSON object on one line, in the set's order.
std::string to_json(const Set& set);

// All combinations, in the order of a nested loop over `axes`: the last one changes fastest. An
// axis is one parameter with each of its values. Empty where an axis has none.
std::vector<Set> grid(const std::vector<Set>& axes);
// The size of that grid; stops counting beyond most_sets.
std::size_t grid_size(const std::vector<Set>& axes);

struct Uniform {
  double low, high;  // low <= value < high, rounded to six digits
};
struct LogUniform {
  double low, high;  // both positive: uniform in the logarithm
};
struct Integer {
  std::int64_t low, high;  // both included
};
struct Choice {
  std::vector<Parameter> values;
};
struct Drawn {
  std::string name;
  std::variant<Uniform, LogUniform, Integer, Choice> from;
};
// Deterministic on every machine. Each parameter has its own random numbers, seeded by `seed` and
// its name: adding parameters or sets does not change the values already drawn.
std::vector<Set> draw(const std::vector<Drawn>& parameters, std::size_t sets, std::uint64_t seed);

// Replaces `{name}` in the command by the set's value, quoted for a shell where needed, and
// `{{name}}` by `{name}`. Leaves other braces, and those after a `$`, to the shell. Fails for a
// name that the set lacks.
Result<std::string> fill(std::string_view command, const Set& set);
// The same for one word of a command, without quoting.
Result<std::string> fill_word(std::string_view word, const Set& set);

// Fails, naming the first set that lacks a name of the command, or when there are no sets.
Result<void> check(const std::vector<Set>& sets, std::string_view command);

// By which metric the experiments of a sweep are compared.
struct Objective {
  std::string metric;  // "val_accuracy", "loss"
  bool largest_is_best = true;
};

// Judges by the last word of the name: the largest accuracy is best, the smallest loss. None: it
// says nothing, a person has to.
std::optional<bool> largest_is_best(std::string_view metric);

// The rule by which a sweep ends an experiment before its time, as `sweep.stop` of job.yaml says.
// Pure.

// Asynchronous successive halving: rungs at `first`, `first * reduction`, ... steps. An experiment
// that is not among the best 1/`reduction` at a rung ends there (sweep/asha.hpp).
struct Asha {
  std::uint64_t reduction = 3;
  // Steps; none: three rungs before the end that the trainer reports, at 1/27, 1/9 and 1/3 of it.
  std::optional<std::uint64_t> first;
};

}  // namespace spotter::sweep
