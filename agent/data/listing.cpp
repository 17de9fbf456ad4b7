#include "agent/data/listing.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "agent/base/version.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t known_format = 1;
constexpr std::size_t longest_line = 1U << 30;  // as long as its manifest may be

Json header_of(const wire::Channel& channel) {
  Json header = {{"format", known_format},
                 {"source", wire::to_url(channel.source)},
                 {"type", static_cast<int>(channel.type)}};
  if (!channel.attributes.empty()) header["attributes"] = channel.attributes;
  if (channel.mode != wire::InputMode::Pipe) return header;
  // The same position in the stream means the same bytes only if these are unchanged.
  if (channel.shuffle_seed) header["seed"] = *channel.shuffle_seed;
  if (channel.gzip) header["gzip"] = true;
  if (channel.recordio) header["recordio"] = true;
  return header;
}

std::optional<Entry> entry_of(const Json& line) {
  if (line.is_array() && line.size() == 1 && line[0].is_string()) {
    Entry entry{.value = line[0].get<std::string>()};
    entry.size = entry.value->size();
    return entry;
  }
  const auto is_object = [&line] {
    if (!line.is_array() || line.size() < 4 || line.size() > 6) return false;
    const bool fits = line[0].is_string() && line[1].is_number_unsigned() && line[2].is_string() &&
                      line[3].is_boolean();
    if (line.size() == 5) return fits && (line[4].is_string() || line[4].is_number_integer());
    return fits && (line.size() == 4 || (line[4].is_string() && line[5].is_number_integer()));
  };
  if (!is_object() || line[2].get_ref<const std::string&>().empty()) return std::nullopt;
  Entry entry{.key = line[0].get<std::string>(),
              .size = line[1].get<std::uint64_t>(),
              .etag = line[2].get<std::string>(),
              .checksum = line[3].get<bool>()};
  if (line.size() > 4 && line[4].is_string()) entry.bucket = line[4].get<std::string>();
  if (line.back().is_number()) entry.modified = line.back().get<std::int64_t>();
  return entry;
}

Json line_of(const Entry& entry) {
  if (entry.value) return Json::array({*entry.value});
  Json line = {entry.key, entry.size, entry.etag, entry.checksum};
  if (!entry.bucket.empty()) line.push_back(entry.bucket);
  if (entry.modified != 0) line.push_back(entry.modified);
  return line;
}

// The listing's prefix; none: the first line does not fit the channel.
std::optional<std::string> prefix_of(const wire::Channel& channel, Json header) {
  if (!header.is_object()) return std::nullopt;
  std::string prefix = channel.source.key;
  if (header.contains("prefix")) {
    if (!header["prefix"].is_string()) return std::nullopt;
    prefix = header["prefix"].get<std::string>();
    header.erase("prefix");
  }
  if (header != header_of(channel)) return std::nullopt;
  return prefix;
}

std::string written(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string first_line(const wire::Channel& channel, const Listing& listing) {
  Json header = header_of(channel);
  if (listing.prefix != channel.source.key) header["prefix"] = listing.prefix;
  return written(header);
}

// Takes the lines of a file one by one.
class Decoder {
 public:
  explicit Decoder(const wire::Channel& channel) : channel_(channel) {}

  Result<void> add(std::string_view text) {
    const Json line = Json::parse(text, nullptr, false);
    if (!begun_) {
      if (auto later = wire::newer(line, "format", known_format, "it")) {
        is_newer = true;
        return failure(later->message);
      }
      auto prefix = prefix_of(channel_, line);
      if (!prefix) return failure("it is of another source");
      listing.prefix = std::move(*prefix);
      begun_ = true;
      return {};
    }
    auto entry = entry_of(line);
    const auto number = listing.entries.size() + 2;
    if (!entry) return failure("line " + std::to_string(number) + " is no object");
    listing.entries.push_back(std::move(*entry));
    return {};
  }
  Result<void> end() const {
    if (!begun_) return failure("it is empty");
    return {};
  }

  Listing listing;
  bool is_newer = false;

 private:
  const wire::Channel& channel_;
  bool begun_ = false;
};

constexpr const char* cut_off = "its last line is cut off";

}  // namespace

std::string encode_listing(const wire::Channel& channel, const Listing& listing) {
  std::string text = first_line(channel, listing);
  for (const auto& entry : listing.entries) text += written(line_of(entry));
  return text;
}

Result<void> write_listing(const std::filesystem::path& path, const wire::Channel& channel,
                           const Listing& listing) {
  constexpr std::size_t lines_at_once = 1000;
  bool first = true;
  auto at = listing.entries.begin();
  const auto done = io::atomic_write_pieces(path, 0644, [&](std::string& piece) {
    if (std::exchange(first, false)) piece = first_line(channel, listing);
    for (std::size_t i = 0; i < lines_at_once && at != listing.entries.end(); ++i, ++at)
      piece += written(line_of(*at));
  });
  if (!done) return failure(path.string() + ": " + done.error().message());
  return {};
}

Result<std::optional<Listing>> read_listing(const std::filesystem::path& path,
                                            const wire::Channel& channel) {
  Decoder decoder(channel);
  Result<void> good;
  const auto read = io::read_lines(path, longest_line, [&](std::string_view line, bool whole) {
    good = whole ? decoder.add(line) : failure(cut_off);
    return good.has_value();
  });
  if (!read && read.error() == std::errc::no_such_file_or_directory) return std::nullopt;
  if (!read) return failure(path.string() + ": " + read.error().message());
  if (good) good = decoder.end();
  if (good) return std::move(decoder.listing);
  const std::string why = "the frozen listing " + path.string() + ": " + good.error().message;
  return failure(decoder.is_newer ? why : why + "; remove it to start over");
}

Result<Listing> decode_listing(const wire::Channel& channel, std::string_view text) {
  Decoder decoder(channel);
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == text.npos) return failure(cut_off);
    if (const auto added = decoder.add(text.substr(0, end)); !added)
      return tl::unexpected(added.error());
    text.remove_prefix(end + 1);
  }
  if (const auto whole = decoder.end(); !whole) return tl::unexpected(whole.error());
  return std::move(decoder.listing);
}

}  // namespace spotter::data
