#include "tests/emulator/listener.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "tests/emulator/precompiled.hpp"

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
  std::set<beast::tcp_stream*> connections;
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

http::response<http::string_body> message_of(HttpResponse response, bool keep_alive) {
  http::response<http::string_body> message;
  message.result(static_cast<unsigned>(response.status));
  message.version(11);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  message.set(http::field::content_type, response.content_type);
  message.body() = std::move(response.body);
  message.keep_alive(keep_alive);
  message.prepare_payload();
  return message;
}

// A client that asks with "Expect: 100-continue" sends its body only after this line.
template <class Stream>
asio::awaitable<bool> read_request(Stream& stream, beast::flat_buffer& buffer, Parser& parser) {
  parser.body_limit(body_limit);
  parser.header_limit(header_limit);
  beast::get_lowest_layer(stream).expires_after(silence_limit);
  auto [failed, size] = co_await http::async_read_header(stream, buffer, parser, as_tuple);
  if (failed) co_return false;
  if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
    static constexpr std::string_view line = "HTTP/1.1 100 Continue\r\n\r\n";
    const auto bytes = asio::buffer(line);
    auto [unwritten, written] = co_await asio::async_write(stream, bytes, as_tuple);
    if (unwritten) co_return false;
  }
  auto [broken, read] = co_await http::async_read(stream, buffer, parser, as_tuple);
  co_return !broken;
}

template <class Stream>
asio::awaitable<void> wait(Stream& stream, Duration delay) {
  beast::get_lowest_layer(stream).expires_never();
  asio::steady_timer timer(stream.get_executor(), delay);
  co_await timer.async_wait(as_tuple);
}

template <class State, class Stream>
asio::awaitable<void> exchange(std::shared_ptr<State> shared, Stream& stream) {
  beast::flat_buffer buffer;
  while (shared->open) {
    Parser parser;
    if (!co_await read_request(stream, buffer, parser) || !shared->open) break;
    const bool keep_alive = parser.get().keep_alive();
    const HttpRequest request = request_of(parser);
    const HttpHandler handler = shared->handler;  // the answer may bring this listener down
    HttpResponse response = handler(request);
    const bool drop = response.drop;
    if (response.delay.count() > 0) co_await wait(stream, response.delay);
    if (drop || !shared->open) break;
    beast::get_lowest_layer(stream).expires_after(silence_limit);
    auto message = message_of(std::move(response), keep_alive);
    auto [failed, size] = co_await http::async_write(stream, message, as_tuple);
    if (failed || !keep_alive) break;
  }
}

template <class State>
asio::awaitable<void> connection(std::shared_ptr<State> shared, tcp::socket socket) {
  beast::tcp_stream plain(std::move(socket));
  if (!shared->tls) {
    shared->connections.insert(&plain);
    co_await exchange(shared, plain);
    shared->connections.erase(&plain);
    error_code ignored;
    plain.socket().shutdown(tcp::socket::shutdown_both, ignored);
    co_return;
  }
  beast::ssl_stream<beast::tcp_stream> secure(std::move(plain), *shared->tls);
  auto& lowest = beast::get_lowest_layer(secure);
  shared->connections.insert(&lowest);
  lowest.expires_after(silence_limit);
  auto [failed] = co_await secure.async_handshake(asio::ssl::stream_base::server, as_tuple);
  if (!failed) co_await exchange(shared, secure);
  if (!failed && shared->open) {
    lowest.expires_after(std::chrono::seconds{1});
    co_await secure.async_shutdown(as_tuple);
  }
  shared->connections.erase(&lowest);
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

Result<TlsContext> server_tls(const std::string& certificate, const std::string& key) {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code failed;
  context->use_certificate_chain_file(certificate, failed);
  if (failed) return failure("--tls-certificate " + certificate + ": " + failed.message());
  context->use_private_key_file(key, asio::ssl::context::pem, failed);
  if (failed) return failure("--tls-key " + key + ": " + failed.message());
  return context;
}

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
  for (auto* connection : shared_->connections) connection->close();
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
