#include "trainer/reference/parameters.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

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
constexpr std::uint64_t kMostHeader = 100'000'000;  // the format's own limit

// The number of bytes of a shape; none where no memory could hold them.
std::optional<std::uint64_t> size_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t size = sizeof(float);
  for (const std::uint64_t extent : shape) {
    if (extent != 0 && size > std::numeric_limits<std::uint64_t>::max() / extent) return {};
    size *= extent;
  }
  return size;
}

std::optional<std::vector<std::uint64_t>> numbers(const nlohmann::json& entry, const char* name) {
  const auto found = entry.find(name);
  if (found == entry.end() || !found->is_array()) return {};
  std::vector<std::uint64_t> all;
  for (const auto& number : *found) {
    if (!number.is_number_unsigned()) return {};
    all.push_back(number.get<std::uint64_t>());
  }
  return all;
}

struct Placed {
  std::uint64_t from = 0;
  NamedTensor tensor;
};

Result<Placed> read_entry(const std::string& name, const nlohmann::json& entry,
                          std::string_view data) {
  const std::string what = "tensor `" + name + "`: ";
  if (!entry.is_object()) return failure(what + "its entry is no object");
  const auto kind = entry.find("dtype");
  if (kind == entry.end() || *kind != "F32") return failure(what + "only dtype F32 is read");
  const auto shape = numbers(entry, "shape");
  const auto offsets = numbers(entry, "data_offsets");
  if (!shape || !offsets || offsets->size() != 2)
    return failure(what + "`shape` and `data_offsets` are lists of whole numbers");
  const std::uint64_t from = offsets->front();
  const std::uint64_t to = offsets->back();
  if (from > to || to > data.size()) return failure(what + "it ends behind the file's end");
  if (size_of(*shape) != to - from) return failure(what + "its shape and its bytes do not agree");
  return Placed{from, {name, *shape, data.substr(from, to - from)}};
}

Result<Metadata> read_metadata(const nlohmann::json& entries) {
  Metadata metadata;
  if (!entries.is_object()) return failure("its metadata is no object");
  for (const auto& [name, value] : entries.items()) {
    if (!value.is_string()) return failure("its metadata `" + name + "` is no text");
    metadata[name] = value.get<std::string>();
  }
  return metadata;
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
    const std::uint64_t end = at + tensor.bytes.size();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
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

Result<Safetensors> read_safetensors(std::string_view bytes) {
  std::uint64_t size = 0;
  if (bytes.size() < sizeof size) return failure("this is no safetensors file: it is too short");
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes.remove_prefix(sizeof size);
  if (size > kMostHeader || size > bytes.size())
    return failure("this is no safetensors file: its header ends behind the file's end");
  const auto header = nlohmann::json::parse(bytes.substr(0, size), nullptr, false);
  if (!header.is_object())
    return failure("this is no safetensors file: its header is no JSON object");
  const std::string_view data = bytes.substr(size);
  Safetensors read;
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      read.metadata = TRY(read_metadata(entry));
      continue;
    }
    placed.push_back(TRY(read_entry(name, entry, data)));
  }
  std::ranges::stable_sort(placed, {}, [](const Placed& each) {
    return std::pair(each.from, each.tensor.bytes.size());
  });
  std::uint64_t at = 0;
  for (Placed& each : placed) {
    if (each.from != at)
      return failure("tensor `" + each.tensor.name + "` overlaps or leaves a gap");
    at += each.tensor.bytes.size();
    read.tensors.push_back(std::move(each.tensor));
  }
  if (at != data.size()) return failure("there are bytes behind the last tensor");
  return read;
}

}  // namespace spotter::train
