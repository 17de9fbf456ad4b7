// A file of weights. The input is its header and data behind a size: that of the header first, so
// that chance need not find eight right bytes.
#include "trainer/reference/parameters.hpp"

#include <array>
#include <cstring>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  std::array wanted = {train::NamedTensor{"1.weight", {2, 1}, {}},
                       train::NamedTensor{"1.bias", {}, {}}, train::NamedTensor{"e", {0}, {}}};
  (void)train::fill(wanted, bytes);
  const std::uint64_t size = std::min(bytes.find('\n'), bytes.size());
  std::string whole(sizeof size, '\0');
  std::memcpy(whole.data(), &size, sizeof size);
  whole += bytes;
  if (!train::fill(wanted, whole)) return;
  for (const auto& tensor : wanted)
    must(tensor.bytes.size() == (tensor.name == "e"     ? 0
                                 : tensor.shape.empty() ? 4
                                                        : 8) &&
             tensor.bytes.data() >= whole.data() + sizeof size + size &&
             tensor.bytes.data() + tensor.bytes.size() <= whole.data() + whole.size(),
         "a tensor has the bytes of its shape, and lies in the file");
  const std::string written = train::write_safetensors(wanted, {});
  must(train::fill(wanted, written).has_value(),
       "what was read is written such that it reads the same");
}

}  // namespace spotter::fuzz
