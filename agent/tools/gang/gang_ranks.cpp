#include "agent/tools/gang/gang_ranks.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <optional>

#include "agent/io/descriptor.hpp"
#include "agent/io/files.hpp"

namespace spotter::command {
namespace {

constexpr std::size_t most_ranks_here = 256;
constexpr std::size_t longest_stack = 65'536;
// As the library has it: one that has no other meaning.
int stack_signal() { return SIGRTMIN + 7; }

struct SaidStep {
  long pid = 0;
  std::int64_t step = -1;
};

// "17 4200"
std::optional<SaidStep> said_step(const std::string& file) {
  const auto text = io::read_file(file, 256);
  if (!text) return std::nullopt;
  SaidStep said;
  const char* const end = text->data() + text->size();
  const auto pid = std::from_chars(text->data(), end, said.pid);
  if (pid.ec != std::errc{} || pid.ptr == end || said.pid < 1) return std::nullopt;
  std::from_chars(pid.ptr + 1, end, said.step);
  return said;
}

// The newest stack: each is added to the file.
std::string end_of(const std::string& path) {
  const io::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  std::string text(longest_stack, '\0');
  const off_t from = std::max<off_t>(status.st_size - static_cast<off_t>(text.size()), 0);
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return text;
}

}  // namespace

std::vector<gang::RankSeen> GangRanks::look() const {
  std::vector<gang::RankSeen> ranks;
  for (std::size_t rank = 0; rank < most_ranks_here && !folder().empty(); ++rank) {
    const std::string file = folder() + "/" + std::to_string(rank);
    const auto said = said_step(file + ".step");
    if (!said) break;
    ranks.push_back({rank, said->step, end_of(file + ".stack")});
  }
  return ranks;
}

void GangRanks::ask(const std::function<bool(pid_t)>& is_ours) const {
  for (std::size_t rank = 0; rank < most_ranks_here && !folder().empty(); ++rank) {
    const auto said = said_step(folder() + "/" + std::to_string(rank) + ".step");
    if (!said) break;
    const auto pid = static_cast<pid_t>(said->pid);
    if (is_ours(pid)) ::kill(pid, stack_signal());
  }
}

}  // namespace spotter::command
