#include "agent/data/catalogue.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "agent/io/files.hpp"

namespace spotter::data {
namespace {

using Json = nlohmann::json;

constexpr std::size_t longest_listing = 1U << 30;

Json header_of(const wire::Channel& channel) {
  return {{"format", 1},
          {"source", wire::to_url(channel.source)},
          {"type", static_cast<int>(channel.type)}};
}

// What consoles make of a "folder": an object without content, not one of the data.
bool is_folder(const wire::ListedObject& object) {
  return object.size == 0 && object.key.ends_with('/');
}

std::optional<Entry> entry_of(const Json& line) {
  const bool fits = line.is_array() && line.size() == 4 && line[0].is_string() &&
                    line[1].is_number_unsigned() && line[2].is_string() && line[3].is_boolean();
  if (!fits) return std::nullopt;
  return Entry{line[0].get<std::string>(), line[1].get<std::uint64_t>(), line[2].get<std::string>(),
               line[3].get<bool>()};
}

}  // namespace

std::string encode_listing(const wire::Channel& channel, const std::vector<Entry>& entries) {
  constexpr auto replace = Json::error_handler_t::replace;
  std::string text = header_of(channel).dump(-1, ' ', false, replace) + "\n";
  for (const auto& entry : entries) {
    const Json line = {entry.key, entry.size, entry.etag, entry.checksum};
    text += line.dump(-1, ' ', false, replace) + "\n";
  }
  return text;
}

Result<std::vector<Entry>> decode_listing(const wire::Channel& channel, std::string_view text) {
  std::vector<Entry> entries;
  bool first = true;
  while (!text.empty()) {
    const auto end = text.find('\n');
    if (end == text.npos) return failure("its last line is cut off");
    const Json line = Json::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(end + 1);
    if (first) {
      if (line != header_of(channel)) return failure("it is of another source");
      first = false;
      continue;
    }
    auto entry = entry_of(line);
    if (!entry) return failure("line " + std::to_string(entries.size() + 2) + " is no object");
    entries.push_back(std::move(*entry));
  }
  if (first) return failure("it is empty");
  return entries;
}

void Catalogue::fail(const std::string& what) {
  if (!failed_) failed_ = "channel " + channel_.name + ": " + what;
}

Result<void> Catalogue::thaw() {
  if (frozen_.empty()) return {};
  const auto text = io::read_file(frozen_, longest_listing);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return {};
  if (!text) return failure(frozen_.string() + ": " + text.error().message());
  auto entries = decode_listing(channel_, *text);
  if (!entries) {
    return failure("the frozen listing " + frozen_.string() + ": " + entries.error().message +
                   "; remove it to begin anew");
  }
  entries_ = std::move(*entries);
  thawed_ = complete_ = true;
  return {};
}

void Catalogue::begin(s3::Client& client) {
  if (auto thawed = thaw(); !thawed) return fail(thawed.error().message);
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
    listed().push_back(
        {object.key, object.size, object.etag, object.has_crc32c || object.has_sha256});
  }
  if (page->next.empty()) {
    all_listed();
  } else {
    ask(client, page->next);
  }
}

void Catalogue::read_manifest(s3::Client& client) {
  s3::Request request{.bucket = channel_.source.bucket, .key = channel_.source.key};
  client.start(std::move(request), [this, &client](const s3::Outcome<s3::Answer>& answer) {
    if (!answer) return fail(answer.error().text());
    const auto objects = wire::parse_manifest(answer->body);
    if (!objects) return fail(wire::to_url(channel_.source) + ": " + objects.error().message);
    look_at(client, *objects);
  });
}

// Sizes and ETags, which a manifest does not say.
void Catalogue::look_at(s3::Client& client, const std::vector<wire::S3Location>& objects) {
  open_ = objects.size();
  listed().resize(objects.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    s3::Request request{.method = "HEAD", .bucket = objects[i].bucket, .key = objects[i].key};
    request.headers = {{"x-amz-checksum-mode", "ENABLED"}};
    client.start(std::move(request),
                 [this, i, key = objects[i].key](const s3::Outcome<s3::Answer>& answer) {
                   if (!answer) return fail(answer.error().text());
                   const auto size = wire::parse_count(answer->header("content-length"));
                   const auto etag = answer->header("etag");
                   if (!size || etag.empty()) return fail(key + ": S3 says no size, or no ETag");
                   const bool sum = s3::checksum_of(*answer).kind != s3::Checksum::Kind::None;
                   listed()[i] = {key, *size, std::string(etag), sum};
                   if (--open_ == 0) all_listed();
                 });
  }
  if (objects.empty()) all_listed();
}

void Catalogue::all_listed() {
  if (failed_) return;
  if (listed().empty()) return fail("there is nothing at " + wire::to_url(channel_.source));
  if (thawed_) {
    const auto [old, now] = std::ranges::mismatch(entries_, again_);
    confirmed_ = old == entries_.end() && now == again_.end();
    if (confirmed_) return;
    const std::string key =
        old == entries_.end() || (now != again_.end() && now->key < old->key) ? now->key : old->key;
    return fail(wire::to_url({channel_.source.bucket, key}) +
                " is not what it was when the job began: the data has changed (remove " +
                frozen_.string() + " to begin anew with it)");
  }
  if (!frozen_.empty()) {
    const auto written = io::atomic_write(frozen_, encode_listing(channel_, entries_), 0644);
    if (!written) return fail(frozen_.string() + ": " + written.error().message());
  }
  complete_ = confirmed_ = true;
}

}  // namespace spotter::data
