#include "agent/data/catalogue.hpp"

#include <algorithm>
#include <cassert>

#include "agent/aws/s3/objects.hpp"
#include "agent/base/clock_text.hpp"

namespace spotter::data {
namespace {

constexpr std::uint64_t longest_manifest = 1U << 30;

// Consoles make a "folder" as an object without content, which is no data.
bool is_folder(const wire::ListedObject& object) {
  return object.size == 0 && object.key.ends_with('/');
}

}  // namespace

void Catalogue::fail(const std::string& what) {
  if (!failed_) failed_ = "channel " + channel_.name + ": " + what;
}

Result<void> Catalogue::thaw() {
  if (frozen_.empty()) return {};
  auto listing = read_listing(frozen_, channel_);
  if (!listing) return tl::unexpected(listing.error());
  if (!*listing) return {};
  first_ = std::move(**listing);
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
  client.start(std::move(request), [this, &client](const Result<s3::Answer, s3::Failure>& answer) {
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
    add({.key = object.key,
         .size = object.size,
         .etag = object.etag,
         .checksum = object.has_checksum,
         .modified = object.modified.time_since_epoch().count()});
  }
  if (const auto more = pages_.add(page->objects.size(), page->next); !more)
    return fail(wire::to_url(channel_.source) + ": " + more.error().message);
  if (failed_) return;
  if (page->next.empty()) {
    all_listed();
  } else {
    ask(client, page->next);
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
void Catalogue::read_manifest(s3::Client& client) {
  s3::Request request{
      .method = "HEAD", .bucket = channel_.source.bucket, .key = channel_.source.key};
  client.start(std::move(request), [this, &client](const Result<s3::Answer, s3::Failure>& answer) {
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
    client.start(std::move(request),
                 [this, &client](const Result<s3::Answer, s3::Failure>& answer) {
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
  // The order does not matter where entries are only compared with a frozen listing.
  if (!counted_ || thawed_ || !ask_order_) return;
  order_ = ask_order_();
  assert(order_.empty() || order_.size() == listed().entries.size());
  next_ = 0;
}

// Starts as many requests as the client has idle places (Stream::plan asks for more than it has): a
// million entries must not fill the memory with requests, or delay the readers' data.
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

// Asks for size and ETag, which a manifest lacks.
void Catalogue::look_at(s3::Client& client, std::size_t index) {
  const Entry& entry = listed().entries[index];
  s3::Request request{.method = "HEAD", .bucket = bucket_of(entry, channel_), .key = entry.key};
  request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
  client.start(std::move(request),
               [this, &client, index](const Result<s3::Answer, s3::Failure>& answer) {
                 if (!answer) return fail(answer.error().text());
                 Entry& known = listed().entries[index];
                 const auto size = wire::parse_count(answer->header("content-length"));
                 const auto etag = answer->header("etag");
                 if (!size || etag.empty())
                   return fail(url(known) + ": S3 says no size, or no ETag");
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
