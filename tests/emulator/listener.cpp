#include "tests/emulator/listener.hpp"

#include <charconv>

#include "tests/emulator/exchange.hpp"
#include "tests/emulator/precompiled.hpp"

namespace spotter::emulator {
namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds handshake_limit{60};

asio::awaitable<void> connection(std::shared_ptr<Shared> shared, tcp::socket socket) {
  const std::shared_ptr<Wire> wire =
      shared->tls ? secure_wire(std::move(socket), shared->tls) : plain_wire(std::move(socket));
  {
    const std::lock_guard lock(shared->mutex);
    if (!shared->open) co_return;
    shared->connections.insert(wire);
  }
  wire->expires_after(handshake_limit);
  if (co_await wire->open()) {
    co_await exchange(shared, wire);
    if (shared->open) co_await wire->finish();
  }
  {
    const std::lock_guard lock(shared->mutex);
    shared->connections.erase(wire);
  }
  wire->close();
}

asio::awaitable<void> accept(std::shared_ptr<Shared> shared,
                             std::shared_ptr<tcp::acceptor> acceptor, Workers* workers) {
  while (shared->open) {
    const asio::any_io_executor executor =
        workers != nullptr ? workers->next() : acceptor->get_executor();
    auto [failed, socket] = co_await acceptor->async_accept(executor, as_tuple);
    if (!shared->open) co_return;
    if (failed) {  // out of descriptors, most likely: the others go on
      asio::steady_timer pause(acceptor->get_executor(), std::chrono::milliseconds{50});
      co_await pause.async_wait(as_tuple);
      continue;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    asio::co_spawn(executor, connection(shared, std::move(socket)), asio::detached);
  }
}

std::shared_ptr<Shared> share(asio::io_context& context, HttpService& service, TlsContext tls) {
  return std::shared_ptr<Shared>(new Shared{std::move(service.whole), std::move(service.streams),
                                            std::move(service.owners_only), context.get_executor(),
                                            std::move(tls)});
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

Listener::Listener(std::shared_ptr<Shared> shared, std::shared_ptr<Acceptor> acceptor)
    : shared_(std::move(shared)), acceptor_(std::move(acceptor)) {
  error_code ignored;
  const auto local = acceptor_->local_endpoint(ignored);
  endpoint_ = {local.address().to_string(), local.port()};
}

Listener::~Listener() {
  error_code ignored;
  acceptor_->close(ignored);
  const std::lock_guard lock(shared_->mutex);
  shared_->open = false;
  shared_->whole = nullptr;
  for (const auto& connection : shared_->connections)
    if (const auto wire = connection.lock())
      asio::dispatch(wire->executor(), [wire] { wire->close(); });
}

bool Listener::busy() const { return shared_->busy > 0; }

Result<std::unique_ptr<Listener>> Listener::open(asio::io_context& context,
                                                 const Endpoint& endpoint, HttpService service,
                                                 TlsContext tls) {
  const tcp::endpoint address(asio::ip::make_address_v4(endpoint.address), endpoint.port);
  auto acceptor = std::make_shared<tcp::acceptor>(context);
  error_code failed;
  acceptor->open(address.protocol(), failed);
  if (!failed) acceptor->set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor->bind(address, failed);
  if (!failed) acceptor->listen(asio::socket_base::max_listen_connections, failed);
  if (failed) return failure("cannot listen on " + endpoint.str() + ": " + failed.message());
  auto shared = share(context, service, std::move(tls));
  asio::co_spawn(context, accept(shared, acceptor, service.workers), asio::detached);
  return std::unique_ptr<Listener>(new Listener(std::move(shared), std::move(acceptor)));
}

Result<std::unique_ptr<Listener>> Listener::adopt(asio::io_context& context, int descriptor,
                                                  HttpService service) {
  auto acceptor = std::make_shared<tcp::acceptor>(context);
  error_code failed;
  acceptor->assign(tcp::v4(), descriptor, failed);
  if (failed) return failure("cannot take over a listening socket: " + failed.message());
  auto shared = share(context, service, nullptr);
  asio::co_spawn(context, accept(shared, acceptor, service.workers), asio::detached);
  return std::unique_ptr<Listener>(new Listener(std::move(shared), std::move(acceptor)));
}

}  // namespace spotter::emulator
