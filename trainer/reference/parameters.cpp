#include "trainer/reference/parameters.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace spotter::train {

namespace {

constexpr std::uint32_t kMostNodes = 65536;  // 16 GiB between two such layers: a typing error
constexpr std::size_t kMostLayers = 64;
constexpr std::uint32_t kMostEpochs = 1'000'000;

constexpr std::array<std::string_view, 4> kArchitectures = {"mlp", "resnet50", "resnet18",
                                                            "resnet8"};
constexpr std::array<std::string_view, 4> kActivations = {"relu", "tanh", "sigmoid", "elu"};
constexpr std::array<std::string_view, 2> kSwitch = {"false", "true"};
constexpr std::array<std::string_view, 3> kOptimizers = {"rmsprop", "adam", "sgd"};

template <class Number>
Result<Number> number(std::string_view text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most)) {
    const auto shown = [](Number limit) { return nlohmann::json(limit).dump(); };
    return failure("`" + std::string(text) + "` is not a number from " + shown(least) + " to " +
                   shown(most));
  }
  return value;
}

template <class Choice, std::size_t Count>
Result<Choice> choice(std::string_view text, const std::array<std::string_view, Count>& names) {
  std::string all;
  for (std::size_t i = 0; i < Count; ++i) {
    if (text == names[i]) return static_cast<Choice>(i);
    all.append(i == 0 ? "" : ", ").append(names[i]);
  }
  return failure("`" + std::string(text) + "` is not one of " + all);
}

// "256,128", "[256, 128]", or "" for none.
Result<std::vector<std::uint32_t>> layers(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c != '[' && c != ']' && c != ' ') plain += c;
  }
  std::vector<std::uint32_t> nodes;
  for (std::size_t at = 0; at < plain.size();) {
    const std::size_t comma = std::min(plain.find(',', at), plain.size());
    auto value =
        number<std::uint32_t>(std::string_view(plain).substr(at, comma - at), 1, kMostNodes);
    if (!value) return tl::unexpected(value.error());
    nodes.push_back(*value);
    at = comma + 1;
  }
  if (nodes.size() > kMostLayers) return failure("more than 64 hidden layers");
  return nodes;
}

template <class T>
Result<void> put(T& where, Result<T> value) {
  if (!value) return tl::unexpected(value.error());
  where = std::move(*value);
  return {};
}

Result<void> assign(Parameters& to, const std::string& name, const std::string& value) {
  constexpr double kAlmostOne = 0.999;
  if (name == "model") return put(to.architecture, read_architecture(value));
  if (name == "batch_size") return put(to.batch_size, number<std::uint32_t>(value, 1, kMostNodes));
  if (name == "epochs") return put(to.epochs, number<std::uint32_t>(value, 1, kMostEpochs));
  if (name == "hidden_nodes") return put(to.hidden_nodes, layers(value));
  if (name == "dropout_rate") return put(to.dropout_rate, number<double>(value, 0, kAlmostOne));
  if (name == "activate_fn") return put(to.activate_fn, choice<Activation>(value, kActivations));
  if (name == "optimizer") return put(to.optimizer, choice<Optimizer>(value, kOptimizers));
  if (name == "learning_rate") return put(to.learning_rate, number<double>(value, 1e-9, 1000));
  if (name == "seed") return put(to.seed, number<std::uint64_t>(value, 0, UINT64_MAX));
  if (name == "amp") return put(to.amp, choice<bool>(value, kSwitch));
  return failure(
      "unknown; known are model, batch_size, epochs, hidden_nodes, dropout_rate, activate_fn, "
      "optimizer, learning_rate, seed, amp");
}

}  // namespace

Result<Architecture> read_architecture(const std::string& name) {
  return choice<Architecture>(name, kArchitectures);
}

Parameters defaults(Architecture architecture) {
  Parameters parameters;
  parameters.architecture = architecture;
  if (architecture == Architecture::Mlp) return parameters;
  parameters.batch_size = 512;
  parameters.epochs = 50;
  parameters.optimizer = Optimizer::Adam;
  return parameters;
}

Result<void> set(Parameters& parameters, const std::string& name, const std::string& value) {
  auto assigned = assign(parameters, name, value);
  if (!assigned) return failure(name + ": " + assigned.error().message);
  return {};
}

Result<void> merge(Parameters& parameters, const std::string& json) {
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) return failure("the parameters are not a JSON object");
  std::string mistakes;
  for (const auto& [name, value] : object.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (auto done = set(parameters, name, text); !done) {
      mistakes.append(mistakes.empty() ? "" : "\n").append(done.error().message);
    }
  }
  if (!mistakes.empty()) return failure(mistakes);
  return {};
}

nlohmann::json to_json(const Parameters& parameters) {
  return {{"model", kArchitectures[static_cast<std::size_t>(parameters.architecture)]},
          {"batch_size", parameters.batch_size},
          {"epochs", parameters.epochs},
          {"hidden_nodes", parameters.hidden_nodes},
          {"dropout_rate", parameters.dropout_rate},
          {"activate_fn", kActivations[static_cast<std::size_t>(parameters.activate_fn)]},
          {"optimizer", kOptimizers[static_cast<std::size_t>(parameters.optimizer)]},
          {"learning_rate", parameters.learning_rate},
          {"seed", parameters.seed},
          {"amp", parameters.amp}};
}

}  // namespace spotter::train
