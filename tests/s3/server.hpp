// A small S3 on 127.0.0.1, in memory, that misbehaves on request: for tests of the client inside
// one process. The real shapes are checked against the emulator and foreign clients.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "agent/aws/s3/client.hpp"

namespace spotter::s3_test {

struct Request {
  std::string method;
  std::string path;                            // unescaped, without the query
  std::map<std::string, std::string> query;    // unescaped
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  std::string header(const std::string& name) const;
};

struct Reply {
  int status = 200;
  std::map<std::string, std::string> headers;
  std::string body;
  std::optional<std::size_t> cut_after;  // the connection breaks after so many bytes of the body
};

struct Stored {
  std::string bytes;
  std::string etag;
  std::map<std::string, std::string> headers;  // x-amz-meta-*, x-amz-checksum-*
  bool is_old = false;
};

class Server {
 public:
  // After a request was carried out: changes the answer.
  using Trouble = std::function<void(const Request&, Reply&)>;
  // Before that: answers instead.
  using Refuse = std::function<std::optional<Reply>(const Request&)>;

  Server();
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void put(const std::string& key, std::string bytes);  // in the only bucket, "bucket"
  void make_old(const std::string& key);                // some days, as it is listed
  std::optional<Stored> find(const std::string& key) const;
  void trouble(Trouble trouble);
  void refuse(Refuse refuse);
  std::vector<Request> requests() const;
  std::size_t open_uploads() const;
  void page_size(std::size_t keys) { page_size_ = keys; }

 private:
  void accept();
  void serve(int connection);
  Reply answer(const Request& request);
  Reply list(const Request& request) const;
  Reply get(const Request& request, const std::string& key) const;
  Reply write(const Request& request, const std::string& key);
  Reply multipart(const Request& request, const std::string& key);

  struct Upload {
    std::map<int, std::string> parts;
    std::map<std::string, std::string> headers;
  };

  mutable std::mutex mutex_;
  std::map<std::string, Stored> objects_;
  std::map<std::string, Upload> uploads_;
  std::vector<Request> requests_;
  Trouble trouble_;
  Refuse refuse_;
  std::atomic<std::size_t> page_size_ = 1000;
  int counter_ = 0;
  int listener_ = -1;
  int port_ = 0;
  std::thread thread_;
  std::list<std::thread> connections_;
  std::vector<int> open_;
};

Reply refusal(int status, const std::string& code, const std::string& more = "");

// Of a client of that server that has keys, and gives up soon.
inline s3::Settings settings_for(const Server& server) {
  return {.environment = act::Environment({{"AWS_ENDPOINT_URL_S3", server.url()},
                                           {"AWS_ACCESS_KEY_ID", "AKID"},
                                           {"AWS_SECRET_ACCESS_KEY", "secret"},
                                           {"HOME", "/nonexistent"}}),
          .patience = std::chrono::milliseconds(200),
          .shortest_pause = std::chrono::milliseconds(1)};
}

}  // namespace spotter::s3_test
