#include "agent/aws/s3/objects.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "agent/aws/s3/crc.hpp"

namespace spotter::s3 {
namespace {

Failure about(const wire::S3Location& location, Failure::Kind kind, std::string message) {
  return {
      .kind = kind, .message = std::move(message), .bucket = location.bucket, .key = location.key};
}

Headers asking_for_checksum() { return {{"x-amz-checksum-mode", "ENABLED"}}; }

constexpr std::size_t most_parts = 10'000;
constexpr std::chrono::milliseconds moment{100};
// Parts that stay cost a little until a lifecycle rule removes them; a stop must not wait for it.
constexpr std::chrono::seconds longest_abort{2};

// One object on its way: begun, its parts at once, completed.
class Upload {
 public:
  using Ended = std::function<void()>;

  Upload(Client& client, const NewObject& object, Ended ended)
      : client_(client), object_(object), ended_(std::move(ended)) {
    part_ = std::max(part_bytes, (object.bytes.size() + most_parts - 1) / most_parts);
  }

  void begin() {
    if (object_.bytes.size() <= part_) return put_at_once();
    Request create = request("POST");
    create.query = {{"uploads", ""}};
    create.headers = {{std::string(writer_header), writer_},
                      {"x-amz-checksum-algorithm", "CRC32C"},
                      {"x-amz-checksum-type", "FULL_OBJECT"}};
    start(std::move(create), [this](const Result<Answer, Failure>& answer) {
      if (!answer) return fail(answer.error());
      began(*answer);
    });
  }

  // Drops the calls that are under way, and what S3 has of the upload.
  void abandon() {
    client_.drop(calls_);
    if (id_.empty() || !etag_.empty()) return;
    Request abort = request("DELETE");
    abort.query = {{"uploadId", id_}};
    bool aborted = false;
    const auto call = client_.start(std::move(abort), [&](const auto&) { aborted = true; });
    const auto until = std::chrono::steady_clock::now() + longest_abort;
    while (!aborted && std::chrono::steady_clock::now() < until) client_.turn(moment);
    client_.drop(call);
  }

  const std::optional<Failure>& failure() const { return failure_; }
  const std::string& etag() const { return etag_; }
  const std::string& writer() const { return writer_; }
  // It may have been done all the same: settle() tells.
  bool in_doubt() const { return failure_ && completing_; }

 private:
  Request request(std::string method) const {
    return {.method = std::move(method),
            .bucket = object_.location.bucket,
            .key = object_.location.key};
  }
  std::string_view part(std::size_t number) const {
    return object_.bytes.substr(number * part_, part_);
  }
  void start(Request request, Client::Done done) {
    calls_.push_back(client_.start(std::move(request), std::move(done)));
  }

  void began(const Answer& answer) {
    auto id = wire::decode_upload_id(answer.body);
    if (!id) {
      return fail(about(object_.location, Failure::Kind::Refused, id.error().message));
    }
    id_ = std::move(*id);
    parts_.resize((object_.bytes.size() + part_ - 1) / part_);
    open_ = parts_.size();
    for (std::size_t number = 0; number < parts_.size(); ++number) send(number);
  }

  void send(std::size_t number) {
    Request put = request("PUT");
    put.query = {{"partNumber", std::to_string(number + 1)}, {"uploadId", id_}};
    put.body = part(number);
    parts_[number].crc32c = wire::to_base64(bytes_of(crc32c(0, put.body)));
    put.headers = {{"x-amz-checksum-crc32c", parts_[number].crc32c}};
    start(std::move(put), [this, number](const Result<Answer, Failure>& answer) {
      if (!answer) return fail(answer.error());
      parts_[number].etag = answer->header("etag");
      // A server that knows nothing of checksums refuses them later, too.
      if (answer->header("x-amz-checksum-crc32c").empty()) parts_[number].crc32c.clear();
      if (--open_ == 0) complete();
    });
  }

  void complete() {
    completing_ = true;
    ++completions_;
    completion_ = wire::encode_completion(parts_);
    Request post = request("POST");
    post.query = {{"uploadId", id_}};
    post.body = completion_;
    start(std::move(post), [this](const Result<Answer, Failure>& answer) {
      if (answer) return completed(*answer);
      fail(answer.error());
    });
  }

  // S3 says 200 before it knows.
  void completed(const Answer& answer) {
    auto etag = wire::decode_completion(answer.body);
    if (etag) {
      etag_ = std::move(*etag);
      return ended_();
    }
    if (etag.error().code == "InternalError" && completions_ < 3) return complete();
    fail({.code = etag.error().code,
          .message = etag.error().message,
          .bucket = object_.location.bucket,
          .key = object_.location.key,
          .status = answer.status});
  }

  void put_at_once() {
    completing_ = true;
    Request put = request("PUT");
    put.body = object_.bytes;
    put.headers = {{std::string(writer_header), writer_},
                   {"x-amz-checksum-crc32c", wire::to_base64(bytes_of(crc32c(0, object_.bytes)))}};
    start(std::move(put), [this](const Result<Answer, Failure>& answer) {
      if (!answer) return fail(answer.error());
      etag_ = answer->header("etag");
      ended_();
    });
  }

  void fail(Failure failure) {
    if (failure_) return;
    failure_ = std::move(failure);
    ended_();
  }

  Client& client_;
  const NewObject& object_;
  Ended ended_;
  std::size_t part_;
  const std::string writer_ = new_writer();
  std::string id_;
  std::string completion_;  // the body, while it is sent
  std::vector<wire::UploadedPart> parts_;
  std::size_t open_ = 0;
  int completions_ = 0;
  bool completing_ = false;
  std::vector<Client::CallId> calls_;
  std::optional<Failure> failure_;
  std::string etag_;
};

}  // namespace

Result<Object, Failure> head(Client& client, const wire::S3Location& location) {
  Request request{.method = "HEAD", .bucket = location.bucket, .key = location.key};
  request.headers = asking_for_checksum();
  const auto answer = TRY(client.perform(std::move(request)));
  const auto size = wire::parse_count(answer.header("content-length"));
  const auto etag = answer.header("etag");
  if (!size || etag.empty())
    return tl::unexpected(about(location, Failure::Kind::Refused, "S3 says no size, or no ETag"));
  return Object{location.bucket, location.key, *size, std::string(etag), checksum_of(answer)};
}

Request list_request(const wire::S3Location& prefix, const std::string& delimiter,
                     const std::string& token) {
  Request request{.bucket = prefix.bucket};
  request.query = {{"list-type", "2"}, {"encoding-type", "url"}, {"prefix", prefix.key}};
  if (!delimiter.empty()) request.query.emplace_back("delimiter", delimiter);
  if (token.starts_with('\n')) {
    for (const char* name : {"marker", "start-after"})
      request.query.emplace_back(name, token.substr(1));
  } else if (!token.empty()) {
    request.query.emplace_back("continuation-token", token);
  }
  return request;
}

Result<wire::ListPage, Failure> page_of(const wire::S3Location& prefix,
                                        const Result<Answer, Failure>& answer) {
  if (!answer) {
    Failure failure = answer.error();
    failure.key = prefix.key;
    return tl::unexpected(std::move(failure));
  }
  auto page = wire::decode_list(answer->body);
  if (page) return std::move(*page);
  return tl::unexpected(about(prefix, Failure::Kind::Refused, page.error().message));
}

Result<std::string, Failure> add_page(const wire::S3Location& prefix,
                                      const Result<Answer, Failure>& answer, wire::Pages& pages,
                                      Listed& to) {
  if (answer && to.date.empty()) to.date = answer->header("date");
  wire::ListPage page = TRY(page_of(prefix, answer));
  if (const auto more = pages.add(page.objects.size() + page.prefixes.size(), page.next); !more)
    return tl::unexpected(about(prefix, Failure::Kind::Refused, more.error().message));
  std::ranges::move(page.prefixes, std::back_inserter(to.folders));
  std::ranges::move(page.objects, std::back_inserter(to.objects));
  return std::move(page.next);
}

Result<Listed, Failure> list(Client& client, const wire::S3Location& prefix,
                             const std::string& delimiter) {
  Listed all;
  wire::Pages pages(wire::object_pages);
  std::string token;
  do {
    const auto answer = client.perform(list_request(prefix, delimiter, token));
    token = TRY(add_page(prefix, answer, pages, all));
  } while (!token.empty());
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
  if (length && *length != answer->body.size())
    return tl::unexpected(about(location, Failure::Kind::Unavailable, "the answer is too short"));
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
  Request request{.method = "HEAD", .bucket = object.bucket, .key = object.key};
  request.etag = object.etag;
  Request first = request;
  first.query = {{"partNumber", "1"}};
  request.headers = asking_for_checksum();
  asked(client.start(std::move(request), [&client, object, first, asked, done](const auto& answer) {
    if (!answer) return done(tl::unexpected(answer.error()));
    Checksum checksum = checksum_of(*answer);
    if (!checksum.lacks_borders()) return done(std::move(checksum));
    asked(client.start(first, [object, checksum, done](const auto& part) {
      if (!part) return done(tl::unexpected(part.error()));
      Checksum whole = checksum;
      learn_borders(whole, *part, object.size);
      done(std::move(whole));
    }));
  }));
}

std::string new_writer() {
  std::random_device device;
  std::string name;
  for (int i = 0; i < 4; ++i) name += std::to_string(device()) + (i < 3 ? "-" : "");
  return name;
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
  if (!expected.header.empty())
    request.headers.emplace_back(expected.header, wire::to_base64(expected.value));
  else
    request.headers.emplace_back("x-amz-checksum-crc32c",
                                 wire::to_base64(bytes_of(crc32c(0, bytes))));
  if (condition.absent) request.headers.emplace_back("If-None-Match", "*");
  if (!condition.etag.empty()) request.headers.emplace_back("If-Match", condition.etag);
  return request;
}

Result<void, Failure> remove(Client& client, const wire::S3Location& location) {
  Request request{.method = "DELETE", .bucket = location.bucket, .key = location.key};
  const auto answer = client.perform(std::move(request));
  if (answer || answer.error().kind == Failure::Kind::NoSuchKey) return {};
  return tl::unexpected(answer.error());
}

Result<std::vector<std::string>, Failure> upload(Client& client, std::span<const NewObject> objects,
                                                 const std::function<bool()>& stop) {
  std::vector<std::unique_ptr<Upload>> uploads;
  std::size_t ended = 0;
  for (const auto& object : objects) {
    uploads.push_back(std::make_unique<Upload>(client, object, [&] { ++ended; }));
    uploads.back()->begin();
  }
  const auto failed = [&] {
    return std::ranges::any_of(
        uploads, [](const auto& each) { return each->failure() && !each->in_doubt(); });
  };
  while (ended < uploads.size() && !failed()) {
    if (stop && stop()) {
      for (const auto& each : uploads) each->abandon();
      return tl::unexpected(Failure{.message = "given up"});
    }
    client.turn(moment);
  }
  std::vector<std::string> etags;
  std::optional<Failure> failure;
  for (std::size_t i = 0; i < uploads.size(); ++i) {
    const Upload& one = *uploads[i];
    std::string etag = one.etag();
    if (one.failure()) {
      auto settled = one.in_doubt()
                         ? settle(client, objects[i].location, one.writer(), *one.failure())
                         : tl::unexpected(*one.failure());
      if (!settled && !failure) failure = settled.error();
      if (settled) etag = std::move(*settled);
    }
    etags.push_back(std::move(etag));
  }
  if (!failure) return etags;
  for (const auto& each : uploads) each->abandon();
  return tl::unexpected(std::move(*failure));
}

}  // namespace spotter::s3
