// A checkpoint's manifest. The input is its body: a sum that fits is put behind it first, since no
// chance finds one.
#include "trainer/library/manifest.hpp"

#include <set>

#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {
namespace {

using checkpoint::Manifest;

bool same(const Manifest& a, const Manifest& b) {
  const auto equal = [](const checkpoint::PartEntry& one, const checkpoint::PartEntry& other) {
    return one.name == other.name && one.bytes == other.bytes && one.xxh3_128 == other.xxh3_128;
  };
  return a.step == b.step && a.meta == b.meta && a.metric == b.metric &&
         std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(), equal);
}

void sound(const Manifest& manifest) {
  std::set<std::string> names;
  for (const auto& part : manifest.parts) {
    must(checkpoint::is_part_name(part.name) && part.name.find('/') == std::string::npos,
         "a part is a file of the checkpoint's own directory");
    must(names.insert(part.name).second, "each part is named once");
  }
}

}  // namespace

void examine(std::string_view bytes) {
  checkpoint::decode(bytes);
  std::string whole = std::string(bytes) + R"(,"xxh3_128":")" + checkpoint::sum_of(bytes) + "\"}\n";
  const auto manifest = checkpoint::decode(whole);
  if (!manifest) return;
  sound(*manifest);
  const auto again = checkpoint::decode(checkpoint::encode(*manifest));
  must(again && same(*again, *manifest), "a manifest printed reads the same");
  must(!checkpoint::decode(std::string_view(whole).substr(0, whole.size() - 1)),
       "a manifest cut short is none");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const char right = whole[i];
    whole[i] = static_cast<char>(right ^ (1 << (i % 8)));
    must(!checkpoint::decode(whole), "a flipped bit is found");
    whole[i] = right;
  }
}

}  // namespace spotter::fuzz
