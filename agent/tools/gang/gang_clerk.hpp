// Carries out what a Participant asks of S3, one request at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/aws/s3/client.hpp"
#include "agent/gang/participant.hpp"
#include "agent/io/asio.hpp"
#include "agent/io/kernel.hpp"

namespace spotter::command {

inline Time gang_now() { return Time(io::boot_time()); }

class GangClerk {
 public:
  // `say`: what is wrong with S3, for a person; once for each trouble, empty when it is over.
  GangClerk(asio::io_context& context, wire::S3Location where,
            std::function<void(const std::string&)> say);
  ~GangClerk();
  GangClerk(const GangClerk&) = delete;
  GangClerk& operator=(const GangClerk&) = delete;

  // `participant` gets the answer, later. REQUIRES: the one before was answered; it outlives this.
  void carry_out(gang::Ask ask, gang::Participant& participant);

 private:
  void turn();
  void give_up(gang::Participant& participant);
  void answer(const gang::Ask& ask, const Result<s3::Answer, s3::Failure>& answer,
              gang::Participant& participant);
  void trouble(const std::string& what);

  wire::S3Location where_;
  std::function<void(const std::string&)> say_;
  s3::Client client_;
  asio::posix::stream_descriptor readable_;
  asio::steady_timer timer_, deadline_;
  std::optional<s3::Client::CallId> call_;
  std::string body_;  // of the request under way
  std::string trouble_;
};

}  // namespace spotter::command
