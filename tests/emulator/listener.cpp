#include "tests/emulator/listener.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>
#include <sstream>

#include "tests/emulator/precompiled.hpp"
#include "tests/emulator/wire.hpp"

namespace spotter::emulator {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;
using boost::system::error_code;

// Lives as long as the last connection's coroutine; `open` ends when the Listener goes.
struct Listener::Shared {
  Shared(asio::io_context& context, HttpHandler given, TlsContext tls_given)
      : acceptor(context), handler(std::move(given)), tls(std::move(tls_given)) {}

  tcp::acceptor acceptor;
  HttpHandler handler;
  TlsContext tls;
  bool open = true;
  std::set<Wire*> connections;
};

namespace {

constexpr std::size_t body_limit = 1024 * 1024;
constexpr std::uint32_t header_limit = 32 * 1024;
constexpr std::chrono::seconds silence_limit{60};

using Parser = http::request_parser<http::string_body>;
constexpr auto as_tuple = asio::as_tuple(asio::use_awaitable);

HttpRequest request_of(Parser& parser) {
  auto& message = parser.get();
  HttpRequest request{std::string(message.method_string()), std::string(message.target()), {}, {}};
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  request.body = std::move(message.body());
  return request;
}

std::string bytes_of(HttpResponse response, bool keep_alive) {
  http::response<http::string_body> message;
  message.result(static_cast<unsigned>(response.status));
  message.version(11);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  message.set(http::field::content_type, response.content_type);
  message.body() = std::move(response.body);
  message.keep_alive(keep_alive);
  message.prepare_payload();
  std::ostringstream bytes;
  bytes << message;
  return std::move(bytes).str();
}

// Feeds the parser what came until `done` says enough. Beast's own asynchronous operations would do
// the same; instantiated over TLS they take a minute and a half to compile.
template <class Done>
asio::awaitable<bool> read_until(Wire& wire, std::string& unread, Parser& parser, Done done) {
  while (!done()) {
    error_code failed;
    const std::size_t used = unread.empty() ? 0 : parser.put(asio::buffer(unread), failed);
    if (failed && failed != http::error::need_more) co_return false;
    unread.erase(0, used);
    if (used > 0 || done()) continue;
    const std::string more = co_await wire.read();
    if (more.empty()) co_return false;
    unread += more;
  }
  co_return true;
}

// A client that asks with "Expect: 100-continue" sends its body only after this line.
asio::awaitable<bool> read_request(Wire& wire, std::string& unread, Parser& parser) {
  parser.body_limit(body_limit);
  parser.header_limit(header_limit);
  wire.expires_after(silence_limit);
  const auto header_done = [&parser] { return parser.is_header_done(); };
  if (!co_await read_until(wire, unread, parser, header_done)) co_return false;
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    const std::string line = "HTTP/1.1 100 Continue\r\n\r\n";
    if (!co_await wire.write(line)) co_return false;
  }
  const auto done = [&parser] { return parser.is_done(); };
  parser.eager(true);
  co_return co_await read_until(wire, unread, parser, done);
}

asio::awaitable<void> wait(Wire& wire, Duration delay) {
  wire.expires_never();
  asio::steady_timer timer(wire.socket().get_executor(), delay);
  co_await timer.async_wait(as_tuple);
}

template <class State>
asio::awaitable<void> exchange(std::shared_ptr<State> shared, Wire& wire) {
  std::string unread;
  while (shared->open) {
    Parser parser;
    if (!co_await read_request(wire, unread, parser) || !shared->open) break;
    const bool keep_alive = parser.get().keep_alive();
    const HttpRequest request = request_of(parser);
    const HttpHandler handler = shared->handler;  // the answer may bring this listener down
    HttpResponse response = handler(request);
    const bool drop = response.drop;
    if (response.delay.count() > 0) co_await wait(wire, response.delay);
    if (drop || !shared->open) break;
    wire.expires_after(silence_limit);
    const std::string bytes = bytes_of(std::move(response), keep_alive);
    const bool written = co_await wire.write(bytes);
    if (!written || !keep_alive) break;
  }
}

template <class State>
asio::awaitable<void> connection(std::shared_ptr<State> shared, tcp::socket socket) {
  const std::shared_ptr<Wire> wire =
      shared->tls ? secure_wire(std::move(socket), shared->tls) : plain_wire(std::move(socket));
  shared->connections.insert(wire.get());
  wire->expires_after(silence_limit);
  if (co_await wire->open()) {
    co_await exchange(shared, *wire);
    if (shared->open) co_await wire->finish();
  }
  shared->connections.erase(wire.get());
  wire->close();
}

template <class State>
asio::awaitable<void> accept(std::shared_ptr<State> shared) {
  while (shared->open) {
    auto [failed, socket] = co_await shared->acceptor.async_accept(as_tuple);
    if (!shared->open) co_return;
    if (failed) {  // out of descriptors, most likely: the others go on
      asio::steady_timer pause(shared->acceptor.get_executor(), std::chrono::milliseconds{50});
      co_await pause.async_wait(as_tuple);
      continue;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    asio::co_spawn(shared->acceptor.get_executor(), connection(shared, std::move(socket)),
                   asio::detached);
  }
}

}  // namespace

Result<Endpoint> parse_endpoint(const std::string& text) {
  const auto colon = text.rfind(':');
  const auto wrong = failure("'" + text + "' is not ADDRESS:PORT, as in 127.0.0.1:4566");
  if (colon == std::string::npos) return wrong;
  Endpoint endpoint{text.substr(0, colon), 0};
  error_code failed;
  asio::ip::make_address_v4(endpoint.address, failed);
  const char* const last = text.data() + text.size();
  const auto [end, problem] = std::from_chars(text.data() + colon + 1, last, endpoint.port);
  if (failed || problem != std::errc{} || end != last) return wrong;
  return endpoint;
}

Listener::Listener(std::shared_ptr<Shared> shared, Endpoint endpoint)
    : shared_(std::move(shared)), endpoint_(std::move(endpoint)) {}

Listener::~Listener() {
  shared_->open = false;
  shared_->handler = nullptr;
  error_code ignored;
  shared_->acceptor.close(ignored);
  for (Wire* connection : shared_->connections) connection->close();
}

Result<std::unique_ptr<Listener>> Listener::open(asio::io_context& context,
                                                 const Endpoint& endpoint, HttpHandler handler,
                                                 TlsContext tls) {
  auto shared = std::make_shared<Shared>(context, std::move(handler), std::move(tls));
  const tcp::endpoint address(asio::ip::make_address_v4(endpoint.address), endpoint.port);
  auto& acceptor = shared->acceptor;
  error_code failed;
  acceptor.open(address.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(address, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed) return failure("cannot listen on " + endpoint.str() + ": " + failed.message());
  const Endpoint bound{endpoint.address, acceptor.local_endpoint().port()};
  asio::co_spawn(context, accept(shared), asio::detached);
  return std::unique_ptr<Listener>(new Listener(std::move(shared), bound));
}

Result<std::unique_ptr<Listener>> Listener::adopt(asio::io_context& context, int descriptor,
                                                  HttpHandler handler) {
  auto shared = std::make_shared<Shared>(context, std::move(handler), nullptr);
  error_code failed;
  shared->acceptor.assign(tcp::v4(), descriptor, failed);
  if (failed) return failure("cannot take over a listening socket: " + failed.message());
  const auto local = shared->acceptor.local_endpoint(failed);
  const Endpoint bound{local.address().to_string(), local.port()};
  asio::co_spawn(context, accept(shared), asio::detached);
  return std::unique_ptr<Listener>(new Listener(std::move(shared), bound));
}

}  // namespace spotter::emulator
