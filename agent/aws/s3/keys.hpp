// Credentials without Asio: what CredentialSearch asks (a container's endpoint, the metadata
// service, STS, a program) is asked in the client's own loop, mostly for milliseconds, once in some
// hours.
#pragma once

#include <sys/types.h>

#include <array>

#include "agent/aws/settings/credentials.hpp"
#include "agent/curl/loop.hpp"

namespace spotter::s3 {

class Keys final : public curl::Turned, public curl::Sink {
 public:
  // `advice` ends the words of a failure where no source has any.
  Keys(act::Environment environment, act::WallClock clock, curl::Loop& loop, const char* advice)
      : environment_(std::move(environment)),
        clock_(std::move(clock)),
        loop_(loop),
        advice_(advice) {}
  ~Keys() override;
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

  // Cached; asked for again 5 minutes before they expire, and used until then (a failure is none
  // while they are valid). Their end is by this machine's clock, as wrong as that may be. Nothing
  // while they are awaited.
  std::optional<Result<wire::Credentials>> get();
  bool are_awaited() const { return asking_ && !are_usable(); }
  bool is_asking() const { return asking_; }  // perhaps while those that are there are valid
  // Nobody needs them just now: nor turns the loop.
  void stop();

  // The service called them expired.
  void expire() {
    cached_.reset();
    looked_ = false;
  }

 private:
  enum class Step : std::uint8_t { Question, Token, Role, KeysOfRole };

  void go_on();
  void ask(Step step, act::Question question);
  void run(const std::vector<std::string>& words);
  void take_keys(wire::Credentials keys);
  void answered(const act::Reply& reply);
  void of_role(act::Reply reply);
  void finished(CURLcode code) override;
  void ready() override;
  bool take_header(std::string_view line) override;
  bool take_body(std::string_view bytes) override;
  bool are_valid_for(std::chrono::seconds margin) const;
  bool are_usable() const { return are_valid_for(std::chrono::seconds{0}); }
  void leave_program();

  act::Environment environment_;
  act::WallClock clock_;
  curl::Loop& loop_;
  const char* advice_;
  std::optional<wire::Credentials> cached_;
  std::chrono::seconds ahead_{};  // the clock of whoever answered, where ours is wrong
  wire::WallTime not_before_{};   // the next search, as long as the keys are valid
  Error failed_;                  // at the last look
  bool looked_ = false;           // and nobody has asked for the outcome since
  bool asking_ = false;
  std::optional<act::CredentialSearch> search_;
  Step step_ = Step::Question;
  act::Question question_;
  act::Reply reply_;
  std::optional<curl::Easy> easy_;
  std::string base_, token_;              // of the metadata service
  std::array<int, 3> files_{-1, -1, -1};  // a program's output, errors, and end
  pid_t program_ = -1;
};

// Waits for them, seconds at most: for whoever asks once.
Result<wire::Credentials> credentials_of(const act::Environment& environment);

}  // namespace spotter::s3
