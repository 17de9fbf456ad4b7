// The safetensors format, as far as float32 goes: u64 (little-endian) size of the header; the
// header, JSON, padded with spaces to a multiple of 8; then the tensors' bytes without a gap.
// Source: https://github.com/huggingface/safetensors (README.md, "Format").
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/base/result.hpp"

namespace spotter::train {

struct NamedTensor {
  std::string name;
  std::vector<std::uint64_t> shape;  // empty: one number
  std::string_view bytes;            // float32, little-endian, the last dimension closest together
};

using Metadata = std::map<std::string, std::string>;

struct Safetensors {
  Metadata metadata;
  std::vector<NamedTensor> tensors;  // in the order in which they lie
};

// The tensors lie in the order given. Each has as many bytes as its shape says.
std::string write_safetensors(std::span<const NamedTensor> tensors, const Metadata& metadata);

// The tensors point into `bytes`. A file that breaks the format, or has other numbers than float32,
// is an error that says where.
Result<Safetensors> read_safetensors(std::string_view bytes);

}  // namespace spotter::train
