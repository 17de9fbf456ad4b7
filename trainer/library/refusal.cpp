#include "trainer/library/refusal.hpp"

#include "trainer/library/files.hpp"

namespace spotter::checkpoint {

Refusal refusal(int code, std::string reason) {
  const bool torn = code == 0 || is_absence(code);
  return {torn ? Refusal::Why::Torn : Refusal::Why::Unread, std::move(reason)};
}

Result<Manifest, Refusal> read_manifest(const std::filesystem::path& checkpoint) {
  std::string bytes;
  int code = 0;
  const auto read = read_pieces(
      checkpoint / kManifestName, [&](std::string_view piece) { bytes.append(piece); }, &code,
      kManifestLimit);
  if (!read) return tl::unexpected(refusal(code, read.error().message));
  auto manifest = decode(bytes);
  if (manifest) return std::move(*manifest);
  const auto why = wire::is_newer(manifest.error()) ? Refusal::Why::Newer : Refusal::Why::Torn;
  return tl::unexpected(Refusal{why, manifest.error().message});
}

}  // namespace spotter::checkpoint
