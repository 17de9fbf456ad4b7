#include "tests/emulator/record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "tests/emulator/precompiled.hpp"

namespace spotter::emulator {
namespace {

// ".../20260101/us-west-2/ec2/aws4_request, SignedHeaders=..."
std::string signed_service(const HttpRequest& request) {
  const std::string_view given = request.header("authorization");
  const auto end = given.find("/aws4_request");
  if (end == given.npos || end == 0) return {};
  const auto before = given.rfind('/', end - 1);
  if (before == given.npos) return {};
  return std::string(given.substr(before + 1, end - before - 1));
}

constexpr std::size_t longest_document = 64 * 1024;  // of a listing with 1,000 keys: much less

// Leaves out signatures: they are secret to those who read the file, and no part of an operation.
nlohmann::json headers_of(const Headers& all) {
  nlohmann::json kept = nlohmann::json::object();
  for (const auto& [given, value] : all) {
    std::string name = given;
    std::ranges::transform(name, name.begin(), [](unsigned char letter) {
      return static_cast<char>(std::tolower(letter));
    });
    if (name.starts_with("x-amz-") && name != "x-amz-security-token") kept[name] = value;
  }
  return kept;
}

void append(const io::Descriptor& to, const HttpRequest& request, const HttpResponse& response,
            const std::string& service, const std::string& body) {
  const nlohmann::json line{{"service", service},
                            {"method", request.method},
                            {"target", request.target},
                            {"host", request.header("host")},
                            {"action", request.header("x-amz-target")},
                            {"headers", headers_of(request.headers)},
                            {"body", body},
                            {"status", response.drop ? 0 : response.status},
                            {"answer", response.file ? "" : response.body},
                            {"answer_headers", headers_of(response.headers)}};
  const std::string text =
      line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (::write(to.get(), text.data(), text.size()) < 0)  // O_APPEND: each line is whole
    spdlog::error("a request is not recorded");
}

// A request to S3. Documents come by POST, or with a query; an object's own bytes do not.
class RecordedStream : public HttpStream {
 public:
  RecordedStream(std::shared_ptr<const io::Descriptor> to, HttpRequest head,
                 std::unique_ptr<HttpStream> stream)
      : to_(std::move(to)), head_(std::move(head)), stream_(std::move(stream)) {}

  bool wants_body() const override { return stream_->wants_body(); }
  void take(std::string_view bytes) override {
    const bool is_document = head_.method == "POST";
    if (is_document && body_.size() + bytes.size() <= longest_document) body_ += bytes;
    stream_->take(bytes);
  }
  HttpResponse finish() override {
    HttpResponse response = stream_->finish();
    const bool is_signed = !head_.header("authorization").empty();
    append(*to_, head_, response, is_signed ? "s3" : "", body_);
    return response;
  }

 private:
  std::shared_ptr<const io::Descriptor> to_;
  HttpRequest head_;
  std::unique_ptr<HttpStream> stream_;
  std::string body_;
};

}  // namespace

Record::Record(const std::filesystem::path& file) {
  if (file.empty()) return;
  constexpr mode_t mode = 0644;
  io::Descriptor opened(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, mode));
  if (!opened)
    spdlog::error("cannot record to {}", file.string());
  else
    to_ = std::make_shared<const io::Descriptor>(std::move(opened));
}

HttpHandler Record::of(HttpHandler handler) const {
  if (!to_) return handler;
  return [to = to_, handler = std::move(handler)](const HttpRequest& request) {
    HttpResponse response = handler(request);
    if (!request.path().starts_with("/_spotter/"))
      append(*to, request, response, signed_service(request), request.body);
    return response;
  };
}

HttpStreams Record::of(HttpStreams streams) const {
  if (!to_) return streams;
  return [to = to_, streams = std::move(streams)](const HttpRequest& head) {
    auto stream = streams(head);
    if (!stream) return stream;
    return std::unique_ptr<HttpStream>(
        std::make_unique<RecordedStream>(to, head, std::move(stream)));
  };
}

}  // namespace spotter::emulator
