// The manifest of a folder in S3. The input is its body: a sum that fits is put behind it, as
// whoever may write to the bucket can do, too.
#include <set>

#include "agent/tier/manifest.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  (void)tier::decode(bytes);
  std::string whole = std::string(bytes) + R"(,"xxh3_128":")" + checkpoint::sum_of(bytes) + "\"}\n";
  const auto manifest = tier::decode(whole);
  if (!manifest) return;
  must(manifest->name.find('/') == std::string::npos && !manifest->name.starts_with('.'),
       "a folder lies directly in the directory");
  must(!manifest->parts.empty() && manifest->parts.size() <= tier::parts_limit,
       "a checkpoint has files, and not without end");
  std::set<std::string> names;
  for (const auto& part : manifest->parts) {
    const std::string path = "/" + part.name + "/";
    for (const char* out : {"/../", "/./", "//"})
      must(path.find(out) == std::string::npos, "a file lies in the folder");
    must(part.name.find('\0') == std::string::npos, "a name has no end in its middle");
    must(names.insert(part.name).second, "each file is named once");
  }
  const auto again = tier::decode(tier::encode(*manifest));
  must(again && *again == *manifest, "a manifest printed reads the same");
}

}  // namespace spotter::fuzz
