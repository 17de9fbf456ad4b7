#include "agent/host/verb_request.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "agent/supervise/client.hpp"
#include "agent/supervise/run_directory.hpp"

namespace spotter::command {
namespace {

using supervise::Descriptor;

// The next word; nothing: the bytes end before it does.
bool take(std::string_view& bytes, std::string& word) {
  const auto end = bytes.find('\0');
  if (end == bytes.npos) return false;
  word = bytes.substr(0, end);
  bytes.remove_prefix(end + 1);
  return true;
}

bool take_number(std::string_view& bytes, std::size_t& number) {
  std::string word;
  if (!take(bytes, word)) return false;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

bool take_words(std::string_view& bytes, std::vector<std::string>& words) {
  std::size_t count = 0;
  if (!take_number(bytes, count) || count > bytes.size()) return false;
  words.resize(count);
  for (std::string& word : words)
    if (!take(bytes, word)) return false;
  return true;
}

void add(std::string& bytes, const std::string& word) { bytes.append(word).push_back('\0'); }

void add(std::string& bytes, const std::vector<std::string>& words) {
  add(bytes, std::to_string(words.size()));
  for (const auto& word : words) add(bytes, word);
}

// Our end is that of all that we have started: tools die with us, and systemd sees to the rest.
void end_with(pid_t asker, std::string answer) {
  const auto process = supervise::open_pidfd(asker);
  if (!process) _exit(1);
  std::thread([file = *process, answer = std::move(answer)] {
    pollfd ended{file, POLLIN, 0};
    while (poll(&ended, 1, -1) <= 0) continue;
    unlink(answer.c_str());
    _exit(1);
  }).detach();
}

}  // namespace

std::string to_bytes(const VerbRequest& request) {
  std::string bytes;
  add(bytes, std::to_string(request.asker));
  add(bytes, request.answer);
  add(bytes, request.environment);
  return bytes + request.json;
}

Result<VerbRequest> parse_verb_request(std::string_view bytes) {
  VerbRequest request;
  std::size_t asker = 0;
  const bool whole = take_number(bytes, asker) && take(bytes, request.answer) &&
                     take_words(bytes, request.environment);
  if (!whole) return failure("the request for a verb is not whole");
  request.asker = static_cast<pid_t>(asker);
  request.json = bytes;
  return request;
}

std::vector<std::string> environment_of_this_process() {
  std::vector<std::string> variables;
  for (char** entry = ::environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

Result<std::string> take_verb_request(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  unlink(file.c_str());
  auto request = parse_verb_request(bytes);
  if (!request) return tl::unexpected(request.error());
  end_with(request->asker, request->answer);
  const Descriptor answer(
      open(request->answer.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW));
  if (!answer || dup2(answer.get(), STDOUT_FILENO) < 0)
    return failure("cannot answer in " + request->answer + ": " + std::strerror(errno));
  clearenv();
  for (const auto& entry : request->environment) {
    const auto equals = entry.find('=');
    if (equals != entry.npos)
      setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  return std::move(request->json);
}

}  // namespace spotter::command
