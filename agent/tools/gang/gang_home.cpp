#include "agent/tools/gang/gang_home.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "agent/gang/record.hpp"
#include "agent/io/descriptor.hpp"
#include "agent/io/files.hpp"
#include "agent/io/random.hpp"

namespace spotter::command {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t id_digits = 32;

Result<std::string> id_of(const fs::path& file) {
  const auto text = io::read_file(file, 256);
  if (!text && text.error() == std::errc::no_such_file_or_directory) return std::string();
  if (!text) return failure("cannot read " + file.string() + ": " + text.error().message());
  const auto line = text->substr(0, text->find('\n'));
  if (line.size() != id_digits) return failure(file.string() + " is no id of a gang; move it away");
  return line;
}

}  // namespace

// Of such a name; -1: it is none.
std::int64_t step_in(std::string_view name) {
  constexpr std::array<std::string_view, 4> prefixes = {"step-", "checkpoint-", "global_step",
                                                        "iter_"};
  for (const std::string_view prefix : prefixes) {
    if (!name.starts_with(prefix)) continue;
    const char* const end = name.data() + name.size();
    std::uint64_t step = 0;
    const auto read = std::from_chars(name.data() + prefix.size(), end, step);
    const bool whole = read.ec == std::errc{} && read.ptr == end;
    if (whole && step <= gang::most_steps) return static_cast<std::int64_t>(step);
  }
  return -1;
}

// Several members may come at once: one makes the name, whole or not at all, and all read it.
Result<std::string> gang_home(const std::string& home, const std::string& checkpoints) {
  const fs::path members = fs::path(home) / "members";
  for (const fs::path& folder : {members, fs::path(home) / "result", fs::path(home) / checkpoints})
    if (const auto made = io::make_directories(folder, 0755); !made)
      return failure("cannot make " + folder.string() + ": " + made.error().message());
  const fs::path file = members / ".gang";
  auto id = id_of(file);
  if (!id || !id->empty()) return id;
  const std::string fresh = io::random_hex(id_digits);
  const fs::path own = members / (".gang-" + fresh);
  if (const auto written = io::atomic_write(own, fresh + "\n", 0644); !written)
    return failure("cannot write " + own.string() + ": " + written.error().message());
  std::error_code ignored;
  fs::create_hard_link(own, file, ignored);
  fs::remove(own, ignored);
  id = id_of(file);
  if (id && id->empty())
    return failure("cannot make " + file.string() + ": this storage knows no hard links");
  return id;
}

std::int64_t newest_step(const std::string& folder) {
  std::int64_t newest = -1;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    newest = std::max(newest, step_in(it->path().filename().string()));
  }
  return newest;
}

std::optional<bool> result_is_there(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return false;
  return error ? std::nullopt : std::optional(true);
}

// Connecting a socket of UDP sends nothing: the kernel chooses the address. This network is one of
// documents (RFC 5737).
std::string own_address() {
  if (const char* given = std::getenv("SPOTTER_GANG_ADDRESS"); given != nullptr && *given != 0)
    return given;
  const io::Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(9);
  ::inet_pton(AF_INET, "192.0.2.1", &address.sin_addr);
  socklen_t size = sizeof address;
  const bool found =
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
  char text[INET_ADDRSTRLEN] = "127.0.0.1";
  if (found) ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

}  // namespace spotter::command
