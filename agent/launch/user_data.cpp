#include "agent/launch/user_data.hpp"

#include <zlib.h>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/base/text.hpp"
#include "agent/launch/user_data_template.hpp"

namespace spotter::launch {
namespace {

void replace(std::string& text, std::string_view what, const std::string& with) {
  const auto at = text.find(what);
  if (at != text.npos) text.replace(at, what.size(), with);
}

// The action of a machine that cannot install the agent, which would decide that.
const char* when_failing(const config::Job& job) {
  if (job.launch->reservation) return "once";
  return job.launch->capacity == 1 ? "end-fleet" : "leave";
}

// Minutes, at least one, that such a machine stays; 0: it does not.
std::string minutes_held(const config::Job& job) {
  if (job.on_failure.then != GiveUp::Hold) return "0";
  return std::to_string(std::chrono::ceil<std::chrono::minutes>(job.on_failure.hold).count());
}

// The program that mounts the job's share, and comes with a package of its own.
std::string tool_of(const config::Job& job) {
  return job.storage.share ? std::string(config::mount_tool(*job.storage.share)) : std::string();
}

// A here-document. `text` cannot contain its end line, which is made from a hash of the text.
std::string block(const std::string& name, std::string text) {
  const std::string end = "END_" + wire::sha256_hex(text).substr(0, 16);
  if (!text.ends_with('\n')) text += '\n';
  return "  write " + wire::shell_quoted(name) + " <<'" + end + "'\n" + text + end + "\n";
}

// The packages from which the instance chooses: a line each.
std::string lines_of(const config::Package& package, const std::vector<SentPackage>& sent) {
  if (!package.is_sent())
    return package.sha256.empty() ? package.source : package.sha256 + " " + package.source;
  std::string lines;
  for (const SentPackage& it : sent)
    lines += (lines.empty() ? "" : "\n") + it.sha256 + " " + wire::to_url(it.where);
  return lines;
}

}  // namespace

wire::S3Location place_of(const std::string& prefix, const std::string& file_name,
                          const std::string& sha256) {
  auto where = wire::parse_s3_url(prefix).value();
  where.key += sha256 + "/" + file_name;
  return where;
}

std::string bytes_of_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < digits.size(); at += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(at, 2)), nullptr, 16));
  return bytes;
}

std::string send_command(const SentPackage& package) {
  return "aws s3api put-object --bucket " + wire::shell_quoted(package.where.bucket) + " --key " +
         wire::shell_quoted(package.where.key) + " --body " + wire::shell_quoted(package.file) +
         " --checksum-sha256 " + wire::to_base64(bytes_of_hex(package.sha256));
}

std::string compressed(const std::string& script) {
  constexpr int gzip = 15 + 16;  // the largest window, with gzip's header, which has no time then
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, gzip, 9, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&stream, script.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(script.data()));
  stream.avail_in = static_cast<uInt>(script.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string stamped(std::string script, std::int64_t launched) {
  replace(script, "@LAUNCHED@", std::to_string(launched));
  return script;
}

Result<std::string> user_data(const config::Job& job,
                              const std::map<std::string, std::string>& files, Work work,
                              const std::vector<SentPackage>& packages) {
  std::string script(user_data_template);
  std::string blocks;
  for (const auto& [name, text] : files) blocks += block(name, text);
  // The user's files come last: they may contain the other places' names.
  replace(script, "@FAILING@", when_failing(job));
  replace(script, "@HOLD@", minutes_held(job));
  replace(script, "@TOOL@", tool_of(job));
  replace(script, "@WORK@", work == Work::Prepare ? "prepare" : "serve");
  replace(script, "@PACKAGES@", lines_of(job.launch->package, packages));
  replace(script, "#@FILES@\n", blocks);
  const std::size_t size = compressed(script).size();
  if (size <= user_data_limit) return script;
  std::string list;
  for (const auto& [name, text] : files)
    list += (list.empty() ? "" : ", ") + name + " " + std::to_string(text.size());
  return failure(
      "the instances' user data would have " + std::to_string(size) +
      " bytes, compressed, and EC2 takes " + std::to_string(user_data_limit) + " (" + list +
      "): put long lists into S3 (sweep.parameters: s3://...), or the job into the image");
}

}  // namespace spotter::launch
