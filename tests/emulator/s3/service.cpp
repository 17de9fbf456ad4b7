#include "tests/emulator/s3/service.hpp"

#include <cstdio>

#include "tests/emulator/form.hpp"
#include "tests/emulator/s3/upload.hpp"
#include "tests/world/arguments.hpp"
#include "tests/world/sts.hpp"

namespace spotter::emulator::s3 {
namespace {

api::Fields fields_of(const HttpRequest& head) {
  api::Fields fields;
  for (const auto& [name, value] : head.headers) {
    auto& all = fields[name];
    all += (all.empty() ? "" : ",") + value;
  }
  return fields;
}

api::Fields parameters_of(const HttpRequest& head) {
  api::Fields fields;
  for (auto& [name, value] : parse_form(head.query(), Plus::IsSpace)) fields[name] = value;
  return fields;
}

Refused denied(const api::Request& request) {
  return {
      {"AccessDenied",
       "User is not authorized to perform: s3:" + std::string(api::permission(request.operation)),
       403}};
}

// S3 wants to know how much will come; HTTP's own chunks only around those of aws-chunked.
std::optional<Refused> refuse_length(const Incoming& incoming) {
  const api::Request& request = incoming.request;
  const bool chunked = !request.header("transfer-encoding").empty();
  if (chunked && !incoming.signer.payload_hash.starts_with("STREAMING-"))
    return Refused{{"NotImplemented",
                    "A header you provided implies functionality that is not implemented: "
                    "Transfer-Encoding",
                    501}};
  if (request.header(chunked ? "x-amz-decoded-content-length" : "content-length").empty())
    return Refused{
        {"MissingContentLength", "You must provide the Content-Length HTTP header.", 411}};
  return std::nullopt;
}

std::string request_id(std::uint64_t number) {
  char id[17];
  std::snprintf(id, sizeof id, "%016llX",
                static_cast<unsigned long long>(number * 0x9e3779b97f4a7c15ULL));
  return id;
}

}  // namespace

Refused wrong_region(const std::string& given, const std::string& right) {
  return {{"AuthorizationHeaderMalformed",
           "The authorization header is malformed; the region '" + given +
               "' is wrong; expecting '" + right + "'",
           400},
          {{"Region", right}}};
}

Service::Service(ServiceParts parts)
    : parts_(std::move(parts)), store_(parts_.folder, parts_.region), faults_(parts_.seed) {}

std::unique_ptr<HttpStream> Service::begin(const HttpRequest& head) {
  if (!is_s3(head)) return nullptr;
  Incoming incoming = receive(head);
  if (!incoming.refused && api::carries_content(incoming.request.operation))
    return std::make_unique<Upload>(*this, std::move(incoming));
  return std::make_unique<Exchange>(*this, std::move(incoming));
}

Incoming Service::receive(const HttpRequest& head) {
  Incoming incoming{head.method == "HEAD", request_id(++requests_),
                    percent_decode(head.path(), Plus::Literal)};
  auto signer =
      s3::verify(head, {parts_.clocks(), std::chrono::seconds{900}, parts_.key,
                        [this](std::string_view secret, const Authorization& authorization) {
                          return derived(secret, authorization);
                        }});
  if (!signer) {
    incoming.refused = signer.error();
    return incoming;
  }
  incoming.signer = std::move(*signer);
  auto request =
      api::classify(head.method, incoming.resource, parameters_of(head), fields_of(head));
  if (!request) {
    incoming.refused = Refused{request.error()};
    return incoming;
  }
  incoming.request = std::move(*request);
  incoming.refused = authorize(incoming);
  if (!incoming.refused && api::carries_content(incoming.request.operation))
    incoming.refused = refuse_length(incoming);
  if (incoming.refused) return incoming;
  incoming.treatment = treat(incoming.request);
  const auto& admission = incoming.treatment.admission;
  if (admission.error && !admission.carry_out) incoming.refused = Refused{*admission.error};
  return incoming;
}

std::string Service::derived(std::string_view secret, const Authorization& authorization) {
  constexpr std::size_t most = 1000;  // a scope may be anybody's invention
  const std::lock_guard lock(mutex_);
  const std::string name = std::string(secret) + " " + authorization.scope();
  if (const auto known = derived_.find(name); known != derived_.end()) return known->second;
  if (derived_.size() >= most) derived_.clear();
  return derived_[name] = signing_key(secret, authorization);
}

api::Treatment Service::treat(const api::Request& request) {
  const std::lock_guard lock(mutex_);
  ++counted_[std::string(api::name(request.operation))];
  return faults_.treat(request, parts_.now());
}

bool Service::is_own_fault(const std::string& name) {
  return name == "s3-public" || name == "s3-requester-pays" || api::Faults::knows(name);
}

std::vector<std::string> Service::fault_names() {
  auto lines = api::Faults::names();
  lines.emplace_back(
      "s3-public bucket=B on=true|false (everybody may read it; no fault, a policy)");
  lines.emplace_back(
      "s3-requester-pays bucket=B on=true|false (who reads it has to say that he pays; no fault)");
  return lines;
}

Expected<void> Service::fault(const std::string& name,
                              const std::map<std::string, std::string>& arguments) {
  if (name == "s3-public" || name == "s3-requester-pays") {
    const world::Arguments given(arguments);
    const bool on = given.on();
    return store_.change(given.text("bucket", ""), [&](Bucket& bucket) {
      (name == "s3-public" ? bucket.anonymous : bucket.requester_pays) = on;
    });
  }
  const std::lock_guard lock(mutex_);
  return faults_.fault(name, arguments, parts_.now());
}

bool Service::reset() {
  {
    const std::lock_guard lock(mutex_);
    derived_.clear();
    counted_.clear();
    faults_ = api::Faults(parts_.seed);
    bytes_read_ = 0;
  }
  return store_.clear();
}

bool Service::hides_missing_keys() {
  const std::lock_guard lock(mutex_);
  return faults_.hides_missing_keys();
}

Usage Service::usage() {
  const std::lock_guard lock(mutex_);
  return {counted_, bytes_read_};
}

// A bucket lives in one region. At the endpoint of another, S3 redirects; a signature for another
// than the endpoint's is malformed.
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
std::optional<Refused> Service::refuse_region(const Incoming& incoming,
                                              const Bucket& bucket) const {
  const Signer& signer = incoming.signer;
  if (signer.caller.empty() || signer.region == bucket.region) return std::nullopt;
  if (signer.region != parts_.region) return wrong_region(signer.region, bucket.region);
  return Refused{{"PermanentRedirect",
                  "The bucket you are attempting to access must be addressed using the specified "
                  "endpoint. Please send all future requests to this endpoint.",
                  301},
                 {{"Endpoint", bucket.name + ".s3." + bucket.region + ".amazonaws.com"},
                  {"Bucket", bucket.name},
                  {"Region", bucket.region}}};
}

// https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html
std::optional<Refused> Service::refuse_access(const Incoming& incoming) const {
  const auto access = parts_.access();
  const api::Request& request = incoming.request;
  const std::string& caller = incoming.signer.caller;
  if (!access || caller.empty()) return std::nullopt;
  world::AccessRequest asked{"s3:" + std::string(api::permission(request.operation)), "*"};
  if (!request.bucket.empty()) asked.resource = "arn:aws:s3:::" + request.bucket;
  if (!request.key.empty()) asked.resource += "/" + request.key;
  if (request.operation == api::Operation::DeleteObjects) asked.resource += "/*";
  if (request.query.contains("prefix")) asked.know("s3:prefix", request.parameter("prefix"));
  if (access->allows(caller, asked)) return std::nullopt;
  return Refused{{"AccessDenied",
                  "User: " + world::arn_of(parts_.account, parts_.role, caller) +
                      " is not authorized to perform: " + asked.action + " on resource: \"" +
                      asked.resource + "\" because no identity-based policy allows the " +
                      asked.action + " action",
                  403}};
}

std::optional<Refused> Service::authorize(const Incoming& incoming) {
  const api::Request& request = incoming.request;
  const bool nobody = incoming.signer.caller.empty();
  if (request.operation == api::Operation::ListBuckets ||
      request.operation == api::Operation::CreateBucket) {
    if (nobody) return denied(request);
    return refuse_access(incoming);
  }
  const auto bucket = store_.bucket(request.bucket);
  if (!bucket) return Refused{bucket.error(), {{"BucketName", request.bucket}}};
  if (auto elsewhere = refuse_region(incoming, *bucket)) return elsewhere;
  if (nobody && (!bucket->anonymous || api::writes(request.operation))) return denied(request);
  const std::string owner = request.header("x-amz-expected-bucket-owner");
  if (!owner.empty() && owner != parts_.account)
    return Refused{{"AccessDenied", "Access Denied", 403}};
  // S3 does not say why.
  if (bucket->requester_pays && request.header("x-amz-request-payer") != "requester")
    return Refused{{"AccessDenied", "Access Denied", 403}};
  return refuse_access(incoming);
}

bool is_s3(const HttpRequest& head) {
  if (head.path().starts_with("/_spotter/")) return false;
  const auto authorization = head.header("authorization");
  if (authorization.find("/s3/aws4_request") != std::string_view::npos) return true;
  if (!authorization.empty()) return false;
  for (const auto& [name, value] : parse_form(head.query(), Plus::Literal))
    if (name == "X-Amz-Credential") return value.find("/s3/") != std::string::npos;
  if (!api::bucket_of_host(head.header("host")).empty()) return true;
  return head.path() != "/" || (head.query().empty() && head.method != "POST");
}

}  // namespace spotter::emulator::s3
