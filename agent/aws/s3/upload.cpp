#include "agent/aws/s3/upload.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "agent/aws/s3/crc32c.hpp"

namespace spotter::s3 {
namespace {

constexpr std::size_t most_parts = 10'000;
constexpr std::chrono::milliseconds moment{100};
constexpr int most_beginnings = 4;  // of one object: a 409 has its end in another's write
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

  void begin();
  void abandon();  // what is under way, and what S3 has of it

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
  void start(Request request, Client::Done done);
  void began(const Answer& answer);
  void send(std::size_t number);
  void complete();
  void completed(const Answer& answer);
  void begin_again(Failure conflict);
  void put_at_once();
  void fail(Failure failure);

  Client& client_;
  const NewObject& object_;
  Ended ended_;
  std::size_t part_;
  const std::string writer_ = new_writer();
  std::string id_;
  std::string completion_;  // the body, while it is sent
  std::vector<wire::UploadedPart> parts_;
  std::size_t open_ = 0;
  int beginnings_ = 1;
  int completions_ = 0;
  bool completing_ = false;
  std::vector<Client::CallId> calls_;
  std::optional<Failure> failure_;
  std::string etag_;
};

void Upload::start(Request request, Client::Done done) {
  calls_.push_back(client_.start(std::move(request), std::move(done)));
}

void Upload::fail(Failure failure) {
  if (failure_) return;
  failure_ = std::move(failure);
  ended_();
}

void Upload::begin() {
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

void Upload::put_at_once() {
  completing_ = true;
  Request put = request("PUT");
  put.body = object_.bytes;
  put.headers = {{std::string(writer_header), writer_},
                 {"x-amz-checksum-crc32c", wire::to_base64(bytes_of(crc32c(0, object_.bytes)))}};
  add_condition(put.headers, object_.condition);
  start(std::move(put), [this](const Result<Answer, Failure>& answer) {
    if (!answer) return fail(answer.error());
    etag_ = answer->header("etag");
    ended_();
  });
}

void Upload::began(const Answer& answer) {
  auto id = wire::decode_upload_id(answer.body);
  if (!id) {
    return fail({.message = id.error().message,
                 .bucket = object_.location.bucket,
                 .key = object_.location.key});
  }
  id_ = std::move(*id);
  parts_.resize((object_.bytes.size() + part_ - 1) / part_);
  open_ = parts_.size();
  for (std::size_t number = 0; number < parts_.size(); ++number) send(number);
}

void Upload::send(std::size_t number) {
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

void Upload::complete() {
  completing_ = true;
  ++completions_;
  completion_ = wire::encode_completion(parts_);
  Request post = request("POST");
  post.query = {{"uploadId", id_}};
  post.body = completion_;
  add_condition(post.headers, object_.condition);
  start(std::move(post), [this](const Result<Answer, Failure>& answer) {
    if (answer) return completed(*answer);
    if (answer.error().status == 409) return begin_again(answer.error());
    fail(answer.error());
  });
}

// Another wrote or deleted the object meanwhile, and S3 completes this upload no more.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
void Upload::begin_again(Failure conflict) {
  if (beginnings_ == most_beginnings) return fail(std::move(conflict));
  ++beginnings_;
  Request abort = request("DELETE");
  abort.query = {{"uploadId", std::exchange(id_, {})}};
  start(std::move(abort), [](const auto&) {});  // S3 may have removed it already
  completing_ = false;
  completions_ = 0;
  parts_.clear();
  begin();
}

// S3 says 200 before it knows.
void Upload::completed(const Answer& answer) {
  auto etag = wire::decode_completion(answer.body);
  if (etag) {
    etag_ = std::move(*etag);
    return ended_();
  }
  if (etag.error().code == "InternalError" && completions_ < 3) return complete();
  const bool late = etag.error().code == "PreconditionFailed";
  Failure failure{.kind = late ? Failure::Kind::Exists : Failure::Kind::Refused,
                  .code = etag.error().code,
                  .message = etag.error().message,
                  .bucket = object_.location.bucket,
                  .key = object_.location.key,
                  .status = answer.status};
  if (failure.code == "ConditionalRequestConflict") return begin_again(std::move(failure));
  fail(std::move(failure));
}

void Upload::abandon() {
  for (const auto call : calls_) client_.drop(call);
  if (id_.empty() || !etag_.empty()) return;
  Request abort = request("DELETE");
  abort.query = {{"uploadId", id_}};
  bool aborted = false;
  const auto call = client_.start(std::move(abort), [&](const auto&) { aborted = true; });
  const auto until = std::chrono::steady_clock::now() + longest_abort;
  while (!aborted && std::chrono::steady_clock::now() < until) client_.turn(moment);
  client_.drop(call);
}

}  // namespace

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
