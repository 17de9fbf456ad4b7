#include "tests/emulator/s3/attributes.hpp"

#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace spotter::emulator::s3 {
namespace {

using nlohmann::json;
constexpr std::uint64_t read_at_most = 1024 * 1024;

json to_json(const Recorded& it) {
  json checksums = json::object();
  for (const auto& [algorithm, value] : it.attributes.checksums)
    checksums[std::string(api::checksum_name(algorithm))] = value;
  return {{"key", it.key},
          {"inode", it.identity.inode},
          {"size", it.identity.size},
          {"modified", it.identity.modified},
          {"etag", it.attributes.etag},
          {"content_type", it.attributes.content_type},
          {"headers", it.attributes.headers},
          {"checksums", checksums},
          {"composite", it.attributes.composite},
          {"part_sizes", it.attributes.part_sizes}};
}

Recorded from_json(const json& it) {
  Recorded record;
  it.at("key").get_to(record.key);
  it.at("inode").get_to(record.identity.inode);
  it.at("size").get_to(record.identity.size);
  it.at("modified").get_to(record.identity.modified);
  it.at("etag").get_to(record.attributes.etag);
  it.at("content_type").get_to(record.attributes.content_type);
  it.at("headers").get_to(record.attributes.headers);
  it.at("composite").get_to(record.attributes.composite);
  it.at("part_sizes").get_to(record.attributes.part_sizes);
  for (const auto& [name, value] : it.at("checksums").items())
    if (const auto algorithm = api::checksum_algorithm(name))
      record.attributes.checksums[*algorithm] = value.get<std::string>();
  return record;
}

}  // namespace

Identity identity_of(const struct stat& status) {
  return {
      status.st_ino, static_cast<std::uint64_t>(status.st_size),
      static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec};
}

world::WallTime modified_of(const Identity& identity) {
  return std::chrono::floor<std::chrono::milliseconds>(
      std::chrono::sys_time<std::chrono::nanoseconds>{std::chrono::nanoseconds{identity.modified}});
}

bool write_record(const std::filesystem::path& path, const Recorded& record) {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  const std::filesystem::path partial = path.string() + ".partial";
  std::ofstream file(partial, std::ios::trunc);
  file << to_json(record).dump(-1, ' ', false, json::error_handler_t::replace);
  file.close();
  if (!file) return false;
  std::filesystem::rename(partial, path, failed);
  return !failed;
}

std::optional<Recorded> read_record(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  try {
    return from_json(json::parse(file));
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

Attributes derive(int descriptor, const struct stat& status) {
  const Identity identity = identity_of(status);
  const bool sparse = static_cast<std::uint64_t>(status.st_blocks) * 512 < identity.size;
  const auto hash = api::make_digest(api::Algorithm::Md5);
  if (sparse || identity.size > read_at_most) {
    hash->take(std::to_string(identity.inode) + ' ' + std::to_string(identity.size) + ' ' +
               std::to_string(identity.modified));
    return {api::hexadecimal(hash->finish()) + "-1", ""};
  }
  std::string piece(64 * 1024, '\0');
  off_t at = 0;
  for (ssize_t got = 0; (got = ::pread(descriptor, piece.data(), piece.size(), at)) > 0; at += got)
    hash->take(std::string_view(piece.data(), static_cast<std::size_t>(got)));
  return {api::hexadecimal(hash->finish()), ""};
}

}  // namespace spotter::emulator::s3
