#include "agent/config/storage.hpp"

#include <algorithm>

#include "agent/base/text.hpp"
#include "agent/config/scalars.hpp"

namespace spotter::config {
namespace {

using Fields = Reader::Fields;

// The values become arguments of mount tools, so none may begin with '-' or contain a second
// option.

constexpr std::string_view kLettersAndDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

bool only_letters_digits(std::string_view text, const std::string& also) {
  return text.find_first_not_of(std::string(kLettersAndDigits) + also) == text.npos;
}

// False: it has a character that ends an option's value or a line.
bool is_plain(std::string_view text) {
  for (const char each : text)
    if (each == ',' || static_cast<unsigned char>(each) < 0x20 || each == 0x7f) return false;
  return true;
}

Result<std::string> parse_folder_path(std::string_view text) {
  while (text.size() > 1 && text.back() == '/') text.remove_suffix(1);
  const std::string padded = std::string(text) + "/";
  if (text.empty() || text[0] != '/')
    return failure(in_quotes(text) + " is relative; give an absolute path");
  if (padded.find("/../") != padded.npos || !is_plain(text))
    return failure(in_quotes(text) + " must not have '..', a comma or a line break in it");
  return std::string(text);
}

// An IPv6 address is in brackets, as mount.nfs and ssh expect it.
bool is_host_name(std::string_view text) {
  return !text.empty() && text.size() <= 255 && text[0] != '-' &&
         only_letters_digits(text, ".-_:[]");
}

bool is_named(std::string_view option, std::string_view name) {
  return option == name || option.starts_with(std::string(name) + "=");
}

Result<std::string> parse_mount_options(std::string_view text) {
  if (text.empty() || !only_letters_digits(text, ",=._:/@%+-[]"))
    return failure(in_quotes(text) + " is not a list of options such as ro,timeo=600");
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view option = take_until(rest, ',');
    if (option.empty() || option[0] == '-')
      return failure(in_quotes(text) + " has an empty option");
    for (const auto* ours : {"StrictHostKeyChecking", "UserKnownHostsFile", "IdentityFile",
                             "ssh_command", "directport", "ro"})
      if (is_named(option, ours))
        return failure(in_quotes(option) +
                       " is not an option to give here: the server's key is always checked (key, "
                       "known_hosts), and a job writes");
  }
  return std::string(text);
}

bool is_efs_id(std::string_view text) {
  return is_id(text, "fs-") || (text.find('.') != text.npos && is_host_name(text));
}
bool is_access_point(std::string_view text) { return is_id(text, "fsap-"); }

Result<std::string> parse_sshfs_source(std::string_view text) {
  const auto colon = text.find(":/");
  const auto wrong = failure(in_quotes(text) + " is not user@host:/path");
  if (colon == text.npos) return wrong;
  const auto host = text.substr(0, colon);
  const auto at = host.rfind('@');
  const auto user = at == host.npos ? std::string_view() : host.substr(0, at);
  const bool named =
      at == host.npos || (!user.empty() && user[0] != '-' && only_letters_digits(user, "._-"));
  const auto path = parse_folder_path(text.substr(colon + 1));
  if (!named || !path || !is_host_name(host.substr(at == host.npos ? 0 : at + 1))) return wrong;
  return std::string(text.substr(0, colon + 1)) + *path;
}

const Scalar<FileSystem> file_system{
    .expected = "xfs or ext4", .choices = {{"xfs", FileSystem::Xfs}, {"ext4", FileSystem::Ext4}}};
const Scalar<std::string> host_name{.expected = "a host's name or address", .fits = is_host_name};
const Scalar<std::string> mount_options{"mount options", parse_mount_options};
const Scalar<std::string> efs_id{
    .expected = "a file system's id (fs-0123456789abcdef0) or its DNS name", .fits = is_efs_id};
const Scalar<std::string> efs_access_point{
    .expected = "an access point's id (fsap-0123456789abcdef0)", .fits = is_access_point};
const Scalar<std::string> sshfs_source{"user@host:/path", parse_sshfs_source};

Result<std::string> parse_volume_name(std::string_view text) {
  if (text.find(before_index) == text.npos) return tag_value.parse(text);
  return failure(in_quotes(text) +
                 " has a colon, which begins the index in the name of an experiment's volume");
}
const Scalar<std::string> volume_name{"a tag's value", parse_volume_name};

void read_tag(Reader& reader, const Node& node, const std::string& path, Tag& tag) {
  const auto each = [&](const Node& key, const Node& value, const std::string& below) {
    if (const auto wrong = wrong_tag_key(key.text); !wrong.empty())
      return reader.problem(key, path, wrong);
    tag.key = key.text;
    reader.expanded(tag.value, volume_name)(value, below);
  };
  reader.pairs("one tag, such as {Name: my-volume}", each)(node, path);
  if (node.kind == Node::Kind::Map && node.keys.size() != 1)
    reader.problem(node, path,
                   "expected exactly one tag, found " + std::to_string(node.keys.size()));
}

Fields ebs_fields(Reader& reader, EbsStorage& ebs) {
  return {{"tag", required, reader.by(read_tag, ebs.tag)},
          {"mount", optional, reader.expanded(ebs.mount, mount_point)},
          {"filesystem", optional, reader.scalar(ebs.filesystem, file_system)},
          {"consistency_bound", optional, reader.scalar(ebs.consistency_bound, duration)}};
}

// A folder that is not mounted by us may be anywhere.
Fields folder_fields(Reader& reader, Share& share) {
  return {{"path", required, reader.expanded(share.mount, folder_path)}};
}

Fields nfs_fields(Reader& reader, Share& share) {
  return {{"server", required, reader.expanded(share.server, host_name)},
          {"path", required, reader.expanded(share.path, folder_path)},
          {"mount", optional, reader.expanded(share.mount, mount_point)},
          {"options", optional, reader.expanded(share.options, mount_options)}};
}

Fields efs_fields(Reader& reader, Share& share) {
  return {{"id", required, reader.expanded(share.server, efs_id)},
          {"access_point", optional, reader.expanded(share.access_point, efs_access_point)},
          {"tls", optional, reader.scalar(share.tls, yes_or_no)},
          {"mount", optional, reader.expanded(share.mount, mount_point)},
          {"options", optional, reader.expanded(share.options, mount_options)}};
}

Fields sshfs_fields(Reader& reader, Share& share) {
  const auto source = [&](const Node& node, const std::string& path) {
    std::string text;
    reader.expanded(text, sshfs_source)(node, path);
    const auto colon = text.find(":/");
    share.server = text.substr(0, colon);
    share.path = colon == text.npos ? "" : text.substr(colon + 1);
  };
  return {{"source", required, source},
          {"key", optional, reader.expanded(share.key, folder_path)},
          {"known_hosts", optional, reader.expanded(share.known_hosts, folder_path)},
          {"port", optional, reader.scalar(share.port, port)},
          {"options", optional, reader.expanded(share.options, mount_options)},
          {"mount", optional, reader.expanded(share.mount, mount_point)}};
}

// Without one: root's in a folder that no trainer's user owns, a user's where caches are.
std::string default_cache(const Environment& environment) {
  if (environment.root && !environment.foreground) return "/var/lib/spotter-homes";
  const auto home = environment.variables.find("HOME");
  const bool known = home != environment.variables.end() && home->second.starts_with('/');
  return known ? home->second + "/.cache/spotter" : "/var/tmp/spotter";
}

// `s3: s3://bucket/prefix`, or a mapping.
Reader::Take bucket(Reader& reader, Storage& storage, const Environment& environment) {
  return [&](const Node& node, const std::string& path) {
    Share& share = storage.share.emplace();
    share.kind = Share::Kind::S3;
    share.mount = default_cache(environment);
    if (node.kind == Node::Kind::Text)
      return reader.expanded(storage.bucket, s3_prefix)(node, path);
    reader.map(node, path,
               {{"at", required, reader.expanded(storage.bucket, s3_prefix)},
                {"cache", optional, reader.expanded(share.mount, folder_path)}});
  };
}

Reader::Take one_share(Reader& reader, Storage& storage, Share::Kind kind,
                       Fields (*fields)(Reader&, Share&)) {
  return [&reader, &storage, kind, fields](const Node& node, const std::string& path) {
    storage.share.emplace().kind = kind;
    reader.map(node, path, fields(reader, *storage.share));
  };
}

}  // namespace

const Scalar<std::string> folder_path{"an absolute path", parse_folder_path};
const Scalar<std::uint16_t> port{"a port", parse_between<1, 65'535, std::uint16_t>};
const Scalar<bool> yes_or_no{.expected = "true or false",
                             .choices = {{"true", true}, {"false", false}}};

void read_storage(Reader& reader, const Node& node, const std::string& path, Storage& storage) {
  using Kind = Share::Kind;
  if (node.kind == Node::Kind::List) return storage_list(reader, storage, node, path);
  reader.map(node, path,
             {{"ebs", optional, reader.object(storage.ebs, ebs_fields)},
              {"folder", optional, one_share(reader, storage, Kind::Folder, folder_fields)},
              {"nfs", optional, one_share(reader, storage, Kind::Nfs, nfs_fields)},
              {"efs", optional, one_share(reader, storage, Kind::Efs, efs_fields)},
              {"sshfs", optional, one_share(reader, storage, Kind::Sshfs, sshfs_fields)},
              {"s3", optional, bucket(reader, storage, reader.environment())}});
  if (node.kind == Node::Kind::Map && node.keys.size() != 1)
    reader.problem(node, path,
                   "expected exactly one of ebs, folder, nfs, efs, sshfs, s3, found " +
                       std::to_string(node.keys.size()));
}

std::string describe(const Storage& storage) {
  const Share& share = *storage.share;
  if (share.kind == Share::Kind::Folder) return "the folder " + share.mount;
  if (share.kind == Share::Kind::S3)
    return "the bucket " + wire::to_url(storage.bucket) + " (" + share.mount + " here)";
  return share.mount + " (" + std::string(to_text(share.kind)) + " of " + share.server +
         (share.path.empty() ? "" : ":" + share.path) + ")";
}

std::string efs_file_system(const Share& share, std::string_view region) {
  if (share.kind != Share::Kind::Efs || !share.server.starts_with("fs-")) return {};
  const auto dot = share.server.find('.');
  const std::string id = share.server.substr(0, dot);
  const bool here = dot == std::string::npos ||
                    share.server.starts_with(id + ".efs." + std::string(region) + ".");
  return here ? id : std::string();
}

std::optional<std::string> mount_option(const Share& share, std::string_view name) {
  for (std::string_view rest = share.options; !rest.empty();) {
    const std::string_view option = take_until(rest, ',');
    const auto equals = std::min(option.find('='), option.size());
    if (option.substr(0, equals) != name) continue;
    return std::string(option.substr(std::min(equals + 1, option.size())));
  }
  return std::nullopt;
}

std::string_view mount_tool(const Share& share) {
  if (share.kind == Share::Kind::Folder || share.kind == Share::Kind::S3) return "";
  if (share.kind == Share::Kind::Sshfs) return "sshfs";
  const bool helped = share.tls || !share.access_point.empty() || mount_option(share, "tls") ||
                      mount_option(share, "iam") || mount_option(share, "az");
  return share.kind == Share::Kind::Efs && helped ? "mount.efs" : "mount.nfs";
}

}  // namespace spotter::config
