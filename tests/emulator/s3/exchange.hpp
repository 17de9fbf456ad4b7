// One request to S3 on its way through: who asks, for what, and the answer.
#pragma once

#include <optional>
#include <string>

#include "tests/emulator/s3/service.hpp"
#include "tests/world/s3/conditions.hpp"

namespace spotter::emulator::s3 {

using Answer = tl::expected<HttpResponse, Refused>;

inline tl::unexpected<Refused> refuse(world::ApiError error) {
  return tl::unexpected(Refused{std::move(error)});
}
inline tl::unexpected<Refused> refuse(std::string code, std::string message, int status = 400) {
  return refuse({std::move(code), std::move(message), status});
}

// A request, as far as its head says.
struct Incoming {
  bool head = false;  // the method HEAD: no body in the answer
  std::string id;
  std::string resource;
  api::Request request = {};
  Signer signer = {};
  api::Treatment treatment = {};
  std::optional<Refused> refused = {};
};

// Collects a request's document, then answers. An object's content is Upload's (upload.hpp).
class Exchange : public HttpStream {
 public:
  Exchange(Service& service, Incoming incoming)
      : service_(service), incoming_(std::move(incoming)) {}

  bool wants_body() const override { return !incoming_.refused; }
  void take(std::string_view bytes) override;
  HttpResponse finish() override;

 protected:
  virtual Answer answer();  // of an accepted request whose body has come
  const api::Treatment& treatment() const { return incoming_.treatment; }
  Store& store() { return service_.store(); }
  Uploads& uploads() { return service_.uploads(); }
  // Under the request's own conditions.
  Expected<Object> publish(Draft& draft, const Attributes& attributes);
  const api::Request& request() const { return incoming_.request; }
  const std::string& resource() const { return incoming_.resource; }
  const std::string& body() const { return body_; }
  const Signer& signer() const { return incoming_.signer; }
  WallTime now() const { return service_.parts().clocks().front(); }

 private:
  std::optional<Refused> check_document() const;
  Answer run();
  HttpResponse refusal(const Refused& why) const;

  Answer list_buckets();
  Answer create_bucket();
  Answer delete_bucket();
  Answer list_objects();
  Answer read_object();
  tl::expected<Object, Refused> found_object();
  FileBody content(const Object& object, const api::ByteRange& part);
  Answer copy_object();
  std::optional<Refused> refuse_copy(bool replaces) const;
  Answer delete_object();
  Answer delete_objects();
  Answer create_upload();
  Answer copy_part();
  Answer complete_upload();
  Answer abort_upload();
  Answer list_parts();
  Answer list_uploads();
  tl::expected<Object, Refused> copy_source();  // opened, its conditions hold

  Service& service_;
  Incoming incoming_;
  std::string body_;
};

// "Amazon S3 adds the default checksum, CRC64NVME" to what comes without one.
constexpr api::Algorithm default_checksum = api::Algorithm::Crc64Nvme;

HttpResponse document(std::string text);  // 200, application/xml
std::string in_quotes(const std::string& etag);
std::string digest_of(api::Algorithm algorithm, int descriptor);  // raw, of the whole file
// The attributes that a request gives to the object that it makes: type, headers, metadata.
Attributes described(const api::Request& request);

}  // namespace spotter::emulator::s3
