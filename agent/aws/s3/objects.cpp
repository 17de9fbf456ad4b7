#include "agent/aws/s3/objects.hpp"

#include <algorithm>
#include <optional>
#include <random>

#include "agent/aws/formats/pages.hpp"
#include "agent/aws/s3/crc32c.hpp"

namespace spotter::s3 {
namespace {

Failure about(const wire::S3Location& location, Failure::Kind kind, std::string message) {
  return {
      .kind = kind, .message = std::move(message), .bucket = location.bucket, .key = location.key};
}

Headers asking_for_checksum() { return {{"x-amz-checksum-mode", "ENABLED"}}; }

Request request_of(const Object& object, std::span<char> into) {
  Request request;
  request.bucket = object.bucket;
  request.key = object.key;
  request.etag = object.etag;
  request.into = into;
  return request;
}

}  // namespace

Result<Object, Failure> head(Client& client, const wire::S3Location& location) {
  Request request{.method = "HEAD", .bucket = location.bucket, .key = location.key};
  request.headers = asking_for_checksum();
  const auto answer = client.perform(std::move(request));
  if (!answer) return tl::unexpected(answer.error());
  const auto size = wire::parse_count(answer->header("content-length"));
  const auto etag = answer->header("etag");
  if (!size || etag.empty()) {
    return tl::unexpected(about(location, Failure::Kind::Refused, "S3 says no size, or no ETag"));
  }
  return Object{location.bucket, location.key, *size, std::string(etag), checksum_of(*answer)};
}

Request list_request(const wire::S3Location& prefix, const std::string& delimiter,
                     const std::string& token) {
  Request request{.bucket = prefix.bucket};
  request.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix.key}};
  if (!delimiter.empty()) request.query.emplace_back("delimiter", delimiter);
  if (!token.empty()) request.query.emplace_back("continuation-token", token);
  return request;
}

Result<std::vector<wire::ListedObject>, Failure> list(Client& client,
                                                      const wire::S3Location& prefix,
                                                      const Listing& options) {
  const auto ask = [&](const std::string& token) -> Result<wire::ListPage, Failure> {
    const auto answer = client.perform(list_request(prefix, options.delimiter, token));
    if (!answer) {
      Failure failure = answer.error();
      failure.key = prefix.key;
      return tl::unexpected(std::move(failure));
    }
    if (options.date != nullptr && options.date->empty()) *options.date = answer->header("date");
    auto page = wire::decode_list(answer->body);
    if (page) return std::move(*page);
    return tl::unexpected(about(prefix, Failure::Kind::Refused, page.error().message));
  };
  std::vector<wire::ListedObject> all;
  const auto take = [&](wire::ListPage page) {
    const std::size_t items = page.objects.size() + page.prefixes.size();
    wire::PageSeen seen{.items = items, .next_token = std::move(page.next)};
    if (options.folders != nullptr)
      std::ranges::move(page.prefixes, std::back_inserter(*options.folders));
    if (options.page) {
      seen.enough = !options.page(std::move(page.objects));
    } else {
      std::ranges::move(page.objects, std::back_inserter(all));
    }
    return seen;
  };
  const auto endless = [&](const Error& error) {
    return about(prefix, Failure::Kind::Refused, error.message);
  };
  const auto done = wire::each_page(wire::object_pages, ask, take, endless);
  if (!done) return tl::unexpected(done.error());
  return all;
}

Request read_request(const wire::S3Location& location) {
  Request request{.bucket = location.bucket, .key = location.key};
  request.headers = asking_for_checksum();
  return request;
}

Result<Content, Failure> read(Client& client, const wire::S3Location& location) {
  return content_of(location, client.perform(read_request(location)));
}

Result<Content, Failure> content_of(const wire::S3Location& location,
                                    Result<Answer, Failure> answer) {
  if (!answer) return tl::unexpected(answer.error());
  const auto length = wire::parse_count(answer->header("content-length"));
  if (length && *length != answer->body.size()) {
    return tl::unexpected(about(location, Failure::Kind::Unavailable, "the answer is too short"));
  }
  Content content{{location.bucket, location.key, answer->body.size(),
                   std::string(answer->header("etag")), checksum_of(*answer)},
                  std::move(answer->body)};
  Digest digest(content.object.checksum);
  digest.add(content.bytes);
  if (!digest.matches()) return tl::unexpected(about(location, Failure::Kind::Corrupt, ""));
  return content;
}

void ask_for_checksum(Client& client, const Object& object,
                      const std::function<void(Client::CallId)>& asked,
                      const std::function<void(Result<Checksum, Failure>)>& done) {
  Request request = request_of(object, {});
  request.method = "HEAD";
  request.headers = asking_for_checksum();
  asked(client.start(request, [&client, object, asked, done](const auto& answer) {
    if (!answer) return done(tl::unexpected(answer.error()));
    Checksum checksum = checksum_of(*answer);
    if (!checksum.lacks_borders()) return done(std::move(checksum));
    Request first = request_of(object, {});
    first.method = "HEAD";
    first.query = {{"partNumber", "1"}};
    asked(client.start(std::move(first), [object, checksum, done](const auto& part) {
      if (!part) return done(tl::unexpected(part.error()));
      Checksum whole = checksum;
      learn_borders(whole, *part, object.size);
      done(std::move(whole));
    }));
  }));
}

Result<void, Failure> read_into(Client& client, const Object& object, std::span<char> into) {
  if (into.empty()) return {};
  const wire::S3Location location{object.bucket, object.key};
  Checksum checksum = object.checksum;
  std::optional<Failure> failed;
  std::size_t open = 0;
  std::vector<Client::CallId> calls;
  const auto take = [&](const auto& answer) {
    --open;
    if (!answer && !failed) failed = answer.error();
    return answer.has_value();
  };
  const bool at_once = into.size() <= piece_bytes;
  const bool none = checksum.kind == Checksum::Kind::None;
  const auto ask = [&] {
    ++open;
    ask_for_checksum(
        client, object, [&](Client::CallId call) { calls.push_back(call); },
        [&](Result<Checksum, Failure> answer) {
          if (take(answer)) checksum = std::move(*answer);
        });
  };
  if (checksum.lacks_borders() || (none && !at_once)) ask();
  for (std::size_t first = 0; first < into.size(); first += piece_bytes) {
    const auto bytes = std::min(piece_bytes, into.size() - first);
    Request request = request_of(object, into.subspan(first, bytes));
    request.offset = first;
    request.whole = at_once;
    const bool tells = none && at_once;
    if (tells) request.headers = asking_for_checksum();
    ++open;
    calls.push_back(
        client.start(std::move(request), [&, tells](const Result<Answer, Failure>& answer) {
          if (!take(answer) || !tells) return;
          checksum = checksum_of(*answer);
          if (checksum.lacks_borders()) ask();
        }));
  }
  while (open > 0 && !failed) client.turn(std::chrono::seconds(1));
  for (const auto call : calls) client.drop(call);
  if (failed) return tl::unexpected(std::move(*failed));
  Digest digest(checksum);
  digest.add({into.data(), into.size()});
  if (!digest.matches()) return tl::unexpected(about(location, Failure::Kind::Corrupt, ""));
  return {};
}

std::string new_writer() {
  std::random_device device;
  std::string name;
  for (int i = 0; i < 4; ++i) name += std::to_string(device()) + (i < 3 ? "-" : "");
  return name;
}

void add_condition(Headers& headers, const Condition& condition) {
  if (condition.absent) headers.emplace_back("If-None-Match", "*");
  if (!condition.etag.empty()) headers.emplace_back("If-Match", condition.etag);
}

Result<std::string, Failure> settle(Client& client, const wire::S3Location& location,
                                    const std::string& writer, const Failure& failure) {
  Request request{.method = "HEAD", .bucket = location.bucket, .key = location.key};
  const auto answer = client.perform(std::move(request));
  if (answer && answer->header(writer_header) == writer) return std::string(answer->header("etag"));
  return tl::unexpected(failure);
}

Result<std::string, Failure> put(Client& client, const wire::S3Location& location,
                                 std::string_view bytes, const Condition& condition,
                                 const Checksum& expected) {
  const std::string writer = new_writer();
  const auto answer = client.perform(put_request(location, bytes, writer, condition, expected));
  if (answer) return std::string(answer->header("etag"));
  if (answer.error().kind != Failure::Kind::Exists) return tl::unexpected(answer.error());
  return settle(client, location, writer, answer.error());
}

Request put_request(const wire::S3Location& location, std::string_view bytes,
                    const std::string& writer, const Condition& condition,
                    const Checksum& expected) {
  Request request{.method = "PUT", .bucket = location.bucket, .key = location.key, .body = bytes};
  request.headers.emplace_back(writer_header, writer);
  if (expected.kind == Checksum::Kind::Sha256)
    request.headers.emplace_back("x-amz-checksum-sha256", wire::to_base64(expected.value));
  else
    request.headers.emplace_back("x-amz-checksum-crc32c",
                                 wire::to_base64(bytes_of(crc32c(0, bytes))));
  add_condition(request.headers, condition);
  return request;
}

Result<void, Failure> remove(Client& client, const wire::S3Location& location) {
  Request request{.method = "DELETE", .bucket = location.bucket, .key = location.key};
  const auto answer = client.perform(std::move(request));
  if (answer || answer.error().kind == Failure::Kind::NoSuchKey) return {};
  return tl::unexpected(answer.error());
}

}  // namespace spotter::s3
