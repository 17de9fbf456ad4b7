#include "agent/data/catalogue.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "agent/aws/s3/objects.hpp"
#include "agent/base/clock_text.hpp"
#include "agent/base/json.hpp"
#include "agent/base/text.hpp"
#include "agent/base/version.hpp"
#include "agent/io/files.hpp"

namespace spotter::data {
namespace {

// SplitMix64 (Steele, Lea, Flood, 2014): the same on all platforms, unlike std::shuffle's.
std::uint64_t next(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15U;
  std::uint64_t value = state;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31);
}

// Uniform in [0, bound).
std::uint64_t below(std::uint64_t bound, std::uint64_t& state) {
  const std::uint64_t fair = ~std::uint64_t{0} - (~std::uint64_t{0} % bound + 1) % bound;
  std::uint64_t value = next(state);
  while (value > fair) value = next(state);
  return value % bound;
}

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

std::string first_line(const wire::Channel& channel, const Listing& listing) {
  Json header = header_of(channel);
  if (listing.prefix != channel.source.key) header["prefix"] = listing.prefix;
  return wire::json_text(header) + "\n";
}

constexpr std::uint64_t longest_manifest = 1U << 30;

// Consoles make a "folder" as an object without content, which is no data.
bool is_folder(const wire::ListedObject& object) {
  return object.size == 0 && object.key.ends_with('/');
}

}  // namespace

std::vector<std::uint32_t> shuffled(std::size_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::uint64_t mixed = seed;
  std::uint64_t state = next(mixed) + epoch;
  for (std::size_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[below(left, state)]);
  }
  return order;
}

std::size_t share(std::size_t objects, const Shard& shard) {
  return objects > shard.index ? (objects - shard.index - 1) / shard.count + 1 : 0;
}

Result<void> write_listing(const fs::path& path, const wire::Channel& channel,
                           const Listing& listing) {
  constexpr std::size_t lines_at_once = 1000;
  bool first = true;
  auto at = listing.entries.begin();
  return behind(path.string(), io::atomic_write_pieces(path, 0644, [&](std::string& piece) {
                  if (std::exchange(first, false)) piece = first_line(channel, listing);
                  for (std::size_t i = 0; i < lines_at_once && at != listing.entries.end();
                       ++i, ++at)
                    piece += wire::json_text(line_of(*at)) + "\n";
                }));
}

Result<std::optional<Listing>> read_listing(const fs::path& path, const wire::Channel& channel) {
  std::optional<Listing> listing;
  bool is_newer = false;
  const auto add = [&](std::string_view text) -> Result<void> {
    const Json line = wire::parsed_json(text);
    if (listing) {
      auto entry = entry_of(line);
      const auto number = listing->entries.size() + 2;
      if (!entry) return failure("line " + std::to_string(number) + " is no object");
      listing->entries.push_back(std::move(*entry));
      return {};
    }
    auto later = wire::newer(line, "format", known_format, "it");
    is_newer = later.has_value();
    if (is_newer) return failure(later->message);
    auto prefix = prefix_of(channel, line);
    if (!prefix) return failure("it is of another source");
    listing = Listing{.prefix = std::move(*prefix), .entries = {}};
    return {};
  };
  Result<void> good;
  const auto read = io::read_lines(path, longest_line, [&](std::string_view line, bool whole) {
    good = whole ? add(line) : failure("its last line is cut off");
    return good.has_value();
  });
  if (!read && read.error() == std::errc::no_such_file_or_directory) return std::nullopt;
  if (!read) return failure(path.string() + ": " + read.error().message());
  if (good && !listing) good = failure("it is empty");
  if (good) return listing;
  const std::string why = "the frozen listing " + path.string() + ": " + good.error().message;
  return failure(is_newer ? why : why + "; remove it to start over");
}

void Catalogue::fail(const std::string& what) {
  if (!failed_) failed_ = "channel " + channel_.name + ": " + what;
}

Result<void> Catalogue::thaw() {
  if (frozen_.empty()) return {};
  auto listing = TRY(read_listing(frozen_, channel_));
  if (!listing) return {};
  first_ = std::move(*listing);
  thawed_ = complete_ = true;
  return {};
}

void Catalogue::begin(s3::Client& client, Order order) {
  client_ = &client;
  ask_order_ = std::move(order);
  if (auto thawed = thaw(); !thawed) return fail(thawed.error().message);
  listed().prefix = channel_.source.key;
  if (channel_.type == wire::S3DataType::S3Prefix) {
    ask("");
  } else {
    read_manifest();
  }
}

void Catalogue::ask(const std::string& token) {
  s3::Request request = s3::list_request(channel_.source, "", token);
  request.headers = {{"x-amz-optional-object-attributes", "RestoreStatus"}};
  client_->start(std::move(request), [this](const Result<s3::Answer, s3::Failure>& answer) {
    if (answer) return take(*answer);
    s3::Failure failure = answer.error();
    failure.key = channel_.source.key;
    fail(failure.text());
  });
}

void Catalogue::take(const s3::Answer& answer) {
  answered_ = true;
  const auto page = wire::decode_list(answer.body);
  if (!page) return fail(page.error().message);
  std::string archived;
  for (const auto& object : page->objects) {
    if (is_folder(object)) continue;
    if (object.archived && archived.empty()) archived = object.key;
    add({.key = object.key,
         .size = object.size,
         .etag = object.etag,
         .checksum = object.has_checksum,
         .modified = object.modified.time_since_epoch().count()});
  }
  if (const auto more = pages_.add(page->objects.size(), page->next); !more)
    return fail(wire::to_url(channel_.source) + ": " + more.error().message);
  if (failed_) return;
  if (!archived.empty() && !reads_archived_) return read_archived(archived, page->next);
  ask_next(page->next);
}

void Catalogue::abandon() {
  if (client_ != nullptr) client_->drop(into_ours_);
}

void Catalogue::start(s3::Request request, s3::Client::Done done) {
  into_ours_.push_back(client_->start(std::move(request), std::move(done)));
}

// Only S3 itself says in its listing what has been restored, and elsewhere GLACIER may be the name
// of a disk: reading the first one's first byte tells.
void Catalogue::read_archived(const std::string& key, std::string next) {
  s3::Request request{.bucket = channel_.source.bucket, .key = key};
  request.into = std::span(&byte_, 1);
  start(std::move(request),
        [this, key, next = std::move(next)](const Result<s3::Answer, s3::Failure>& answer) {
          reads_archived_ = answer || answer.error().code == "InvalidRange";
          if (reads_archived_) return ask_next(next);
          if (answer.error().code != "InvalidObjectState") return fail(answer.error().text());
          fail(wire::to_url({channel_.source.bucket, key}) +
               " is archived: restore it (`aws s3api restore-object`), or go on without it by a "
               "manifest that names the others");
        });
}

void Catalogue::ask_next(const std::string& next) {
  if (next.empty()) {
    all_listed();
  } else {
    ask(next);
  }
}

// A second listing is compared as it arrives: ten million objects are in memory only once.
void Catalogue::add(Entry entry) {
  if (thawed_) return compare(&entry);
  first_.entries.push_back(std::move(entry));
}

// Compares with the next frozen entry; nullptr: S3 lists no more.
void Catalogue::compare(const Entry* now) {
  if (failed_) return;
  const auto& before = first_.entries;
  const Entry* old = compared_ < before.size() ? &before[compared_] : nullptr;
  if (old == nullptr && now == nullptr) return;
  if (old != nullptr && now != nullptr && *old == *now) {
    ++compared_;
    return;
  }
  const bool newer = old == nullptr || (now != nullptr && now->key < old->key);
  fail(url(newer ? *now : *old) +
       " is not what it was when the job began: the data has changed (remove " + frozen_.string() +
       " to start over with it)");
}

std::string Catalogue::url(const Entry& entry) const {
  if (entry.value) return wire::to_url(channel_.source);
  return wire::to_url({bucket_of(entry, channel_), entry.key});
}

// The manifest may be longer than one answer.
void Catalogue::read_manifest() {
  s3::Request request{
      .method = "HEAD", .bucket = channel_.source.bucket, .key = channel_.source.key};
  client_->start(std::move(request), [this](const Result<s3::Answer, s3::Failure>& answer) {
    if (!answer) return fail(answer.error().text());
    const auto size = wire::parse_count(answer->header("content-length"));
    if (!size || *size > longest_manifest)
      return fail(wire::to_url(channel_.source) + ": a manifest has at most 1 GiB");
    fetch_manifest(*size, std::string(answer->header("etag")));
  });
}

void Catalogue::fetch_manifest(std::uint64_t size, const std::string& etag) {
  manifest_.assign(size, '\0');
  open_ = (size + s3::piece_bytes - 1) / s3::piece_bytes;
  if (open_ == 0) return take_manifest();
  for (std::size_t offset = 0; offset < size; offset += s3::piece_bytes) {
    s3::Request request{.bucket = channel_.source.bucket, .key = channel_.source.key};
    request.into = std::span(manifest_).subspan(offset, std::min(s3::piece_bytes, size - offset));
    request.offset = offset;
    request.etag = etag;
    start(std::move(request), [this](const Result<s3::Answer, s3::Failure>& answer) {
      if (!answer) return fail(answer.error().text());
      if (--open_ == 0) take_manifest();
    });
  }
}

void Catalogue::take_manifest() {
  const bool augmented = channel_.type == wire::S3DataType::AugmentedManifestFile;
  const bool good = augmented ? parse_augmented() : parse_plain();
  manifest_ = {};
  if (!good) return;
  looked_at_.assign(listed().entries.size(), false);
  counted_ = answered_ = true;
  reorder();
  look_further();
}

void Catalogue::reorder() {
  // The order does not matter where entries are only compared with a frozen listing.
  if (!counted_ || thawed_ || !ask_order_) return;
  order_ = ask_order_();
  assert(order_.empty() || order_.size() == listed().entries.size());
  next_ = 0;
}

// Starts as many requests as the client has idle places (Stream::plan asks for more than it has): a
// million entries must not fill the memory with requests, or delay the readers' data.
void Catalogue::look_further() {
  const auto& entries = listed().entries;
  const auto is_room = [&] { return open_ == 0 || client_->under_way() < client_->width(); };
  for (; !failed_ && next_ < entries.size() && is_room(); ++next_) {
    const std::size_t index = order_.empty() ? next_ : order_[next_];
    if (entries[index].value || looked_at_[index]) continue;
    looked_at_[index] = true;
    ++open_;
    look_at(index);
  }
  if (open_ == 0) all_listed();
}

bool Catalogue::parse_plain() {
  auto manifest = wire::parse_manifest(manifest_);
  if (!manifest) {
    fail(wire::to_url(channel_.source) + ": " + manifest.error().message);
    return false;
  }
  const std::string& bucket = manifest->prefix.bucket;
  listed().prefix = manifest->prefix.key;
  for (auto& key : manifest->keys) {
    listed().entries.push_back({.key = std::move(key)});
    if (bucket != channel_.source.bucket) listed().entries.back().bucket = bucket;
  }
  return true;
}

bool Catalogue::parse_augmented() {
  std::string_view rest = manifest_;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = take_until(rest, '\n');
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    auto values = wire::parse_augmented_line(line, channel_.attributes);
    if (!values) {
      fail(wire::to_url(channel_.source) + ": line " + std::to_string(number) + ": " +
           values.error().message);
      return false;
    }
    for (auto& value : *values) {
      Entry& entry = listed().entries.emplace_back();
      if (value.object) {
        entry.key = std::move(value.object->key);
        if (value.object->bucket != channel_.source.bucket) entry.bucket = value.object->bucket;
      } else {
        entry.size = value.value.size();
        entry.value = std::move(value.value);
      }
    }
  }
  return true;
}

// Asks for size and ETag, which a manifest lacks.
void Catalogue::look_at(std::size_t index) {
  const Entry& entry = listed().entries[index];
  s3::Request request{.method = "HEAD", .bucket = bucket_of(entry, channel_), .key = entry.key};
  request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
  client_->start(std::move(request), [this, index](const Result<s3::Answer, s3::Failure>& answer) {
    if (!answer) return fail(answer.error().text());
    Entry& known = listed().entries[index];
    const auto size = wire::parse_count(answer->header("content-length"));
    const auto etag = answer->header("etag");
    if (!size || etag.empty()) return fail(url(known) + ": S3 says no size, or no ETag");
    known.size = *size;
    known.etag = etag;
    if (const auto modified = wire::parse_http_date(answer->header("last-modified")))
      known.modified = modified->time_since_epoch().count();
    known.checksum = !s3::checksum_of(*answer).header.empty();
    --open_;
    look_further();
  });
}

void Catalogue::all_listed() {
  if (failed_) return;
  const bool nothing = thawed_ ? compared_ == 0 && again_.entries.empty() : first_.entries.empty();
  if (nothing) return fail("there is nothing at " + wire::to_url(channel_.source));
  if (thawed_) {
    for (const auto& entry : again_.entries) compare(&entry);
    compare(nullptr);
    confirmed_ = !failed_;
    return;
  }
  if (!frozen_.empty()) {
    const auto frozen = write_listing(frozen_, channel_, first_);
    if (!frozen) return fail(frozen.error().message);
  }
  complete_ = confirmed_ = true;
}

}  // namespace spotter::data
