#include "trainer/reference/parameters.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "agent/base/text.hpp"

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
  const auto value = number_of_text<Number>(text);
  if (value && *value >= least && *value <= most) return *value;
  const auto shown = [](Number limit) { return nlohmann::json(limit).dump(); };
  return failure("`" + std::string(text) + "` is not a number from " + shown(least) + " to " +
                 shown(most));
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
        TRY(number<std::uint32_t>(std::string_view(plain).substr(at, comma - at), 1, kMostNodes));
    nodes.push_back(value);
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

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kAlignment = 8;
const nlohmann::json::json_pointer kFirstByte("/data_offsets/0");

nlohmann::json entry_of(const NamedTensor& tensor, std::uint64_t from) {
  return {{"dtype", "F32"},
          {"shape", tensor.shape},
          {"data_offsets", {from, from + tensor.bytes.size()}}};
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
  return behind(name, assign(parameters, name, value));
}

Result<void> merge(Parameters& parameters, const std::string& json) {
  const auto object = nlohmann::json::parse(json, nullptr, false);
  if (!object.is_object()) return failure("the parameters are not a JSON object");
  std::string mistakes;
  for (const auto& [name, value] : object.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (auto done = set(parameters, name, text); !done)
      mistakes.append(mistakes.empty() ? "" : "\n").append(done.error().message);
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

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

std::string write_safetensors(std::span<const NamedTensor> tensors, const Metadata& metadata) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t at = 0;
  for (const NamedTensor& tensor : tensors) {
    header[tensor.name] = entry_of(tensor, at);
    at += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const std::uint64_t size = text.size();
  std::string bytes;
  bytes.reserve(sizeof size + text.size() + at);
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  for (const NamedTensor& tensor : tensors) bytes.append(tensor.bytes);
  return bytes;
}

Result<void> fill(std::span<NamedTensor> wanted, std::string_view file) {
  const auto other = failure("it has the tensors of another network");
  std::uint64_t size = 0;
  if (file.size() < sizeof size) return other;
  std::memcpy(&size, file.data(), sizeof size);
  file.remove_prefix(sizeof size);
  if (size > file.size()) return other;
  auto header = nlohmann::json::parse(file.substr(0, size), nullptr, false);
  if (!header.is_object()) return other;
  header.erase(kMetadata);
  if (header.size() != wanted.size()) return other;
  const std::string_view data = file.substr(size);
  for (NamedTensor& each : wanted) {
    const auto entry = header.find(each.name);
    if (entry == header.end() || !entry->is_object()) return other;
    const auto first = entry->value(kFirstByte, nlohmann::json());
    std::uint64_t bytes = sizeof(float);
    for (const std::uint64_t extent : each.shape) bytes *= extent;
    if (!first.is_number_unsigned()) return other;
    const auto from = first.get<std::uint64_t>();
    if (from > data.size() || bytes > data.size() - from) return other;
    each.bytes = data.substr(from, bytes);
    if (*entry != entry_of(each, from)) return other;
  }
  return {};
}

}  // namespace spotter::train
