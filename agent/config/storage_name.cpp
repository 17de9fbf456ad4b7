#include "agent/config/storage_name.hpp"

namespace spotter::config {
namespace {

std::string whole_name(const Storage& storage) {
  if (!storage.share && storage.ebs.tag.key.empty()) return {};
  if (!storage.share) return storage.ebs.tag.key + "=" + storage.ebs.tag.value;
  constexpr const char* kinds[] = {"folder", "nfs", "efs", "sshfs", "s3"};
  const Share& share = *storage.share;
  const std::string kind = kinds[static_cast<std::size_t>(share.kind)];
  if (share.kind == Share::Kind::Folder) return kind + ":" + share.mount;
  if (share.kind == Share::Kind::S3) return kind + ":" + wire::to_url(share.bucket);
  const std::string inside = share.access_point.empty() ? "" : "#" + share.access_point;
  return kind + ":" + share.server + share.path + inside;
}

}  // namespace

std::string storage_name(const Job& job) {
  constexpr std::size_t longest = 256;
  std::string name = whole_name(job.storage);
  if (name.size() <= longest) return name;
  std::size_t end = longest;
  // Ends between two characters: EC2 refuses invalid UTF-8.
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0U) == 0x80U) --end;
  return name.substr(0, end);
}

}  // namespace spotter::config
