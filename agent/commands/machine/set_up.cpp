// `spotter set-up`: what job.yaml's `setup` says, before the trainer, as its user, in its unit.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "agent/aws/formats/sigv4.hpp"
#include "agent/base/result.hpp"
#include "agent/commands/machine/machine.hpp"
#include "agent/commands/machine/set_up_script.hpp"
#include "agent/config/job.hpp"
#include "agent/io/child.hpp"
#include "agent/io/files.hpp"
#include "agent/io/log.hpp"

namespace spotter::command {
namespace {

constexpr int deepest = 3;  // requirements that name others

// A larger one, such as a wheel, by its size and time.
std::string content_of(const fs::path& path) {
  const auto file = io::read_text(path, config::job_size_limit);
  if (file) return *file;
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return {};
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  return std::to_string(size) + " " + std::to_string(time);
}

// Adds the files that a text names, as `pip install -r requirements.txt` does, and what those name,
// from their own folder; where it names a folder, the commit that is checked out.
void add_named(std::string text, const fs::path& in, int depth, std::string& content) {
  for (char& letter : text)
    if (std::string_view("\"';&|()<>=").find(letter) != std::string_view::npos) letter = ' ';
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    for (const char* before : {"-r", "-c"})
      if (word.starts_with(before) && word.size() > 2) word.erase(0, 2);
    std::error_code error;
    const fs::path path = in / word;
    if (fs::is_directory(path, error)) {
      content += word + "\n" + content_of(".git/HEAD");
    } else if (fs::is_regular_file(path, error)) {
      const std::string inner = content_of(path);
      content += word + "\n" + inner;
      if (depth < deepest && word.ends_with(".txt"))
        add_named(inner, path.parent_path(), depth + 1, content);
    }
  }
}

// Read by uv, poetry, conda and pip although no command names them.
constexpr const char* projects =
    "pyproject.toml uv.lock poetry.lock environment.yml setup.py setup.cfg";

// The image: its release, kind of processor, and the Python that is above all others.
std::string image() {
  utsname machine{};
  ::uname(&machine);
  std::string text = content_of("/etc/os-release") + machine.machine;
  std::istringstream folders(std::getenv("PATH") != nullptr ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::error_code error;
    const fs::path python = fs::canonical(fs::path(folder) / "python3", error);
    if (!error) return text + folder + python.string();
  }
  return text;
}

}  // namespace

int set_up(int argc, char** argv) {
  const std::vector<std::string> all(argv + 1, argv + argc);
  const auto end = std::find(all.begin(), all.end(), "--");
  if (all.empty() || end == all.begin() || end == all.end() || end + 1 == all.end())
    return io::complain("set-up", "HOME COMMAND... -- WORD...", wrong_input);
  const std::string& home = all.front();
  const std::vector<std::string> commands(all.begin() + 1, end);
  std::string content = home + "\n" + image();  // its scripts have the path in them
  add_named(projects, {}, deepest, content);
  for (const std::string& each : commands) {
    content += "\n" + each + "\n";
    add_named(each, {}, 0, content);
  }
  const fs::path at =
      fs::path(home) / config::setup_folder / wire::sha256_hex(content).substr(0, 16);
  std::vector<std::string> words{
      "sh", "-c", set_up_script, "spotter-setup", at.string(), std::to_string(commands.size())};
  words.insert(words.end(), commands.begin(), commands.end());
  words.insert(words.end(), end + 1, all.end());
  std::fflush(nullptr);
  io::Program(words).execute_from_path();
  return io::complain("set-up", std::string("cannot run sh: ") + std::strerror(errno),
                      setup_failed);
}

}  // namespace spotter::command
