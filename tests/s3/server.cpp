#include "tests/s3/server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>

namespace spotter::s3_test {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char each) { return std::tolower(each); });
  return text;
}

std::string unescape(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string escape(const std::string& text) {
  std::ostringstream out;
  for (const unsigned char each : text) {
    if (each == ' ') {
      out << '+';
    } else if (std::isalnum(each) != 0 || each == '/' || each == '-' || each == '.') {
      out << each;
    } else {
      out << '%' << std::hex << std::uppercase << (each >> 4) << (each & 15) << std::dec;
    }
  }
  return out.str();
}

// Reads one request; false when the client has closed the connection.
bool receive(int connection, std::string& buffer, Request& request) {
  std::array<char, 65536> block{};
  const auto more = [&] {
    const ssize_t got = ::recv(connection, block.data(), block.size(), 0);
    if (got > 0) buffer.append(block.data(), static_cast<std::size_t>(got));
    return got > 0;
  };
  while (buffer.find("\r\n\r\n") == std::string::npos) {
    if (!more()) return false;
  }
  const auto end = buffer.find("\r\n\r\n");
  std::istringstream lines(buffer.substr(0, end + 2));
  std::string line;
  std::getline(lines, line);
  std::istringstream words(line);
  std::string target;
  words >> request.method >> target;
  while (std::getline(lines, line) && line != "\r") {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string value = line.substr(colon + 1);
    value.erase(0, value.find_first_not_of(' '));
    while (value.ends_with('\r')) value.pop_back();
    request.headers[lower(line.substr(0, colon))] = value;
  }
  const auto question = std::min(target.find('?'), target.size());
  request.path = unescape(target.substr(0, question));
  std::istringstream pairs(question < target.size() ? target.substr(question + 1) : "");
  for (std::string pair; std::getline(pairs, pair, '&');) {
    const auto equals = std::min(pair.find('='), pair.size());
    request.query[unescape(pair.substr(0, equals))] =
        equals < pair.size() ? unescape(pair.substr(equals + 1)) : "";
  }
  const std::string length = request.header("content-length");
  const std::size_t size = length.empty() ? 0 : std::stoul(length);
  while (buffer.size() < end + 4 + size) {
    if (!more()) return false;
  }
  request.body = buffer.substr(end + 4, size);
  buffer.erase(0, end + 4 + size);
  return true;
}

bool send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string xml_text(const std::string& text) {
  std::string out;
  for (const char each : text)
    out += each == '&' ? "&amp;" : each == '<' ? "&lt;" : std::string(1, each);
  return out;
}

}  // namespace

std::string Request::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

Reply refusal(int status, const std::string& code, const std::string& more) {
  return {.status = status,
          .body = "<?xml version=\"1.0\"?><Error><Code>" + code + "</Code><Message>m</Message>" +
                  more + "</Error>"};
}

Server::Server() {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0) std::abort();
  ::listen(listener_, 256);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { accept(); });
}

Server::~Server() {
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
  {
    const std::scoped_lock lock(mutex_);
    for (const int each : open_) ::shutdown(each, SHUT_RDWR);
  }
  for (auto& each : connections_) each.join();
  for (const int each : open_) ::close(each);
}

void Server::accept() {
  while (true) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    const int yes = 1;
    ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const std::scoped_lock lock(mutex_);
    open_.push_back(connection);
    connections_.emplace_back([this, connection] { serve(connection); });
  }
}

void Server::serve(int connection) {
  std::string buffer;
  while (true) {
    Request request;
    if (!receive(connection, buffer, request)) break;
    Reply reply;
    Trouble trouble;
    {
      const std::scoped_lock lock(mutex_);
      requests_.push_back(request);
      auto refused = refuse_ ? refuse_(request) : std::nullopt;
      reply = refused ? std::move(*refused) : answer(request);
      trouble = trouble_;
    }
    if (trouble) trouble(request, reply);
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n";
    if (!reply.headers.contains("Content-Length")) {
      head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
    }
    for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
    const bool bodiless = request.method == "HEAD";
    std::string_view body = bodiless ? std::string_view() : std::string_view(reply.body);
    if (reply.cut_after) body = body.substr(0, *reply.cut_after);
    if (!send_all(connection, head + "\r\n") || !send_all(connection, body)) break;
    if (reply.cut_after) break;
  }
  ::shutdown(connection, SHUT_RDWR);
}

void Server::put(const std::string& key, std::string bytes) {
  const std::scoped_lock lock(mutex_);
  objects_[key] = {std::move(bytes), "\"e" + std::to_string(++counter_) + "\"", {}};
}

std::optional<Stored> Server::find(const std::string& key) const {
  const std::scoped_lock lock(mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return std::nullopt;
  return found->second;
}

void Server::trouble(Trouble trouble) {
  const std::scoped_lock lock(mutex_);
  trouble_ = std::move(trouble);
}

void Server::refuse(Refuse refuse) {
  const std::scoped_lock lock(mutex_);
  refuse_ = std::move(refuse);
}

std::vector<Request> Server::requests() const {
  const std::scoped_lock lock(mutex_);
  return requests_;
}

std::size_t Server::open_uploads() const {
  const std::scoped_lock lock(mutex_);
  return uploads_.size();
}

Reply Server::answer(const Request& request) {
  if (!request.path.starts_with("/bucket")) return refusal(404, "NoSuchBucket");
  const std::string key = request.path.size() > 8 ? request.path.substr(8) : "";
  if (key.empty()) return list(request);
  if (request.query.contains("uploads") || request.query.contains("uploadId")) {
    return multipart(request, key);
  }
  if (request.method == "GET" || request.method == "HEAD") return get(request, key);
  if (request.method == "PUT") return write(request, key);
  if (request.method == "DELETE") {
    objects_.erase(key);
    return {.status = 204};
  }
  return refusal(405, "MethodNotAllowed");
}

constexpr const char* served_at = "Sat, 21 Nov 2026 12:00:00 GMT";

void Server::make_old(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  objects_.at(key).is_old = true;
}

Reply Server::list(const Request& request) const {
  const auto query = [&](const char* name) {
    const auto found = request.query.find(name);
    return found == request.query.end() ? std::string() : found->second;
  };
  std::string xml = "<ListBucketResult><EncodingType>url</EncodingType>";
  std::size_t listed = 0;
  std::string last;
  for (const auto& [key, object] : objects_) {
    if (!key.starts_with(query("prefix")) || key <= query("continuation-token")) continue;
    if (listed++ == page_size_) {
      xml += "<IsTruncated>true</IsTruncated><NextContinuationToken>" + xml_text(last) +
             "</NextContinuationToken>";
      break;
    }
    last = key;
    xml += "<Contents><Key>" + escape(key) + "</Key><ETag>" + object.etag + "</ETag><Size>" +
           std::to_string(object.bytes.size()) + "</Size><LastModified>2026-11-" +
           (object.is_old ? "18" : "21") + "T12:00:00.000Z</LastModified></Contents>";
  }
  return {.headers = {{"Date", served_at}}, .body = xml + "</ListBucketResult>"};
}

Reply Server::get(const Request& request, const std::string& key) const {
  const auto found = objects_.find(key);
  if (found == objects_.end()) return refusal(404, "NoSuchKey");
  const Stored& object = found->second;
  const std::string wanted = request.header("if-match");
  if (!wanted.empty() && wanted != object.etag) return refusal(412, "PreconditionFailed");
  Reply reply{.headers = object.headers, .body = object.bytes};
  reply.headers["ETag"] = object.etag;
  reply.headers["Date"] = reply.headers["Last-Modified"] = served_at;
  const std::string range = request.header("range");
  if (!range.empty()) {
    const auto dash = range.find('-');
    const std::size_t first = std::stoul(range.substr(6, dash - 6));
    const std::size_t last = std::min(std::stoul(range.substr(dash + 1)), object.bytes.size() - 1);
    if (first >= object.bytes.size()) return refusal(416, "InvalidRange");
    reply.status = 206;
    reply.body = object.bytes.substr(first, last - first + 1);
    reply.headers["Content-Range"] = "bytes " + std::to_string(first) + "-" + std::to_string(last) +
                                     "/" + std::to_string(object.bytes.size());
  }
  return reply;
}

Reply Server::write(const Request& request, const std::string& key) {
  const auto before = objects_.find(key);
  const std::string wanted = request.header("if-match");
  if (request.header("if-none-match") == "*" && before != objects_.end())
    return refusal(412, "PreconditionFailed");
  if (!wanted.empty() && before == objects_.end()) return refusal(404, "NoSuchKey");
  if (!wanted.empty() && wanted != before->second.etag) return refusal(412, "PreconditionFailed");
  Stored stored{request.body, "\"e" + std::to_string(++counter_) + "\"", {}};
  for (const auto& [name, value] : request.headers) {
    if (name.starts_with("x-amz-meta-") || name.starts_with("x-amz-checksum-c")) {
      stored.headers[name] = value;
    }
  }
  Reply reply{.headers = {{"ETag", stored.etag}}};
  objects_[key] = std::move(stored);
  return reply;
}

Reply Server::multipart(const Request& request, const std::string& key) {
  if (request.query.contains("uploads")) {
    const std::string id = "upload-" + std::to_string(++counter_);
    for (const auto& [name, value] : request.headers) {
      if (name.starts_with("x-amz-meta-")) uploads_[id].headers[name] = value;
    }
    return {.body = "<InitiateMultipartUploadResult><UploadId>" + id +
                    "</UploadId></InitiateMultipartUploadResult>"};
  }
  const std::string id = request.query.at("uploadId");
  const auto upload = uploads_.find(id);
  if (upload == uploads_.end()) return refusal(404, "NoSuchUpload");
  if (request.method == "PUT") {
    upload->second.parts[std::stoi(request.query.at("partNumber"))] = request.body;
    return {.headers = {{"ETag", "\"p" + request.query.at("partNumber") + "\""}}};
  }
  if (request.method == "DELETE") {
    uploads_.erase(upload);
    return {.status = 204};
  }
  if (request.header("if-none-match") == "*" && objects_.contains(key)) {
    return refusal(412, "PreconditionFailed");
  }
  Stored stored{{}, "\"m" + std::to_string(++counter_) + "\"", upload->second.headers};
  for (const auto& [number, bytes] : upload->second.parts) stored.bytes += bytes;
  uploads_.erase(upload);
  const std::string etag = stored.etag;
  objects_[key] = std::move(stored);
  return {.body = "<CompleteMultipartUploadResult><ETag>" + xml_text(etag) +
                  "</ETag></CompleteMultipartUploadResult>"};
}

}  // namespace spotter::s3_test
