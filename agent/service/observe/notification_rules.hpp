// Which events are worth a message to a person (`notify:` of job.yaml): the interruption notice,
// the resumed training, the safe result, the need for action. An agent sends each once; a restarted
// one may repeat what still holds. No I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/decide/event.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"

namespace spotter {

struct Notification {
  std::string_view event;  // notice, resumed, finished, failed
  std::string words;       // a sentence, without the job's name
};

class NotificationRules {
 public:
  // To be called after each step of the core; `before`: the index of the stage before it.
  std::optional<Notification> after(const decide::Event& event, std::size_t before,
                                    const decide::State& state, const decide::Policy& policy);

 private:
  std::string blocked_;   // the reported need for action
  bool marking_ = false;  // this agent brought the job to its end
  bool over_ = false;     // the end was reported
};

// `machine` ends at `deadline`. Says the time left to the second.
std::string notice_words(const std::string& machine, Time deadline, Time now);

}  // namespace spotter
