#include "agent/aws/s3/keys.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef SPOTTER_CLIENT
#include <sys/syscall.h>
#endif

#include <cerrno>
#include <cstring>

#include "agent/base/clock_text.hpp"

extern char** environ;  // POSIX has no header that must declare it

namespace spotter::s3 {
namespace {

using act::Question;
using act::Reply;

constexpr std::chrono::minutes refresh_before_expiry{5};
constexpr std::size_t longest_answer = 64U << 10;
constexpr const char* roles_path = "/latest/meta-data/iam/security-credentials/";
constexpr std::chrono::seconds between_searches{60};  // after one without success
// Whole or not at all. That it cannot be written is no failure: these keys are good, and the next
// search asks again.
void write_token(const act::RefreshedToken& token) {
  const std::string made = token.path + "." + std::to_string(::getpid());
  const int file = ::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  const auto size = static_cast<ssize_t>(token.text.size());
  const bool written = ::write(file, token.text.data(), token.text.size()) == size;
  if (::close(file) != 0 || !written || ::rename(made.c_str(), token.path.c_str()) != 0)
    ::unlink(made.c_str());
}

#ifndef SPOTTER_CLIENT

// Readable at that process's end; -1: the kernel is too old.
int end_of(pid_t process) { return static_cast<int>(::syscall(SYS_pidfd_open, process, 0)); }

// By timeout(1), so that nothing here has to watch the time. The words of a program follow.
std::vector<std::string> limited(const std::string& seconds) {
  return {"timeout", "--kill-after=1", seconds};
}

#else

// macOS has no such files, so the loop asks; nor has it timeout(1), but perl(1), which does the
// same.
int end_of(pid_t /*process*/) { return -1; }

std::vector<std::string> limited(const std::string& seconds) {
  return {"perl", "-e",
          "my $limit = shift; setpgrp; my $child = fork // exit 125;"
          "unless ($child) { exec { $ARGV[0] } @ARGV or exit 127 }"
          "$SIG{ALRM} = sub { $SIG{TERM} = 'IGNORE'; kill TERM => -$$; sleep 1;"
          "  kill KILL => $child; exit 124 };"
          "alarm $limit; waitpid $child, 0; exit($? & 127 ? 128 + ($? & 127) : $? >> 8)",
          seconds};
}

#endif

constexpr int out_of_time = 124;  // timeout(1)'s status

}  // namespace

std::optional<Result<wire::Credentials>> Keys::get() {
  const bool rests = are_usable() && clock_() < not_before_;
  if (!asking_ && !std::exchange(looked_, false) && !rests &&
      !are_valid_for(refresh_before_expiry)) {
    step_ = Step::Question;
    ahead_ = {};
    search_.emplace(environment_, clock_());
    go_on();
    looked_ = false;
  }
  if (are_usable()) return *cached_;
  if (asking_) return std::nullopt;
  return tl::unexpected(failed_);
}

bool Keys::are_valid_for(std::chrono::seconds margin) const {
  if (!cached_) return false;
  return !cached_->expiration || *cached_->expiration - clock_() > margin;
}

// A program goes on: begun again for each call that gives up, a slow one would never end.
void Keys::stop() {
  if (!asking_ || program_ >= 0) return;
  asking_ = false;
  loop_.remove(*easy_);
}

Keys::~Keys() {
  stop();
  if (program_ < 0) return;
  leave_program();
  ::kill(-program_, SIGKILL);  // it is in a group of its own
  ::kill(program_, SIGKILL);
  while (::waitpid(program_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void Keys::leave_program() {
  for (int& file : files_) {
    if (file < 0) continue;
    loop_.forget(file);
    ::close(std::exchange(file, -1));
  }
}

// Until a question is under way, or nothing is left to ask.
void Keys::go_on() {
  while (auto question = search_->next()) {
    if (question->kind == Question::Kind::Program)
      run(question->words);
    else if (question->kind == Question::Kind::Http)
      ask(Step::Question, std::move(*question));
    else
      of_role({});
    if (asking_) return;
    search_->take(reply_);
  }
  auto result = search_->result();
  if (search_->refreshed()) write_token(*search_->refreshed());
  search_.reset();
  looked_ = true;
  if (result && *result)
    take_keys(std::move(**result));
  else
    failed_ = result ? Error{std::string(act::no_credentials) + advice_} : result.error();
  if (!result || !*result) not_before_ = clock_() + between_searches;
}

// Their end is by the clock of whoever gives them: ours may be hours off.
void Keys::take_keys(wire::Credentials keys) {
  if (keys.expiration) *keys.expiration -= ahead_;
  cached_ = std::move(keys);
  if (are_usable()) return;
  failed_ = Error{"the keys that were given have expired at " +
                  wire::to_rfc3339(*cached_->expiration) + ": is this machine's clock right?"};
}

void Keys::answered(const Reply& reply) {
  search_->take(reply);
  go_on();
}

// The metadata service, IMDSv2, with its answer to the step before. That nothing answers there only
// means that this is no instance; an answer of another kind than a role, or none, is trouble.
void Keys::of_role(Reply reply) {
  const Step step = std::exchange(step_, Step::Question);
  if (step == Step::Question) {
    base_ = environment_.get("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    if (base_.empty()) base_ = act::own_profile(environment_)["ec2_metadata_service_endpoint"];
    if (base_.empty()) base_ = "http://169.254.169.254";
    while (base_.ends_with('/')) base_.pop_back();
    return ask(Step::Token, {.method = "PUT",
                             .url = base_ + "/latest/api/token",
                             .headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}},
                             .on_this_host = true});
  }
  const bool silent = step == Step::Token && !reply.trouble.empty();
  if (silent || reply.status == 404) return answered({});
  if (reply.trouble.empty() && reply.status != 200)
    reply.trouble = "instance metadata answers HTTP " + std::to_string(reply.status);
  else if (step == Step::Token && !wire::can_be_token(reply.body))
    reply.trouble = "instance metadata gives no session token";
  if (!reply.trouble.empty()) return answered(reply);
  if (step == Step::KeysOfRole) {
    auto keys = wire::parse_credentials(reply.body);
    if (keys)
      reply.role = std::move(*keys);
    else
      reply.trouble = keys.error().message;
    return answered(reply);
  }
  const auto names = wire::parse_lines(reply.body);
  if (step == Step::Role && names.empty()) return answered({});
  const bool first = step == Step::Token;
  if (first) token_ = reply.body;
  ask(first ? Step::Role : Step::KeysOfRole,
      {.url = base_ + roles_path + (first ? "" : names.front()),
       .headers = {{"X-aws-ec2-metadata-token", token_}},
       .on_this_host = true});
}

// Asks over HTTP. A service of this machine or its host gets no proxy, and shorter limits.
void Keys::ask(Step step, Question question) {
  using std::chrono::seconds;
  step_ = step;
  question_ = std::move(question);
  reply_ = {};
  const bool here = question_.on_this_host;
  easy_.emplace(curl::TrustStore::of_this_machine(),
                curl::Limits{.connect = seconds{here ? 1 : 3}, .whole = seconds{here ? 5 : 10}});
  if (here) easy_->ignore_proxy();
  easy_->hand_to(*this);
  easy_->set_url(question_.url);
  easy_->set_headers(question_.headers);
  easy_->set_method(question_.method, question_.body);
  asking_ = loop_.add(*easy_, *this) == CURLM_OK;
  if (!asking_) reply_.trouble = "libcurl has no room for it";
}

bool Keys::take_header(std::string_view line) {
  const auto header = curl::parse_header(line);
  if (!header || header->first != "date") return true;
  if (const auto time = wire::parse_http_date(header->second)) reply_.date = *time;
  return true;
}

bool Keys::take_body(std::string_view bytes) {
  if (reply_.body.size() + bytes.size() > longest_answer) return false;
  reply_.body += bytes;
  return true;
}

void Keys::finished(CURLcode code) {
  loop_.remove(*easy_);
  asking_ = false;
  if (code != CURLE_OK) reply_.trouble = easy_->explain(code);
  reply_.status = easy_->status();
  if (reply_.date && std::chrono::abs(*reply_.date - clock_()) > act::tolerated_skew)
    ahead_ = *reply_.date - clock_();
  const Reply reply = std::exchange(reply_, {});
  if (step_ == Step::Question) return answered(reply);
  of_role(reply);
}

void Keys::run(const std::vector<std::string>& words) {
  reply_ = {};
  std::array<int, 2> output{-1, -1}, errors{-1, -1};  // to read, and to write
  int failed = curl::open_pipe(output) && curl::open_pipe(errors) ? 0 : errno;
  std::vector<std::string> line = limited(std::to_string(act::longest_program.count()));
  line.insert(line.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (auto& word : line) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output[1], 1);
  posix_spawn_file_actions_adddup2(&files, errors[1], 2);
  if (failed == 0)
    failed = ::posix_spawnp(&program_, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  for (const int written : {output[1], errors[1]}) ::close(written);
  if (failed != 0) {
    reply_.trouble = "it cannot be started: " + std::string(std::strerror(failed));
    for (const int read : {output[0], errors[0]}) ::close(read);
    program_ = -1;
    return;
  }
  // Its end counts, and not that of its output, which a process that it left may hold.
  files_ = {output[0], errors[0], end_of(program_)};
  for (const int file : files_) {
    if (file < 0) continue;
    ::fcntl(file, F_SETFL, O_NONBLOCK);
    loop_.watch(file, false, *this);
  }
  asking_ = true;
}

void Keys::ready() {
  const std::array<std::string*, 2> into{&reply_.body, &reply_.errors};
  for (std::size_t i = 0; i < into.size(); ++i) {
    while (files_[i] >= 0) {
      std::array<char, 4096> bytes{};
      const auto got = ::read(files_[i], bytes.data(), bytes.size());
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) break;
      if (got > 0 && into[i]->size() < longest_answer)
        into[i]->append(bytes.data(), static_cast<std::size_t>(got));
      if (got > 0) continue;
      loop_.forget(files_[i]);
      ::close(std::exchange(files_[i], -1));
    }
  }
  const bool silent = files_[0] < 0 && files_[1] < 0;
  const int how = silent && files_[2] < 0 ? 0 : WNOHANG;  // an old kernel has no pidfd
  int status = 0;
  if (program_ < 0 || ::waitpid(program_, &status, how) != program_) return;
  leave_program();
  program_ = -1;
  asking_ = false;
  if (WIFSIGNALED(status)) reply_.trouble = "it was ended by a signal";
  reply_.status = WEXITSTATUS(status);
  if (WIFEXITED(status) && reply_.status == out_of_time)
    reply_.trouble = "it did not end within a minute";
  answered(std::exchange(reply_, {}));
}

Result<wire::Credentials> credentials_of(const act::Environment& environment) {
  curl::Loop loop(1);
  Keys keys(environment, act::system_time, loop, "");
  for (;;) {
    if (auto got = keys.get()) return *std::move(got);
    loop.turn(std::chrono::milliseconds(100));
  }
}

}  // namespace spotter::s3
