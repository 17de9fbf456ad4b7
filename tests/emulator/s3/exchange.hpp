// One request to S3 on its way through: who asks, for what, and the answer.
#pragma once

#include <optional>
#include <string>

#include "tests/emulator/s3/service.hpp"

namespace spotter::emulator::s3 {

using Answer = tl::expected<HttpResponse, Refused>;

inline tl::unexpected<Refused> refuse(world::ApiError error) {
  return tl::unexpected(Refused{std::move(error)});
}
inline tl::unexpected<Refused> refuse(std::string code, std::string message, int status = 400) {
  return refuse({std::move(code), std::move(message), status});
}

// What is known of a request from its head.
struct Incoming {
  bool head = false;  // the method HEAD: no body in the answer
  std::string id;
  std::string resource;
  api::Request request = {};
  Signer signer = {};
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
  Store& store() { return service_.store(); }
  const api::Request& request() const { return incoming_.request; }
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
  Answer copy_object();
  Answer delete_objects();

  Service& service_;
  Incoming incoming_;
  std::string body_;
};

HttpResponse document(std::string text);  // 200, application/xml
std::string in_quotes(const std::string& etag);
// What a request says of the object that it makes: type, headers, metadata.
Attributes described(const api::Request& request);

}  // namespace spotter::emulator::s3
