// A file of weights. The input is its header and data behind a size: that of the header first, so
// that chance need not find eight right bytes.
#include "trainer/reference/parameters.hpp"

#include <cstring>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  train::read_safetensors(bytes);
  const std::uint64_t size = std::min(bytes.find('\n'), bytes.size());
  std::string whole(sizeof size, '\0');
  std::memcpy(whole.data(), &size, sizeof size);
  whole += bytes;
  const auto read = train::read_safetensors(whole);
  if (!read) return;
  std::size_t sum = 0;
  for (const auto& tensor : read->tensors) {
    std::uint64_t count = 1;
    for (const auto extent : tensor.shape) count *= extent;
    must(tensor.bytes.size() == count * sizeof(float), "a tensor has the bytes of its shape");
    must(tensor.bytes.empty() ||
             (tensor.bytes.data() >= whole.data() &&
              tensor.bytes.data() + tensor.bytes.size() <= whole.data() + whole.size()),
         "a tensor lies in the file");
    sum += tensor.bytes.size();
  }
  must(sizeof size + size + sum == whole.size(), "the tensors are all that is behind the header");
  const std::string written = train::write_safetensors(read->tensors, read->metadata);
  const auto again = train::read_safetensors(written);
  must(again && again->tensors.size() == read->tensors.size() && again->metadata == read->metadata,
       "what was read is written such that it reads the same");
}

}  // namespace spotter::fuzz
