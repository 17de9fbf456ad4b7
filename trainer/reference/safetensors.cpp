#include "trainer/reference/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace spotter::train {

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

namespace {

constexpr const char* kMetadata = "__metadata__";
constexpr std::size_t kAlignment = 8;
constexpr std::uint64_t kMostHeader = 100'000'000;  // the format's own limit

// How many bytes a shape has; none where no memory could hold them.
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
  if (!shape || !offsets || offsets->size() != 2) {
    return failure(what + "`shape` and `data_offsets` are lists of whole numbers");
  }
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
  if (size > kMostHeader || size > bytes.size()) {
    return failure("this is no safetensors file: its header ends behind the file's end");
  }
  const auto header = nlohmann::json::parse(bytes.substr(0, size), nullptr, false);
  if (!header.is_object())
    return failure("this is no safetensors file: its header is no JSON object");
  const std::string_view data = bytes.substr(size);
  Safetensors read;
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      auto metadata = read_metadata(entry);
      if (!metadata) return tl::unexpected(metadata.error());
      read.metadata = std::move(*metadata);
      continue;
    }
    auto tensor = read_entry(name, entry, data);
    if (!tensor) return tl::unexpected(tensor.error());
    placed.push_back(std::move(*tensor));
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
