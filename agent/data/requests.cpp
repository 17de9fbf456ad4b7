#include "agent/data/requests.hpp"

#include "agent/aws/formats/s3.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {

namespace fs = std::filesystem;

std::optional<Position> parse_position(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto epoch = wire::parse_count(text.substr(0, colon));
  const auto bytes = wire::parse_count(text.substr(colon + 1));
  if (!epoch || !bytes) return std::nullopt;
  return Position{*epoch, *bytes};
}

Result<Requests> Requests::make(const fs::path& fifos) {
  const fs::path folder = fifos / ".start";
  std::error_code wrong;
  fs::remove_all(folder, wrong);
  if (!wrong) fs::create_directory(folder, wrong);
  if (wrong) return failure("cannot make " + folder.string() + ": " + wrong.message());
  return Requests(folder);
}

Requests::~Requests() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<std::optional<Position>> Requests::asked(const std::string& channel) const {
  constexpr std::size_t longest = 100;
  const auto text = io::read_file(folder_ / channel, longest);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return std::nullopt;
  if (!text) return failure((folder_ / channel).string() + ": " + text.error().message());
  // Without a newline a shell is still writing it; inotify will report the end of that.
  if (!text->ends_with('\n')) return std::nullopt;
  const auto position = parse_position(std::string_view(*text).substr(0, text->size() - 1));
  if (!position) return failure((folder_ / channel).string() + " is not EPOCH:BYTES");
  return position;
}

void Requests::answer(const std::string& channel) const {
  std::error_code ignored;
  fs::remove(folder_ / channel, ignored);
}

}  // namespace spotter::data
