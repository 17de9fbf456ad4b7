// The manifest of files in a bucket. The input is its body: a sum that fits is put behind it, as
// whoever may write to the bucket can do, too.
#include "tests/fuzz/fuzz.hpp"
#include "trainer/library/bucket.hpp"
#include "trainer/library/manifest.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  (void)bucket::decode(bytes);
  std::string whole = std::string(bytes) + R"(,"xxh3_128":")" + checkpoint::sum_of(bytes) + "\"}\n";
  const auto manifest = bucket::decode(whole);
  if (!manifest) return;
  must(manifest->name.find('/') == std::string::npos && !manifest->name.starts_with('.'),
       "a folder lies directly in the directory");
  must(manifest->name.empty() || !manifest->files.empty(), "a checkpoint has files");
  must(manifest->files.size() <= bucket::most_files, "they are not without end");
  for (const auto& [name, file] : manifest->files) {
    const std::string path = "/" + name + "/";
    for (const char* out : {"/../", "/./", "//"})
      must(path.find(out) == std::string::npos, "a file lies in the folder");
    must(name.find('\0') == std::string::npos, "a name has no end in its middle");
    must(file.key().starts_with("data/" + file.group + "/") &&
             file.group.find('/') == std::string::npos,
         "its bytes lie in a group");
  }
  const auto again = bucket::decode(bucket::encode(*manifest));
  must(again && *again == *manifest, "a manifest printed reads the same");
}

}  // namespace spotter::fuzz
