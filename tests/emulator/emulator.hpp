// The fake AWS over HTTP: the world, its host on this machine, S3's folder, the API port and time
// itself.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/emulator/batch_service.hpp"
#include "tests/emulator/container_kind.hpp"
#include "tests/emulator/control.hpp"
#include "tests/emulator/directory.hpp"
#include "tests/emulator/host.hpp"
#include "tests/emulator/listener.hpp"
#include "tests/emulator/page_service.hpp"
#include "tests/emulator/parameters.hpp"
#include "tests/emulator/record.hpp"
#include "tests/emulator/regions.hpp"
#include "tests/emulator/s3/service.hpp"
#include "tests/emulator/sigv4.hpp"
#include "tests/emulator/topics.hpp"
#include "tests/world/efs.hpp"
#include "tests/world/world.hpp"

namespace spotter::emulator {

enum class Mode { Automatic, Root, User };

struct ServeOptions {
  std::filesystem::path directory;
  Endpoint api{"127.0.0.1", 4566};
  Endpoint metadata{"127.0.0.1", 1338};
  std::vector<std::string> zones = {"us-west-2a", "us-west-2b"};
  Mode mode = Mode::Automatic;
  std::uint64_t seed = 0;
  std::string secret;            // of the keys for people
  bool empty_account = false;    // world::Settings
  std::string version;           // of this program, for who asks for its health
  double time_scale = 1;         // the world's seconds in one real second
  bool cold_volumes = false;     // cold_files.hpp
  std::filesystem::path record;  // empty: nothing is recorded (record.hpp)
  std::string certificate;
  std::string key;
  std::vector<std::string> environment;
  std::vector<std::filesystem::path> binds;     // processes of an ordinary user: what they see, too
  std::optional<ContainerSettings> containers;  // whole machines
  std::vector<std::string> boot;                // or virtual ones, by this program; else processes
};

// The kind of this emulator's instances, and a line for people of what their programs may.
struct Programs {
  bool namespaces = false;
  std::shared_ptr<const InstanceKind> kind;
  std::string warning;
};

class Emulator {
 public:
  // Throws nothing: what cannot be set up is the answer.
  static Result<std::unique_ptr<Emulator>> create(ServeOptions options);

  // A line for people of what the programs of instances may; empty: nothing is to be said.
  const std::string& warning() const { return warning_; }

  // Until `stop`, SIGTERM or SIGINT; prints one line that begins with READY once it listens.
  Result<void> run();

 private:
  Emulator(ServeOptions options, Directory directory, Programs programs, TlsContext tls);

  Time now() const;
  Duration real(Duration of_world) const;
  void settle();
  void end();
  Result<void> reset();  // as after a start in a folder without buckets
  void reap();
  void await_child();
  bool settle_once();
  tl::expected<std::string, Refusal> caller_of(const HttpRequest& request,
                                               const std::string& service);
  // That of the request's signature; the home, if it has none of its own.
  world::World& world_of(const HttpRequest& request);

  HttpService service(bool from_inside);
  void share_credentials();
  std::shared_ptr<const world::Access> shared_access();
  std::optional<SigningKey> shared_key(std::string_view access_key);
  std::vector<WallTime> clocks() const;  // the world's, then this machine's
  HttpResponse api(const HttpRequest& request, bool from_inside);
  HttpResponse query(const HttpRequest& request, const std::string& service);
  HttpResponse sns(const HttpRequest& request);
  HttpResponse batch(const HttpRequest& request);
  HttpResponse efs(const HttpRequest& request);
  HttpResponse parameter(const HttpRequest& request);
  HttpResponse metadata(const InstanceId& id, const HttpRequest& request);
  HttpResponse response(world::Reply reply) const;

  ServeOptions options_;
  Directory directory_;
  bool namespaces_;
  std::string warning_;
  TlsContext tls_;
  // Goes last: the others' coroutines hold its sockets. More threads than processors, because one
  // may wait for the disk.
  Workers workers_{8};
  boost::asio::io_context context_{1};
  std::chrono::nanoseconds started_;
  WallTime origin_;  // when the world began
  Regions regions_;
  world::World& world_{regions_.home()};
  std::mutex credentials_mutex_;  // of the next: S3 is served by other threads
  std::map<std::string, world::Credential> credentials_;
  std::shared_ptr<const world::Access> access_;
  Record record_;
  s3::Service s3_;
  Host host_;
  std::optional<BatchService> batch_;  // reset() makes others in their place
  std::optional<world::Efs> efs_;
  Parameters parameters_;
  Topics topics_;
  Control control_;
  PageService page_;
  bool settling_ = false;
  boost::asio::steady_timer timer_;
  std::optional<Time> rings_;  // what the timer is set to
  boost::asio::steady_timer ending_timer_;
  int ending_looks_ = 0;
  boost::asio::signal_set ending_;
  boost::asio::signal_set children_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace spotter::emulator
