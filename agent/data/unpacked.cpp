#include "agent/data/unpacked.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include "agent/aws/formats/s3.hpp"
#include "agent/data/fifo.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {
namespace {

constexpr std::size_t longest_file = std::size_t{256} << 20;  // some million objects

}  // namespace

Unpacked::Unpacked(std::filesystem::path file) : file_(std::move(file)) {
  if (file_.empty()) return;
  const auto text = io::read_file(file_, longest_file);
  if (!text) return;
  std::string_view rest = *text;
  for (auto end = rest.find('\n'); end != std::string_view::npos; end = rest.find('\n')) {
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    const auto blank = line.find(' ');
    if (blank == std::string_view::npos) continue;
    const auto bytes = wire::parse_count(line.substr(blank + 1));
    if (bytes) bytes_[std::string(line.substr(0, blank))] = *bytes;
  }
}

std::optional<std::uint64_t> Unpacked::bytes_of(const std::string& etag) const {
  const auto found = bytes_.find(etag);
  return found == bytes_.end() ? std::nullopt : std::optional(found->second);
}

void Unpacked::learn(const std::string& etag, std::uint64_t bytes) {
  const bool is_word = !etag.empty() && etag.find_first_of(" \n") == std::string::npos;
  if (!is_word || !bytes_.emplace(etag, bytes).second || file_.empty()) return;
  const Descriptor file(::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  // After an incomplete line, left by a lost machine, this completes a line that is invalid: both
  // sizes stay unknown.
  const std::string line = etag + " " + std::to_string(bytes) + "\n";
  [[maybe_unused]] const auto written = ::write(file.get(), line.data(), line.size());
}

}  // namespace spotter::data
