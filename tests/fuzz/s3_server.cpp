// S3's requests, documents, chunks, ranges, keys and listings. The first byte says what the rest
// is; what a request's head brings comes through fuzz_signature.
#include <algorithm>
#include <pugixml.hpp>
#include <set>
#include <string>

#include "tests/fuzz/fuzz.hpp"
#include "tests/world/s3/chunks.hpp"
#include "tests/world/s3/conditions.hpp"
#include "tests/world/s3/documents.hpp"
#include "tests/world/s3/keys.hpp"

namespace spotter::fuzz {
namespace {

using namespace world::s3;

bool is_xml(const std::string& document) {
  pugi::xml_document parsed;
  return parsed.load_buffer(document.data(), document.size());
}

void documents(std::string_view bytes) {
  if (const auto parts = parse_completion(bytes)) must(!parts->empty(), "a completion has parts");
  const auto deletion = parse_deletion(bytes);
  std::vector<Deletion> deletions;
  if (deletion)
    for (const auto& it : deletion->items) deletions.push_back({it.key, std::nullopt});
  must(is_xml(deleted(deletions, false)), "an answer is XML");
  if (const auto place = parse_location(bytes)) must(is_xml(location(*place)), "so is a location");
}

// In one piece, and byte by byte: the same.
void chunks(std::string_view bytes) {
  const auto decode = [&](std::size_t piece) {
    std::string content;
    ChunkDecoder decoder([&](std::string_view part) { content += part; });
    for (std::size_t at = 0; at < bytes.size(); at += piece) decoder.take(bytes.substr(at, piece));
    const auto error = decoder.finish();
    must(decoder.size() == content.size(), "the size is that of the content");
    return std::tuple(content, error ? error->code : "", decoder.trailers());
  };
  must(decode(bytes.size() + 1) == decode(1), "how it was cut does not matter");
}

void ranges(std::string_view bytes) {
  for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1000}}) {
    const auto selection = select_range(bytes, size);
    if (const auto* const part = std::get_if<ByteRange>(&selection))
      must(part->size > 0 && part->first + part->size <= size, "a range lies in the object");
  }
}

void keys(std::string_view bytes) {
  const auto path = path_of(bytes);
  if (!path) return;
  std::string joined;
  for (const auto& name : *path) {
    must(!name.empty() && name != "." && name != "..", "every name goes down");
    joined += (joined.empty() ? "" : "/") + name;
  }
  must(joined == bytes, "the path is the key");
}

// "METHOD HOST PATH": what is taken for a request names a bucket that is one and a key of UTF-8.
void requests(std::string_view bytes) {
  const auto first = std::min(bytes.find(' '), bytes.size());
  const auto second = std::min(bytes.find(' ', first + 1), bytes.size());
  const std::string path(bytes.substr(std::min(second + 1, bytes.size())));
  const auto request = classify(
      std::string(bytes.substr(0, first)), path, {{"uploadId", "u"}},
      {{"host", std::string(bytes.substr(std::min(first + 1, bytes.size()), second - first))}});
  if (!request || request->operation == Operation::ListBuckets) return;
  must(is_bucket_name(request->bucket), "a bucket's name is one");
  must(is_utf8(request->key) && path.ends_with(request->key), "a key is the end of the path");
}

class Lines : public Keys {
 public:
  explicit Lines(std::string_view bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const auto end = std::min(bytes.find('\n', at), bytes.size());
      if (end > at) all_.emplace(bytes.substr(at, end - at));
      at = end + 1;
    }
  }
  std::optional<std::string> at_or_after(const std::string& key) override {
    const auto found = all_.lower_bound(key);
    return found == all_.end() ? std::nullopt : std::optional(*found);
  }

 private:
  std::set<std::string> all_;
};

// Pages of one together are one page of all.
void listings(std::string_view bytes) {
  Lines lines(bytes);
  ListingOf what{bytes.size() % 2 ? "a" : "", bytes.size() % 3 ? "/" : "", "", 1000};
  const Listing whole = list(what, lines);
  if (!whole.next.empty()) return;
  std::vector<std::string> found, prefixes;
  what.most = 1;
  for (bool more = true; more;) {
    const Listing page = list(what, lines);
    found.insert(found.end(), page.keys.begin(), page.keys.end());
    prefixes.insert(prefixes.end(), page.common_prefixes.begin(), page.common_prefixes.end());
    more = !page.next.empty();
    if (more) what.after = parse_continuation_token(continuation_token(page.next)).value_or("");
  }
  must(found == whole.keys && prefixes == whole.common_prefixes, "pages make the whole");
}

}  // namespace

void examine(std::string_view bytes) {
  if (bytes.empty()) return;
  const char kind = bytes.front();
  bytes.remove_prefix(1);
  if (kind == 'd') documents(bytes);
  if (kind == 'c') chunks(bytes);
  if (kind == 'r') ranges(bytes);
  if (kind == 'k') keys(bytes);
  if (kind == 'q') requests(bytes);
  if (kind == 'l') listings(bytes);
  if (kind == 'b')
    if (const auto raw = parse_base64(std::string(bytes)))
      must(parse_base64(base64(*raw)) == raw, "base64 printed reads the same");
}

}  // namespace spotter::fuzz
