// What a connection over TLS sends, below the reader of HTTP: nothing that was not sealed with its
// key counts as got, however it is cut.
#include <openssl/evp.h>

#include <algorithm>
#include <string>

#include "agent/curl/records.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace spotter::fuzz {

void examine(std::string_view bytes) {
  using State = curl::Records::State;
  const auto records =
      curl::Records::make(EVP_aes_128_gcm(), EVP_sha256(), std::string(32, 'k'), 0);
  must(records != nullptr, "there is such a cipher");
  std::string into(bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes.front()) * 70, '\0');
  for (auto state = State::Lacking; state == State::Lacking;) {
    std::size_t got = 0;
    state = records->take(into, got);
    must(got == 0, "nobody knows the key");
    const auto room = records->room();
    if (state != State::Lacking || bytes.empty()) break;
    must(!room.empty(), "there is room for more");
    const auto piece = bytes.substr(0, std::min<std::size_t>(room.size(), 4099));
    std::ranges::copy(piece, room.begin());
    records->put(piece.size());
    bytes.remove_prefix(piece.size());
  }
}

}  // namespace spotter::fuzz
