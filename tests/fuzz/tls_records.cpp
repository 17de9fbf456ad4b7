// What a connection over TLS sends, below the reader of HTTP: nothing that was not sealed with its
// key counts as got, however it is cut; and what was is got whole, or up to what is no content.
#include <openssl/evp.h>

#include <algorithm>
#include <string>

#include "agent/curl/records.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/s3/sealed.hpp"

namespace spotter::fuzz {

namespace {

using State = curl::Records::State;

std::unique_ptr<curl::Records> opened() {
  auto records = curl::Records::make(EVP_aes_128_gcm(), EVP_sha256(), curl::secret, 0);
  must(records != nullptr, "there is such a cipher");
  return records;
}

// What is got of the bytes, so many at once, in pieces of at most `taken`.
std::string read(std::string_view bytes, std::size_t taken) {
  const auto records = opened();
  std::string into(taken, '\0'), all;
  for (auto state = State::Some; state == State::Some || state == State::Lacking;) {
    std::size_t got = 0;
    state = records->take(into, got);
    must(got <= into.size(), "no more is got than there is room for");
    must(state == State::Some || got == 0, "nothing is got of what is not the server's");
    all.append(into, 0, got);
    if (state == State::Some) continue;
    const auto room = records->room();
    if (state != State::Lacking || bytes.empty()) break;
    must(!room.empty(), "there is room for more");
    const auto piece = bytes.substr(0, std::min<std::size_t>(room.size(), 4099));
    std::ranges::copy(piece, room.begin());
    records->put(piece.size());
    bytes.remove_prefix(piece.size());
  }
  return all;
}

// The bytes as the contents of records that have the key: a byte for the type, one for the padding,
// one for the size, the content.
void sealed_ones(std::string_view bytes, std::size_t taken) {
  constexpr unsigned char types[] = {curl::of_content,   curl::of_content, curl::of_content,
                                     curl::of_handshake, curl::of_alert,   1};
  std::string stream, content;
  bool only_content = true;
  for (std::uint64_t i = 0; bytes.size() >= 3; ++i) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
    const unsigned char type = types[byte(0) % std::size(types)];
    const std::size_t padding = byte(1) % 8, size = byte(2);
    const std::string some(bytes.substr(3, size));
    bytes.remove_prefix(std::min(bytes.size(), 3 + size));
    stream += curl::sealed(i, some, type, padding);
    // One without content may be one too many.
    only_content = only_content && type == curl::of_content && !some.empty();
    if (type == curl::of_content) content += some;
  }
  const std::string got = read(stream, taken);
  must(content.starts_with(got), "only content is got, in its order");
  must(!only_content || got == content, "all content is got");
}

}  // namespace

void examine(std::string_view bytes) {
  const std::size_t taken = bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes.front()) * 70;
  must(read(bytes, taken).empty(), "nobody else knows the key");
  if (!bytes.empty()) sealed_ones(bytes.substr(1), taken);
}

}  // namespace spotter::fuzz
