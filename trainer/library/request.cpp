#include "trainer/library/request.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "trainer/library/files.hpp"

namespace spotter::channel {

namespace fs = std::filesystem;
using checkpoint::system_failure;

Result<Request> Request::make(const fs::path& folder, const std::string& channel,
                              const Position& start) {
  Request request;
  const fs::path requests = folder / ".start";
  std::error_code unreadable;
  if (!fs::is_directory(requests, unreadable)) return request;
  const fs::path written = requests / ("." + channel + "." + std::to_string(::getpid()));
  const std::string text = std::to_string(start.epoch) + ":" + std::to_string(start.bytes) + "\n";
  const checkpoint::Descriptor file(
      ::open(written.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return system_failure("cannot make", written);
  const auto wrote = ::write(file.get(), text.data(), text.size());
  if (wrote != static_cast<ssize_t>(text.size())) return system_failure("cannot write", written);
  request.file_ = requests / channel;
  if (::rename(written.c_str(), request.file_.c_str()) != 0) {
    return system_failure("cannot rename", written);
  }
  return request;
}

bool Request::is_granted() const {
  return !was_made() || (::access(file_.c_str(), F_OK) != 0 && errno == ENOENT);
}

}  // namespace spotter::channel
