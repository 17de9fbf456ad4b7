#include "tests/emulator/s3/exchange.hpp"

#include <algorithm>

#include "tests/emulator/form.hpp"
#include "tests/world/cloud.hpp"
#include "tests/world/s3/conditions.hpp"
#include "tests/world/s3/members.hpp"

namespace spotter::emulator::s3 {
namespace {

constexpr std::size_t longest_document = 2 * 1024 * 1024;

}  // namespace

HttpResponse document(std::string text) { return {200, std::move(text), "application/xml"}; }

std::string in_quotes(const std::string& etag) { return '"' + etag + '"'; }

void Exchange::take(std::string_view bytes) {
  body_ += bytes;
  if (body_.size() > longest_document)
    incoming_.refused = Refused{{"MaxMessageLengthExceeded", "Your request was too big.", 400}};
}

std::optional<Refused> Exchange::check_document() const {
  const std::string& hash = signer().payload_hash;
  if (hash.size() == 64 && hash != sha256_text(body_))
    return Refused{{"XAmzContentSHA256Mismatch",
                    "The provided 'x-amz-content-sha256' header does not match what was computed.",
                    400}};
  const std::string md5 = request().header("content-md5");
  if (!md5.empty() && md5 != api::base64(api::digest(api::Algorithm::Md5, body_)))
    return Refused{
        {"BadDigest", "The Content-MD5 you specified did not match what we received.", 400}};
  if (request().operation != api::Operation::DeleteObjects) return std::nullopt;
  const auto given = api::given_checksum(request());
  if (!given && md5.empty())
    return Refused{{"InvalidRequest",
                    "Missing required header for this request: Content-MD5 OR x-amz-checksum-*"}};
  if (given &&
      request().header(api::checksum_header_of(*given)) != api::base64(api::digest(*given, body_)))
    return Refused{{"BadDigest", "The " + std::string(api::checksum_name(*given)) +
                                     " you specified did not match the calculated checksum."}};
  return std::nullopt;
}

Answer Exchange::run() {
  if (incoming_.refused) return tl::unexpected(*incoming_.refused);
  if (treatment().conflict && request().operation == api::Operation::CompleteMultipartUpload)
    uploads().remove(request().bucket, request().parameter("uploadId"));
  if (treatment().conflict)
    return refuse("ConditionalRequestConflict",
                  "The conditional request cannot succeed due to a conflicting operation against "
                  "this resource.",
                  409);
  return answer();
}

HttpResponse Exchange::finish() {
  auto result = run();
  HttpResponse response = result ? std::move(*result) : refusal(result.error());
  response.headers.insert(response.headers.begin(),
                          {{"x-amz-request-id", incoming_.id},
                           {"x-amz-id-2", "spotter-emulator-" + incoming_.id},
                           {"Date", world::http_date(now())},
                           {"Server", "AmazonS3"}});
  // "Starting January 5, 2023, all new object uploads to Amazon S3 are automatically encrypted"
  if (response.status < 300 && !request().key.empty() &&
      (api::permission(request().operation) == "GetObject" ||
       api::permission(request().operation) == "PutObject"))
    response.headers.emplace_back("x-amz-server-side-encryption", "AES256");
  response.drop = treatment().admission.drop;
  if (const auto delay = treatment().admission.delay; delay.count() > 0)
    response.delay = service_.parts().real_time(delay);
  if (incoming_.head && !response.announced) {
    response.announced = response.file ? response.file->size : 0;
    response.file.reset();
  }
  if (response.file) service_.count_bytes(response.file->size);
  return response;
}

HttpResponse Exchange::refusal(const Refused& why) const {
  HttpResponse response{why.error.http_status,
                        api::error_document(why.error, incoming_.resource, incoming_.id, why.more),
                        "application/xml"};
  for (const auto& [name, value] : why.more)
    if (name == "Region") response.headers.emplace_back("x-amz-bucket-region", value);
  return response;
}

Answer Exchange::answer() {
  if (auto wrong = check_document()) return tl::unexpected(*wrong);
  if (auto refused = api::refuse_elements(request(), body())) return refuse(*refused);
  using Operation = api::Operation;
  switch (request().operation) {
    case Operation::ListBuckets:
      return list_buckets();
    case Operation::CreateBucket:
      return create_bucket();
    case Operation::DeleteBucket:
      return delete_bucket();
    case Operation::HeadBucket: {
      HttpResponse response{200, "", "application/xml"};
      response.headers.emplace_back("x-amz-bucket-region",
                                    store().bucket(request().bucket)->region);
      return response;
    }
    case Operation::GetBucketLocation:
      return document(api::location(store().bucket(request().bucket)->region));
    case Operation::ListObjects:
    case Operation::ListObjectsV2:
      return list_objects();
    case Operation::GetObject:
    case Operation::HeadObject:
      return read_object();
    case Operation::CopyObject:
      return copy_object();
    case Operation::DeleteObject:
      return delete_object();
    case Operation::DeleteObjects:
      return delete_objects();
    case Operation::CreateMultipartUpload:
      return create_upload();
    case Operation::UploadPartCopy:
      return copy_part();
    case Operation::CompleteMultipartUpload:
      return complete_upload();
    case Operation::AbortMultipartUpload:
      return abort_upload();
    case Operation::ListParts:
      return list_parts();
    case Operation::ListMultipartUploads:
      return list_uploads();
    case Operation::PutObject:
    case Operation::UploadPart:
      break;  // Upload's
  }
  return refuse("InternalError", "This operation is answered elsewhere.", 500);
}

Expected<Object> Exchange::publish(Draft& draft, const Attributes& attributes) {
  return store().publish(request().bucket, request().key, draft, attributes,
                         [this](const auto& etag) { return api::refuse_write(request(), etag); });
}

Answer Exchange::list_buckets() {
  if (signer().region != service_.parts().region && signer().region != "us-east-1")
    return tl::unexpected(wrong_region(signer().region, service_.parts().region));
  constexpr std::uint64_t most_buckets = 10'000;
  const auto most = api::parse_count(request(), "max-buckets", most_buckets);
  if (!most) return refuse(most.error());
  if (*most < 1 || *most > most_buckets)
    return refuse("InvalidArgument", "max-buckets must be between 1 and 10000, inclusive");
  std::string after;
  if (const std::string token = request().parameter("continuation-token"); !token.empty()) {
    const auto parsed = api::parse_continuation_token(token);
    if (!parsed) return refuse("InvalidArgument", "The continuation token provided is incorrect");
    after = *parsed;
  }
  const std::string prefix = request().parameter("prefix");
  const std::string region = request().parameter("bucket-region");
  std::vector<api::BucketRow> rows;
  std::vector<std::pair<std::string, std::string>> more;
  if (!prefix.empty()) more.emplace_back("Prefix", prefix);
  for (const Bucket& bucket : store().buckets()) {
    if (!bucket.name.starts_with(prefix) || (!after.empty() && bucket.name <= after) ||
        (!region.empty() && bucket.region != region))
      continue;
    if (rows.size() == *most) {
      more.emplace_back("ContinuationToken", api::continuation_token(rows.back().name));
      break;
    }
    rows.push_back(
        {bucket.name, bucket.created, request().query.empty() ? std::string() : bucket.region});
  }
  return document(api::list_buckets(rows, more));
}

// The endpoint's region is the one signed for; the constraint must say the same. Only us-east-1
// does without.
Answer Exchange::create_bucket() {
  const auto constraint = api::parse_location(body_);
  if (!constraint) return refuse(constraint.error());
  const std::string expected = signer().region == "us-east-1" ? "" : signer().region;
  if (*constraint != expected)
    return refuse("IllegalLocationConstraintException",
                  "The " + (constraint->empty() ? "unspecified" : *constraint) +
                      " location constraint is incompatible for the region specific endpoint this "
                      "request was sent to.");
  const auto made = store().make_bucket({request().bucket, signer().region, now(),
                                         request().header("x-amz-acl").starts_with("public-read")});
  // "in all AWS Regions except in the North Virginia Region ... For legacy compatibility"
  const bool again = !made && made.error().code == "BucketAlreadyOwnedByYou" && expected.empty() &&
                     store().bucket(request().bucket)->region == signer().region;
  if (!made && !again) return refuse(made.error());
  HttpResponse response{200, "", ""};
  response.headers.emplace_back("Location", "/" + request().bucket);
  return response;
}

Answer Exchange::delete_bucket() {
  const auto removed = store().remove_bucket(request().bucket);
  if (!removed) return refuse(removed.error());
  return HttpResponse{204, "", ""};
}

Answer Exchange::delete_object() {
  const auto removed = store().remove(request().bucket, request().key, [this](const auto& etag) {
    return api::refuse_write(request(), etag);
  });
  if (!removed) return refuse(removed.error());
  return HttpResponse{204, "", ""};
}

Answer Exchange::delete_objects() {
  const auto list = api::parse_deletion(body_);
  if (!list) return refuse(list.error());
  std::vector<api::Deletion> deletions;
  api::Request one = request();
  for (const auto& [key, wanted] : list->items) {
    one.headers.erase("if-none-match");
    one.headers["if-match"] = wanted;
    const auto removed = store().remove(
        one.bucket, key, [&one](const auto& etag) { return api::refuse_write(one, etag); });
    deletions.push_back({key, removed ? std::nullopt : std::optional(removed.error())});
  }
  return document(api::deleted(deletions, list->quiet));
}

}  // namespace spotter::emulator::s3
