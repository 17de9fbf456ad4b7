#include "agent/config/prepare.hpp"

#include <algorithm>

#include "agent/aws/formats/s3.hpp"
#include "agent/aws/formats/sigv4.hpp"
#include "agent/config/scalars.hpp"

namespace spotter::config {
namespace {

bool is_url(std::string_view text) {
  return text.starts_with("https://") || text.starts_with("http://");
}

// The file is named after the last part of the URL.
Result<std::string> parse_url(std::string_view text) {
  const std::string_view path = text.substr(0, std::min(text.find_first_of("?#"), text.size()));
  const auto host = path.find("//") + 2;
  const auto slash = path.rfind('/');
  if (text.find('@') != text.npos && text.find('@') < std::min(path.find('/', host), text.size()))
    return failure("the URL has a password in it: everybody reads job.yaml");
  const std::string_view name = slash < host ? "" : path.substr(slash + 1);
  const bool is_name = !name.empty() && name != "." && name != ".." && name != ".spotter";
  if (is_name && text.find_first_of(" \t\r\n") == text.npos) return std::string(text);
  return failure(in_quotes(text) +
                 " names no file: a URL is fetched as one file, by its last part");
}

Result<std::string> parse_from(std::string_view text) {
  if (is_url(text)) return parse_url(text);
  if (text.starts_with("s3://")) {
    TRY(wire::parse_s3_url(text));
    return std::string(text);
  }
  const auto path = folder_path.parse(text);
  if (path) return *path;
  return failure(in_quotes(text) +
                 " is no source: s3://bucket/prefix, https://..., or an absolute " + "path");
}
const Scalar<std::string> from{"s3://bucket/prefix, https://... or a folder", parse_from};

// Refuses the agent's own folders: it trusts their content.
Result<std::string> parse_to(std::string_view text) {
  auto path = TRY(path_below_mount.parse(text));
  while (path.ends_with('/')) path.pop_back();
  const std::string first = path.substr(0, path.find('/'));
  for (const char* own : {".", ".spotter", "code", "log", users_home})
    if (first == own || path.empty())
      return failure(in_quotes(text) + " is Spotter's own: name a folder such as data");
  if (("/" + path + "/").find("/./") == path.npos && path.find("//") == path.npos) return path;
  return failure(in_quotes(text) + " is no plain path below the volume, such as data/train");
}
const Scalar<std::string> to{"a folder on the volume, such as data", parse_to};

Result<std::string> parse_via(std::string_view text) {
  return s3_prefix.parse(text).map(wire::to_url);
}
const Scalar<std::string> via{"where in S3, such as s3://bucket/prefix", parse_via};

Reader::Fields source_fields(Reader& reader, Source& source) {
  return {{"from", required, reader.expanded(source.from, from)},
          {"to", required, reader.scalar(source.to, to)},
          {"sha256", optional, reader.scalar(source.sha256, sha256)},
          {"via", optional, reader.expanded(source.via, via)}};
}

// The trainer's use of that place; empty: none.
std::string in_the_way(const std::string& place, const Job& job) {
  const auto meets = [&](const std::string& path) {
    return !path.empty() && !place.empty() &&
           (is_at_or_below(place, path) || is_at_or_below(path, place));
  };
  if (meets(job.checkpoints.directory)) return "its checkpoints are";
  if (meets(job.trainer.result)) return "its result is to be";
  return meets(std::string(container_folder)) ? "its channels and outputs are" : "";
}

}  // namespace

void read_prepare(Reader& reader, const Node& node, const std::string& path,
                  std::vector<Source>& sources) {
  if (node.kind != Node::Kind::List)
    return reader.problem(node, path,
                          "expected a list such as [{from: s3://bucket/prefix, to: data}]");
  sources.reserve(node.items.size());
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string here = path + "[" + std::to_string(i) + "]";
    Source& source = sources.emplace_back();
    reader.map(node.items[i], here, source_fields(reader, source));
    if (!source.sha256.empty() && !source.from.empty() && !is_url(source.from))
      reader.problem(node.items[i], here + ".sha256",
                     "is of one file at a URL; S3's own checksums are compared anyway");
    if (source.from.starts_with("http://") && source.sha256.empty())
      reader.problem(node.items[i], here + ".from",
                     "anybody on the way can change it: https://, or say its sha256");
    if (!source.via.empty() && !source.from.starts_with('/'))
      reader.problem(node.items[i], here + ".via", "is the way of a folder of this machine");
  }
}

void check_prepare(Reader& reader, const Job& job) {
  if (job.prepare.empty()) return;
  if (job.storage.in_bucket())
    reader.problem("prepare",
                   "fills the volume of storage.ebs; with storage.s3 name the data in "
                   "`channels:`, which reads it where it is in S3: what is elsewhere is brought "
                   "there once, as by `aws s3 sync`");
  else if (job.storage.share)
    reader.problem("prepare", "fills the volume of storage.ebs; a share is filled once, by hand");
  const Node& list = *reader.given("prepare");
  for (std::size_t at = 0; at < job.prepare.size(); ++at)
    if (const std::string what = in_the_way(job.prepare[at].to, job); !what.empty())
      reader.problem(list.items[at], "prepare[" + std::to_string(at) + "].to",
                     in_quotes(job.prepare[at].to) + " is where " + what +
                         ", which a source would overwrite: name a folder of its own");
}

std::string digest_of(const std::vector<Source>& sources) {
  std::string text;
  for (const Source& it : sources) text += it.from + "\n" + it.to + "\n" + it.sha256 + "\n";
  return wire::sha256_hex(text).substr(0, 16);
}

// A socket or a device is no file, and is not looked at.
Result<LocalFiles> files_of(const std::filesystem::path& from) {
  namespace fs = std::filesystem;
  LocalFiles files;
  std::error_code error;
  if (fs::is_regular_file(from, error)) return LocalFiles{{from.filename().string(), from}};
  if (!fs::is_directory(from, error))
    return failure(from.string() + " is no folder of this machine, nor a file");
  for (fs::recursive_directory_iterator at(from, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code unreadable;
    if (at->is_regular_file(unreadable))
      files.emplace_back(fs::relative(at->path(), from, unreadable), at->path());
    else if (at->is_symlink(unreadable) && !fs::exists(at->path(), unreadable))
      return failure(at->path().string() + " is a link that leads nowhere");
  }
  if (error) return failure(from.string() + ": " + error.message());
  std::ranges::sort(files);
  return files;
}

}  // namespace spotter::config
