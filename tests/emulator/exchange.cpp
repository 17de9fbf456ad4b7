#include "tests/emulator/exchange.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "tests/emulator/peer.hpp"
#include "tests/emulator/precompiled.hpp"
#include "tests/emulator/visitor.hpp"

namespace spotter::emulator {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using boost::system::error_code;

namespace {

constexpr std::size_t whole_body_limit = 1024 * 1024;
constexpr std::uint32_t header_limit = 32 * 1024;
constexpr std::size_t body_piece = 256 * 1024;
constexpr std::chrono::seconds silence_limit{60};
constexpr std::chrono::milliseconds stream_pause{250};

using Parser = http::request_parser<http::buffer_body>;

HttpRequest request_of(const Parser& parser) {
  const auto& message = parser.get();
  HttpRequest request{std::string(message.method_string()), std::string(message.target()), {}, {}};
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers.emplace_back(std::move(name), std::string(field.value()));
  }
  return request;
}

// Feeds the parser what came until the head is complete. Beast's own asynchronous operations would
// do the same; instantiated over TLS they take a minute and a half to compile.
asio::awaitable<bool> read_head(Wire& wire, std::string& unread, Parser& parser) {
  parser.body_limit(boost::none);
  parser.header_limit(header_limit);
  while (!parser.is_header_done()) {
    error_code failed;
    const std::size_t used = unread.empty() ? 0 : parser.put(asio::buffer(unread), failed);
    if (failed && failed != http::error::need_more) co_return false;
    unread.erase(0, used);
    if (used > 0) continue;
    const std::string more = co_await wire.read();
    if (more.empty()) co_return false;
    unread += more;
  }
  co_return true;
}

// Gives the body to `take` piece by piece; false when it breaks off or `take` says so.
template <class Take>
asio::awaitable<bool> read_body(Wire& wire, std::string& unread, Parser& parser, Take& take) {
  if (parser.is_done()) co_return true;
  std::string piece(body_piece, '\0');
  auto& body = parser.get().body();
  while (!parser.is_done()) {
    if (unread.empty()) {
      wire.expires_after(silence_limit);
      unread = co_await wire.read();
      if (unread.empty()) co_return false;
    }
    body.data = piece.data();
    body.size = piece.size();
    body.more = true;
    error_code failed;
    const std::size_t used = parser.put(asio::buffer(unread), failed);
    if (failed && failed != http::error::need_buffer && failed != http::error::need_more)
      co_return false;
    unread.erase(0, used);
    const std::size_t got = piece.size() - body.size;
    if (got > 0 && !take(std::string_view(piece.data(), got))) co_return false;
    if (used > 0 || got > 0 || parser.is_done()) continue;
    const std::string more = co_await wire.read();  // half a chunk's header
    if (more.empty()) co_return false;
    unread += more;
  }
  co_return true;
}

bool expects_continue(const HttpRequest& request) {
  return beast::iequals(request.header("expect"), "100-continue");
}

asio::awaitable<bool> send_continue(Wire& wire) {
  const std::string line = "HTTP/1.1 100 Continue\r\n\r\n";
  co_return co_await wire.write(line);
}

asio::awaitable<HttpResponse> call(std::shared_ptr<Shared> shared, const HttpRequest& request) {
  HttpResponse response;
  response.drop = true;
  const HttpHandler handler = shared->whole;  // the answer may bring this listener down
  if (shared->open && handler) response = handler(request);
  co_return response;
}

asio::awaitable<HttpResponse> answer_whole(std::shared_ptr<Shared> shared, Wire& wire,
                                           std::string& unread, Parser& parser,
                                           HttpRequest& request) {
  HttpResponse broken;
  broken.drop = true;
  if (expects_continue(request) && !co_await send_continue(wire)) co_return broken;
  auto take = [&](std::string_view bytes) {
    request.body += bytes;
    return request.body.size() <= whole_body_limit;
  };
  if (!co_await read_body(wire, unread, parser, take)) co_return broken;
  auto answer = call(shared, request);
  auto elsewhere = asio::co_spawn(shared->home, std::move(answer), asio::use_awaitable);
  co_return co_await std::move(elsewhere);
}

// A refused body that its client holds back until "100 Continue" will not come: the connection
// ends, as S3's does. Otherwise it is read to its end, so that the client sees the answer.
asio::awaitable<HttpResponse> answer_stream(HttpStream& stream, Wire& wire, std::string& unread,
                                            Parser& parser, const HttpRequest& request) {
  HttpResponse broken;
  broken.drop = true;
  const bool held_back = expects_continue(request) && unread.empty();
  if (held_back && !stream.wants_body()) {
    HttpResponse response = stream.finish();
    response.close = true;
    co_return response;
  }
  if (held_back && !co_await send_continue(wire)) co_return broken;
  auto take = [&](std::string_view bytes) {
    if (stream.wants_body()) stream.take(bytes);
    return true;
  };
  if (!co_await read_body(wire, unread, parser, take)) co_return broken;
  co_return stream.finish();
}

std::string head_of(const HttpResponse& response, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + ' ';
  head += http::obsolete_reason(static_cast<http::status>(response.status));
  head += "\r\n";
  for (const auto& [name, value] : response.headers)
    head.append(name).append(": ").append(value).append("\r\n");
  if (!response.content_type.empty())
    head.append("Content-Type: ").append(response.content_type).append("\r\n");
  const std::uint64_t length = response.announced ? *response.announced
                               : response.file    ? response.file->size
                                                  : response.body.size();
  if (response.status != 204 && response.status != 304 && !response.more)
    head.append("Content-Length: ").append(std::to_string(length)).append("\r\n");
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

asio::awaitable<void> wait(Wire& wire, std::chrono::nanoseconds delay) {
  wire.expires_never();
  asio::steady_timer timer(wire.executor(), delay);
  co_await timer.async_wait(as_tuple);
}

asio::awaitable<bool> send_spoiled(Wire& wire, const FileBody& body, std::uint64_t offset) {
  std::string byte(1, '\0');
  if (::pread(*body.descriptor, byte.data(), 1, static_cast<off_t>(offset)) != 1) co_return false;
  byte[0] = static_cast<char>(byte[0] ^ 1);
  co_return co_await wire.write(byte);
}

asio::awaitable<bool> send_file(Wire& wire, const FileBody& body) {
  const std::uint64_t end = std::min(body.size, body.reset_after.value_or(body.size));
  for (std::uint64_t sent = 0; sent < end;) {
    std::uint64_t next = std::min(end - sent, body.piece);
    if (body.spoiled && sent < *body.spoiled) next = std::min(next, *body.spoiled - sent);
    const bool spoil = body.spoiled && sent == *body.spoiled;
    if (spoil) next = 1;
    if (body.pace)
      if (const auto delay = body.pace(next); delay.count() > 0) co_await wait(wire, delay);
    wire.expires_after(silence_limit);
    const bool went = spoil ? co_await send_spoiled(wire, body, body.offset + sent)
                            : co_await wire.send_file(*body.descriptor, body.offset + sent, next);
    if (!went) co_return false;
    sent += next;
  }
  if (body.reset_after && *body.reset_after < body.size) wire.reset();
  co_return end == body.size;
}

asio::awaitable<bool> send(Wire& wire, const HttpResponse& response, bool keep_alive) {
  wire.expires_after(silence_limit);
  std::string bytes = head_of(response, keep_alive);
  if (!response.announced && !response.file) bytes += response.body;
  if (!response.file || response.announced) co_return co_await wire.write(bytes);
  if (!co_await wire.write_more(bytes)) co_return false;
  co_return co_await send_file(wire, *response.file);
}

asio::awaitable<std::string> ask(std::shared_ptr<Shared> shared,
                                 std::function<std::string()> more) {
  co_return shared->open ? more() : std::string();
}

// A stream counts as answered at once, since nobody waits for its end.
asio::awaitable<void> send_stream(std::shared_ptr<Shared> shared, Wire& wire,
                                  const HttpResponse& response) {
  --shared->busy;
  std::string bytes = head_of(response, false);
  for (bool goes = true; goes && shared->open;) {
    wire.expires_after(silence_limit);
    if (!bytes.empty()) goes = co_await wire.write(bytes);
    if (!goes) break;
    co_await wait(wire, stream_pause);
    if (!shared->open) break;
    auto asking = ask(shared, response.more);
    auto elsewhere = asio::co_spawn(shared->home, std::move(asking), asio::use_awaitable);
    bytes = co_await std::move(elsewhere);
  }
  ++shared->busy;
}

// The answer to whoever is not answered, whichever service he asks.
class Forbidden : public HttpStream {
 public:
  explicit Forbidden(std::string why) : why_(std::move(why)) {}
  bool wants_body() const override { return false; }
  void take(std::string_view) override {}
  HttpResponse finish() override {
    return {403, nlohmann::json({{"error", why_}}).dump(-1, ' ', false, replaced) + "\n",
            "application/json"};
  }

 private:
  static constexpr auto replaced = nlohmann::json::error_handler_t::replace;
  std::string why_;
};

bool is_of_owner(Wire& wire) {
  if (wire.is_of_owner) return *wire.is_of_owner;
  error_code failed;
  const auto peer = wire.socket().remote_endpoint(failed);
  const auto local = failed ? peer : wire.socket().local_endpoint(failed);
  const auto user = failed ? std::nullopt : user_of(peer, local);
  return *(wire.is_of_owner = user && is_owner(*user));
}

std::unique_ptr<HttpStream> stream_for(const Shared& shared, Wire& wire,
                                       const HttpRequest& request) {
  if (auto why = refusal_of_visitor(request, wire.local_address()))
    return std::make_unique<Forbidden>(std::move(*why));
  if (shared.owners_only && shared.owners_only(request) && !is_of_owner(wire))
    return std::make_unique<Forbidden>(
        "only the user who has started the emulator may ask for that, on its machine");
  return shared.streams ? shared.streams(request) : nullptr;
}

// One request whose head has come; false when the connection is over.
asio::awaitable<bool> answer(std::shared_ptr<Shared> shared, Wire& wire, std::string& unread,
                             Parser& parser) {
  HttpRequest request = request_of(parser);
  const auto stream = stream_for(*shared, wire, request);
  HttpResponse response;
  if (stream)
    response = co_await answer_stream(*stream, wire, unread, parser, request);
  else
    response = co_await answer_whole(shared, wire, unread, parser, request);
  if (response.delay.count() > 0) co_await wait(wire, response.delay);
  if (response.drop || !shared->open) co_return false;
  if (response.more) {
    auto sending = send_stream(shared, wire, response);
    co_await std::move(sending);
    co_return false;
  }
  const bool keep_alive = parser.get().keep_alive() && !response.close;
  co_return co_await send(wire, response, keep_alive) && keep_alive;
}

}  // namespace

asio::awaitable<void> exchange(std::shared_ptr<Shared> shared, std::shared_ptr<Wire> wire) {
  std::string unread;
  while (shared->open) {
    wire->expires_after(silence_limit);
    Parser parser;
    if (!co_await read_head(*wire, unread, parser) || !shared->open) break;
    ++shared->busy;
    const bool goes_on = co_await answer(shared, *wire, unread, parser);
    --shared->busy;
    if (!goes_on) break;
  }
}

}  // namespace spotter::emulator
