#include "agent/config/parameters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "agent/base/text.hpp"

namespace spotter::sweep {
namespace {

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
constexpr std::string_view digits = "0123456789";

bool has(std::string_view characters, char one) { return characters.find(one) != characters.npos; }

// Rounded to six digits, so that its text is exactly the value drawn.
Parameter number(double value) {
  const std::string text = printed("%.6g", value);
  return {{}, text, text};
}

// FNV-1a: std::hash differs between machines.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 14695981039346656037U;
  for (const char each : text) value = (value ^ static_cast<unsigned char>(each)) * 1099511628211U;
  return value;
}

// The standard's engines are the same on all platforms, its distributions are not.
class Source {
 public:
  Source(std::uint64_t seed, std::string_view name) : engine_(hash(name) ^ seed) {}

  Parameter operator()(const Uniform& from) {
    return number(from.low + share() * (from.high - from.low));
  }
  Parameter operator()(const LogUniform& from) {
    return number(from.low * std::pow(from.high / from.low, share()));
  }
  Parameter operator()(const Integer& from) {
    const auto span = static_cast<double>(from.high - from.low) + 1;
    const auto step = static_cast<std::int64_t>(share() * span);
    const std::string text = std::to_string(std::min(from.low + step, from.high));
    return {{}, text, text};
  }
  Parameter operator()(const Choice& from) {
    const auto size = static_cast<double>(from.values.size());
    return from.values[std::min(static_cast<std::size_t>(share() * size), from.values.size() - 1)];
  }

 private:
  double share() { return static_cast<double>(engine_() >> 11U) * 0x1p-53; }  // 0 <= it < 1

  std::mt19937_64 engine_;
};

// The name in braces at the start of `text`; empty: there is none.
std::string_view braced_name(std::string_view text) {
  if (!text.starts_with('{')) return {};
  const auto end = text.find('}');
  if (end == text.npos) return {};
  const auto name = text.substr(1, end - 1);
  return is_parameter_name(name) ? name : std::string_view();
}

Result<std::string> fill_with(std::string_view command, const Set& set,
                              std::string (*written)(const std::string&)) {
  std::string filled;
  for (std::size_t at = 0; at < command.size();) {
    const auto rest = command.substr(at);
    const bool doubled = rest.starts_with("{{");
    const auto name = braced_name(doubled ? rest.substr(1) : rest);
    const bool of_shell = at > 0 && command[at - 1] == '$';
    if (name.empty() || of_shell || (doubled && !rest.substr(name.size() + 2).starts_with("}}"))) {
      filled += rest[0];
      ++at;
    } else if (doubled) {
      filled += rest.substr(1, name.size() + 2);
      at += name.size() + 4;
    } else {
      const auto found = std::ranges::find(set, name, &Parameter::name);
      if (found == set.end()) {
        return failure("the command has {" + std::string(name) +
                       "}, which is no parameter here; {{" + std::string(name) + "}} leaves {" +
                       std::string(name) + "} as it is");
      }
      filled += written(found->text);
      at += name.size() + 2;
    }
  }
  return filled;
}

constexpr std::array<std::string_view, 8> large = {"accuracy",  "acc",    "auc", "f1",
                                                   "precision", "recall", "iou", "bleu"};
constexpr std::array<std::string_view, 6> small = {"loss", "error", "mae",
                                                   "mse",  "rmse",  "perplexity"};

}  // namespace

bool is_parameter_name(std::string_view name) {
  return !name.empty() && has(letters, name[0]) && std::ranges::all_of(name, [](char each) {
    return has(letters, each) || has(digits, each);
  });
}

std::string to_json(const Set& set) {
  std::string text = "{";
  for (const auto& each : set) {
    if (text.size() > 1) text += ", ";
    text += '"' + each.name + "\": " + each.json;
  }
  return text + "}";
}

std::size_t grid_size(const std::vector<Set>& axes) {
  std::size_t size = axes.empty() ? 0 : 1;
  for (const auto& axis : axes) {
    size *= axis.size();
    if (size > most_sets) return most_sets + 1;
  }
  return size;
}

std::vector<Set> grid(const std::vector<Set>& axes) {
  std::vector<Set> sets;
  const std::size_t size = grid_size(axes);
  for (std::size_t index = 0; index < size; ++index) {
    Set set(axes.size());
    std::size_t left = index;
    for (std::size_t axis = axes.size(); axis-- > 0; left /= axes[axis].size())
      set[axis] = axes[axis][left % axes[axis].size()];
    sets.push_back(std::move(set));
  }
  return sets;
}

std::vector<Set> draw(const std::vector<Drawn>& parameters, std::size_t sets, std::uint64_t seed) {
  std::vector<Set> drawn(sets);
  for (const auto& parameter : parameters) {
    Source source(seed, parameter.name);
    for (auto& set : drawn) {
      set.push_back(std::visit(source, parameter.from));
      set.back().name = parameter.name;
    }
  }
  return drawn;
}

Result<std::string> fill(std::string_view command, const Set& set) {
  return fill_with(command, set, wire::shell_word);
}

Result<std::string> fill_word(std::string_view word, const Set& set) {
  return fill_with(word, set, [](const std::string& text) { return text; });
}

Result<void> check(const std::vector<Set>& sets, std::string_view command) {
  if (sets.empty()) return failure("there is no parameter set: a sweep needs one at least");
  for (std::size_t index = 0; index < sets.size(); ++index) {
    TRY(behind("set " + std::to_string(index), fill(command, sets[index])));
  }
  return {};
}

std::optional<bool> largest_is_best(std::string_view metric) {
  const auto word = metric.substr(metric.find_last_of("_/.-") + 1);  // npos + 1 is 0
  if (std::find(large.begin(), large.end(), word) != large.end()) return true;
  if (std::find(small.begin(), small.end(), word) != small.end()) return false;
  return std::nullopt;
}

}  // namespace spotter::sweep
