#include "agent/data/catalogue.hpp"

#include <algorithm>
#include <cassert>
#include <nlohmann/json.hpp>

#include "agent/io/files.hpp"
#include "agent/s3/objects.hpp"
#include "agent/wire/clock_text.hpp"

namespace spotter::data {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longest_listing = 1U << 30;

constexpr std::uint64_t longest_manifest = 1U << 30;

Json header_of(const wire::Channel& channel) {
  Json header = {{"format", 1},
                 {"source", wire::to_url(channel.source)},
                 {"type", static_cast<int>(channel.type)}};
  if (!channel.attributes.empty()) header["attributes"] = channel.attributes;
  if (channel.mode != wire::InputMode::Pipe) return header;
  // A position in the stream means the same bytes only while these are the same.
  if (channel.shuffle_seed) header["seed"] = *channel.shuffle_seed;
  if (channel.gzip) header["gzip"] = true;
  if (channel.recordio) header["recordio"] = true;
  return header;
}

// What consoles make of a "folder": an object without content, not one of the data.
bool is_folder(const wire::ListedObject& object) {
  return object.size == 0 && object.key.ends_with('/');
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

// The listing's prefix, from a first line that fits the channel.
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

}  // namespace

std::string encode_listing(const wire::Channel& channel, const Listing& listing) {
  constexpr auto replace = Json::error_handler_t::replace;
  Json header = header_of(channel);
  if (listing.prefix != channel.source.key) header["prefix"] = listing.prefix;
  std::string text = header.dump(-1, ' ', false, replace) + "\n";
  for (const auto& entry : listing.entries) {
    text += line_of(entry).dump(-1, ' ', false, replace) + "\n";
  }
  return text;
}

Result<Listing> decode_listing(const wire::Channel& channel, std::string_view text) {
  Listing listing;
  bool first = true;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == text.npos) return failure("its last line is cut off");
    const Json line = Json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(end + 1);
    if (first) {
      auto prefix = prefix_of(channel, line);
      if (!prefix) return failure("it is of another source");
      listing.prefix = std::move(*prefix);
      first = false;
      continue;
    }
    auto entry = entry_of(line);
    if (!entry) {
      return failure("line " + std::to_string(listing.entries.size() + 2) + " is no object");
    }
    listing.entries.push_back(std::move(*entry));
  }
  if (first) return failure("it is empty");
  return listing;
}

void Catalogue::fail(const std::string& what) {
  if (!failed_) failed_ = "channel " + channel_.name + ": " + what;
}

Result<void> Catalogue::thaw() {
  if (frozen_.empty()) return {};
  const auto text = io::read_file(frozen_, longest_listing);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return {};
  if (!text) return failure(frozen_.string() + ": " + text.error().message());
  auto listing = decode_listing(channel_, *text);
  if (!listing) {
    return failure("the frozen listing " + frozen_.string() + ": " + listing.error().message +
                   "; remove it to begin anew");
  }
  first_ = std::move(*listing);
  thawed_ = complete_ = true;
  return {};
}

void Catalogue::begin(s3::Client& client, Order order) {
  ask_order_ = std::move(order);
  if (auto thawed = thaw(); !thawed) return fail(thawed.error().message);
  listed().prefix = channel_.source.key;
  if (channel_.type == wire::S3DataType::S3Prefix) {
    ask(client, "");
  } else {
    read_manifest(client);
  }
}

void Catalogue::ask(s3::Client& client, const std::string& token) {
  s3::Request request{.bucket = channel_.source.bucket};
  request.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", channel_.source.key}};
  if (!token.empty()) request.query.emplace_back("continuation-token", token);
  client.start(std::move(request), [this, &client](const s3::Outcome<s3::Answer>& answer) {
    if (answer) return take(client, *answer);
    s3::Failure failure = answer.error();
    failure.key = channel_.source.key;
    fail(failure.text());
  });
}

void Catalogue::take(s3::Client& client, const s3::Answer& answer) {
  const auto page = wire::decode_list(answer.body);
  if (!page) return fail(page.error().message);
  for (const auto& object : page->objects) {
    if (is_folder(object)) continue;
    if (object.archived) {
      fail(wire::to_url({channel_.source.bucket, object.key}) +
           " is archived: restore it, or leave it out");
    }
    listed().entries.push_back({.key = object.key,
                                .size = object.size,
                                .etag = object.etag,
                                .checksum = object.has_checksum,
                                .modified = object.modified.time_since_epoch().count()});
  }
  if (page->next.empty()) {
    all_listed();
  } else {
    ask(client, page->next);
  }
}

std::string Catalogue::url(const Entry& entry) const {
  if (entry.value) return wire::to_url(channel_.source);
  return wire::to_url({bucket_of(entry, channel_), entry.key});
}

// It may be longer than one answer.
void Catalogue::read_manifest(s3::Client& client) {
  s3::Request request{
      .method = "HEAD", .bucket = channel_.source.bucket, .key = channel_.source.key};
  client.start(std::move(request), [this, &client](const s3::Outcome<s3::Answer>& answer) {
    if (!answer) return fail(answer.error().text());
    const auto size = wire::parse_count(answer->header("content-length"));
    if (!size || *size > longest_manifest) {
      return fail(wire::to_url(channel_.source) + ": a manifest has at most 1 GiB");
    }
    fetch_manifest(client, *size, std::string(answer->header("etag")));
  });
}

void Catalogue::fetch_manifest(s3::Client& client, std::uint64_t size, const std::string& etag) {
  manifest_.assign(size, '\0');
  open_ = (size + s3::piece_bytes - 1) / s3::piece_bytes;
  if (open_ == 0) return take_manifest(client);
  for (std::size_t offset = 0; offset < size; offset += s3::piece_bytes) {
    s3::Request request{.bucket = channel_.source.bucket, .key = channel_.source.key};
    request.into = std::span(manifest_).subspan(offset, std::min(s3::piece_bytes, size - offset));
    request.offset = offset;
    request.etag = etag;
    client.start(std::move(request), [this, &client](const s3::Outcome<s3::Answer>& answer) {
      if (!answer) return fail(answer.error().text());
      if (--open_ == 0) take_manifest(client);
    });
  }
}

void Catalogue::take_manifest(s3::Client& client) {
  const bool augmented = channel_.type == wire::S3DataType::AugmentedManifestFile;
  const bool good = augmented ? parse_augmented() : parse_plain();
  manifest_ = {};
  if (!good) return;
  looked_at_.assign(listed().entries.size(), false);
  counted_ = true;
  reorder();
  look_further(client);
}

void Catalogue::reorder() {
  // Of what is only compared with a frozen listing, nobody needs anything first.
  if (!counted_ || thawed_ || !ask_order_) return;
  order_ = ask_order_();
  assert(order_.empty() || order_.size() == listed().entries.size());
  next_ = 0;
}

// As many at once as there are places that nobody else wants (Stream::plan wants some more than
// there are): a million of them take neither a million requests' memory nor the readers' time.
void Catalogue::look_further(s3::Client& client) {
  const auto& entries = listed().entries;
  const auto is_room = [&] { return open_ == 0 || client.under_way() < client.width(); };
  for (; !failed_ && next_ < entries.size() && is_room(); ++next_) {
    const std::size_t index = order_.empty() ? next_ : order_[next_];
    if (entries[index].value || looked_at_[index]) continue;
    looked_at_[index] = true;
    ++open_;
    look_at(client, index);
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
    const auto end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
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

// Size and ETag, which a manifest does not say.
void Catalogue::look_at(s3::Client& client, std::size_t index) {
  const Entry& entry = listed().entries[index];
  s3::Request request{.method = "HEAD", .bucket = bucket_of(entry, channel_), .key = entry.key};
  request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
  client.start(std::move(request), [this, &client, index](const s3::Outcome<s3::Answer>& answer) {
    if (!answer) return fail(answer.error().text());
    Entry& known = listed().entries[index];
    const auto size = wire::parse_count(answer->header("content-length"));
    const auto etag = answer->header("etag");
    if (!size || etag.empty()) return fail(url(known) + ": S3 says no size, or no ETag");
    known.size = *size;
    known.etag = etag;
    if (const auto modified = wire::parse_http_date(answer->header("last-modified")))
      known.modified = modified->time_since_epoch().count();
    known.checksum = s3::checksum_of(*answer).kind != s3::Checksum::Kind::None;
    --open_;
    look_further(client);
  });
}

void Catalogue::all_listed() {
  if (failed_) return;
  if (listed().entries.empty()) return fail("there is nothing at " + wire::to_url(channel_.source));
  if (thawed_) {
    const auto& before = first_.entries;
    const auto& after = again_.entries;
    const auto [old, now] = std::ranges::mismatch(before, after);
    confirmed_ = old == before.end() && now == after.end();
    if (confirmed_) return;
    const bool newer = old == before.end() || (now != after.end() && now->key < old->key);
    return fail(url(newer ? *now : *old) +
                " is not what it was when the job began: the data has changed (remove " +
                frozen_.string() + " to begin anew with it)");
  }
  if (!frozen_.empty()) {
    const auto written = io::atomic_write(frozen_, encode_listing(channel_, first_), 0644);
    if (!written) return fail(frozen_.string() + ": " + written.error().message());
  }
  complete_ = confirmed_ = true;
}

}  // namespace spotter::data
