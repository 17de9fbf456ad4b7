#include "agent/config/sweep.hpp"

#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/config/scalars.hpp"

namespace spotter::config {
namespace {

using OrderedJson = nlohmann::ordered_json;
using sweep::Parameter;
using sweep::Set;
using NodeKind = Node::Kind;

template <class T>
std::optional<T> whole_text(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return number_of_text<T>(text);
}

// The value of a plain scalar in YAML 1.2's core schema: 1e-3 is a number, `yes` a text.
OrderedJson plain_value(const std::string& text) {
  const auto is = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, text) != words.end();
  };
  if (is({"", "~", "null", "Null", "NULL"})) return {};
  if (is({"true", "True", "TRUE"})) return true;
  if (is({"false", "False", "FALSE"})) return false;
  if (text.find_first_not_of("0123456789.eE+-") != text.npos) return text;
  if (const auto whole = whole_text<std::int64_t>(text)) return *whole;
  if (const auto number = whole_text<double>(text)) return *number;
  return text;
}

OrderedJson leaf(const Node& node) {
  return node.plain ? plain_value(node.text) : OrderedJson(node.text);
}

Parameter parameter(const std::string& name, const Node& node) {
  const auto value = json_of<OrderedJson>(node, leaf);
  const std::string json = wire::json_text(value);
  return {name, value.is_string() ? value.get<std::string>() : json, json};
}

// The values of one parameter: a list, or a single one.
Set values(const std::string& name, const Node& node) {
  Set all;
  if (node.kind != NodeKind::List) return {parameter(name, node)};
  for (const Node& each : node.items) all.push_back(parameter(name, each));
  return all;
}

// The size in bytes of the longest value.
std::size_t longest(const Set& values) {
  std::size_t most = 0;
  for (const auto& each : values)
    most = std::max(most, sizeof(Parameter) + each.name.size() + each.text.size() * 2);
  return most;
}

// A few lines of YAML must not expand to gigabytes.
bool fit(std::size_t sets, std::size_t bytes_each) {
  return bytes_each <= sets_expanded_limit / std::max<std::size_t>(1, sets);
}
constexpr const char* too_large = "all sets together would have more than 64 MiB";

constexpr std::string_view bad_name = "a parameter's name has letters, digits and `_`";

// Reads a map with parameters' names as keys; `each` reads a value.
Reader::Take named(Reader& reader, std::string_view expected, Reader::TakePair each) {
  return reader.pairs(expected, [&reader, each = std::move(each)](
                                    const Node& key, const Node& value, const std::string& path) {
    if (!sweep::is_parameter_name(key.text))
      return reader.problem(key, path, std::string(bad_name));
    each(key, value, path);
  });
}

void read_list(Reader& reader, const Node& node, const std::string& path, std::vector<Set>& sets) {
  if (node.items.empty())
    return reader.problem(node, path, "the list is empty: a sweep needs one set at least");
  if (node.items.size() > sweep::most_sets)
    return reader.problem(node, path,
                          std::to_string(node.items.size()) + " sets: at most 10,000 are possible");
  for (std::size_t index = 0; index < node.items.size(); ++index) {
    Set set;
    const auto each = [&](const Node& key, const Node& value, const std::string&) {
      set.push_back(parameter(key.text, value));
    };
    const std::string place = (path.empty() ? "set " : path + ": set ") + std::to_string(index);
    named(reader, "a parameter set, such as {lr: 0.1, epochs: 3}", each)(node.items[index], place);
    sets.push_back(std::move(set));
  }
}

void read_parameters(Reader& reader, const Node& node, const std::string& path, Sweep& sweep) {
  if (node.kind == NodeKind::List) return read_list(reader, node, path, sweep.sets);
  if (node.kind == NodeKind::Map)
    return reader.problem(node, path, "expected a list of parameter sets, or where one is");
  reader.expanded(sweep.source, command)(node, path);
  if (!sweep.source.starts_with("s3://")) return;
  const auto url = wire::parse_s3_url(sweep.source);
  if (!url) return reader.problem(node, path, url.error().message);
  if (url->key.empty() || url->key.ends_with('/'))
    reader.problem(node, path, "expected the key of a list, such as s3://bucket/list.yml");
}

void read_grid(Reader& reader, const Node& node, const std::string& path, Sweep& sweep) {
  std::vector<Set> axes;
  const auto each = [&](const Node& key, const Node& value, const std::string& below) {
    axes.push_back(values(key.text, value));
    if (axes.back().empty()) reader.problem(value, below, "the list of its values is empty");
  };
  named(reader, "a grid, such as {lr: [0.1, 0.01], batch_size: [32, 64]}", each)(node, path);
  if (sweep::grid_size(axes) > sweep::most_sets)
    return reader.problem(node, path, "more than 10,000 combinations");
  std::size_t bytes = 0;
  for (const auto& axis : axes) bytes += longest(axis);
  if (!fit(sweep::grid_size(axes), bytes)) return reader.problem(node, path, too_large);
  sweep.sets = sweep::grid(axes);
  if (node.kind == NodeKind::Map && node.keys.empty())
    reader.problem(node, path, "the grid is empty");
}

// Reads the two bounds of a distribution.
template <class T>
bool ends(const Node& node, T& from) {
  if (node.kind != NodeKind::List || node.items.size() != 2) return false;
  const auto low = whole_text<decltype(from.low)>(node.items[0].text);
  const auto high = whole_text<decltype(from.high)>(node.items[1].text);
  if (!low || !high) return false;
  from = {*low, *high};
  return from.low < from.high;
}

template <class T>
bool distribution(const Node& node, sweep::Drawn& drawn) {
  T from{};
  if (!ends(node, from)) return false;
  if constexpr (std::is_same_v<T, sweep::LogUniform>) {
    if (from.low <= 0) return false;
  }
  if constexpr (std::is_same_v<T, sweep::Integer>) {
    constexpr std::int64_t most = std::int64_t{1} << 52;  // a double is exact up to there
    if (from.low < -most || from.high > most) return false;
  }
  drawn.from = from;
  return true;
}

bool read_drawn(const Node& node, sweep::Drawn& drawn) {
  if (node.kind != NodeKind::Map || node.keys.size() != 1) {
    drawn.from = sweep::Choice{values(drawn.name, node)};
    return node.kind != NodeKind::Map && !(node.kind == NodeKind::List && node.items.empty());
  }
  const std::string& kind = node.keys[0].text;
  const Node& value = node.items[0];
  if (kind == "uniform") return distribution<sweep::Uniform>(value, drawn);
  if (kind == "log_uniform") return distribution<sweep::LogUniform>(value, drawn);
  if (kind == "integer") return distribution<sweep::Integer>(value, drawn);
  if (kind != "choice" || value.kind != NodeKind::List || value.items.empty()) return false;
  drawn.from = sweep::Choice{values(drawn.name, value)};
  return true;
}

struct Random {
  int sets = 0;
  std::int64_t seed = 0;
  std::vector<sweep::Drawn> parameters;
};

Result<int> parse_sets_number(std::string_view text) {
  return parse_between<1, sweep::most_sets>(text.substr(text.starts_with('+') ? 1 : 0));
}
const Scalar<int> number_of_sets{"a number of sets", parse_sets_number};

Result<std::int64_t> parse_seed(std::string_view text) {
  if (const auto number = whole_text<std::int64_t>(text)) return *number;
  return failure("'" + std::string(text) + "' is no whole number");
}
const Scalar<std::int64_t> seed{"a seed, such as 7", parse_seed};

Reader::Fields random_fields(Reader& reader, Random& random) {
  const auto each = [&](const Node& key, const Node& value, const std::string& path) {
    sweep::Drawn drawn{key.text, {}};
    if (!read_drawn(value, drawn))
      return reader.problem(value, path,
                            "expected {uniform: [LOW, HIGH]}, {log_uniform: [LOW, HIGH]} (above "
                            "0), {integer: [LOW, HIGH]}, a list to choose from, or one value");
    random.parameters.push_back(std::move(drawn));
  };
  return {{"sets", required, reader.scalar(random.sets, number_of_sets)},
          {"seed", required, reader.scalar(random.seed, seed)},
          {"parameters", required,
           named(reader, "parameters, such as {lr: {log_uniform: [0.0001, 0.1]}}", each)}};
}

void read_random(Reader& reader, const Node& node, const std::string& path, Sweep& sweep) {
  Random random;
  reader.map(node, path, random_fields(reader, random));
  std::size_t bytes = 0;
  for (const auto& each : random.parameters) {
    const auto* choice = std::get_if<sweep::Choice>(&each.from);
    bytes += choice == nullptr ? sizeof(Parameter) : longest(choice->values);
  }
  if (!fit(static_cast<std::size_t>(random.sets), bytes))
    return reader.problem(node, path, too_large);
  sweep.sets = sweep::draw(random.parameters, static_cast<std::size_t>(random.sets),
                           static_cast<std::uint64_t>(random.seed));
}

Result<std::string> parse_objective(std::string_view text) {
  if (is_metric_name(text) || text == "accuracy" || text == "loss") return std::string(text);
  return failure(in_quotes(text) + " is no metric to compare by: name one that the trainer " +
                 "reports, such as val_accuracy or val_loss");
}
const Scalar<std::string> objective_metric{"the name of a metric", parse_objective};
const Scalar<bool> objective_mode{.expected = "min or max",
                                  .choices = {{"min", false}, {"max", true}}};

Result<std::uint64_t> parse_reduction(std::string_view text) {
  const auto number = whole_text<std::uint64_t>(text);
  if (number && *number >= 2 && *number <= 100) return *number;
  return failure(in_quotes(text) + " is no reduction: 3 lets one of three go on; 2 to 100");
}
Result<std::uint64_t> parse_first(std::string_view text) {
  const auto number = whole_text<std::uint64_t>(text);
  if (number && *number > 0) return *number;
  return failure(in_quotes(text) + " is no step: say after how many steps an experiment is first " +
                 "compared with the others, such as 500");
}
const Scalar<std::uint64_t> reduction{"a number such as 3", parse_reduction};
const Scalar<std::uint64_t> first_rung{"a number of steps, such as 500", parse_first};
const Scalar<bool> stop_rule{.expected = "asha, or a mapping such as {rule: asha, first: 500}",
                             .choices = {{"asha", true}}};

// asha, or {rule: asha, first: 500, reduction: 3}.
void read_stop(Reader& reader, const Node& node, const std::string& path, Sweep& sweep) {
  auto& asha = sweep.stop.emplace();
  bool ignored = false;
  if (node.kind != NodeKind::Map) return reader.scalar(ignored, stop_rule)(node, path);
  reader.map(node, path,
             {{"rule", required, reader.scalar(ignored, stop_rule)},
              {"first", optional, reader.scalar(asha.first, first_rung)},
              {"reduction", optional, reader.scalar(asha.reduction, reduction)}});
}

}  // namespace

Reader::Take objective(Reader& reader, std::optional<sweep::Objective>& objective,
                       const Scalar<std::string>& name) {
  return [&](const Node& node, const std::string& path) {
    std::string metric;
    std::optional<bool> mode;
    reader.map(node, path,
               {{"metric", required, reader.scalar(metric, name)},
                {"mode", optional, reader.scalar(mode, objective_mode)}});
    const bool asks = child(node, "mode") == nullptr;
    if (asks) mode = sweep::largest_is_best(metric);
    if (!metric.empty() && asks && !mode)
      reader.problem(
          node, path,
          "is the smallest or the largest " + metric + " best? Say mode: min or mode: " + "max");
    if (!metric.empty() && mode) objective = {metric, *mode};
  };
}

void read_sweep(Reader& reader, const Node& node, const std::string& path, Sweep& sweep) {
  reader.map(node, path,
             {{"parameters", optional, reader.by(read_parameters, sweep)},
              {"grid", optional, reader.by(read_grid, sweep)},
              {"random", optional, reader.by(read_random, sweep)},
              {"objective", optional, objective(reader, sweep.objective, objective_metric)},
              {"stop", optional, reader.by(read_stop, sweep)},
              {"batch", optional, reader.by(read_batch, sweep.batch)}});
  const auto lists = std::ranges::count_if(node.keys, [](const Node& key) {
    return key.text == "parameters" || key.text == "grid" || key.text == "random";
  });
  if (node.kind == NodeKind::Map && lists != 1)
    reader.problem(node, path, "expected one of parameters, grid and random");
  const bool early = reader.given("sweep.stop") != nullptr;
  if (early && sweep.batch)
    reader.problem("sweep.stop",
                   "an array of AWS Batch has no claims: each of its jobs runs to its end. Use a "
                   "fleet, or remove it");
  if (early && reader.given("sweep.objective") == nullptr)
    reader.problem("sweep.stop",
                   "by what are experiments compared? Say objective: {metric: val_accuracy}");
}

Result<std::vector<Set>, std::vector<Problem>> parse_sets(std::string_view text) {
  const auto root = parse_yaml(text, sets_size_limit);
  if (!root) return in_file_order(root.error());
  std::vector<Problem> problems;
  const Environment none;
  Reader reader(none, problems);
  std::vector<Set> sets;
  if (root->kind == NodeKind::List)
    read_list(reader, *root, "", sets);
  else
    reader.problem(*root, "", "expected a list of parameter sets, found " + describe(*root));
  if (!problems.empty()) return in_file_order(std::move(problems));
  return sets;
}

Result<std::vector<Set>> read_sets(std::string_view text, const std::string& source,
                                   const Trainer& trainer) {
  auto sets = parse_sets(text);
  if (!sets) return failure("sweep.parameters: " + describe(sets.error(), source));
  TRY(behind("sweep.parameters: " + source, sweep::check(*sets, trainer.command)));
  return std::move(*sets);
}

}  // namespace spotter::config
