// Decides which events are worth a message to a person (`notify:` of job.yaml): the interruption
// notice, the resumed training, the safe result, the need for action, a deadline in danger. An
// agent sends each once; a restarted one may repeat what still holds. No I/O.
#pragma once

#include "agent/decide/event.hpp"
#include "agent/decide/policy.hpp"
#include "agent/decide/state.hpp"
#include "agent/launch/deadline.hpp"

namespace spotter {

struct Notification {
  std::string_view event;  // notice, resumed, finished, failed, deadline
  std::string words;       // a sentence, without the job's name
};

class NotificationRules {
 public:
  // To be called after each step of the core; `before`: the index of the stage before it.
  std::optional<Notification> after(const decide::Event& event, std::size_t before,
                                    const decide::State& state, const decide::Policy& policy);
  // That the deadline, or not both it and the budget, can be kept any more.
  std::optional<Notification> of_deadline(const launch::OwnOutlook& outlook);

 private:
  std::string blocked_;   // the reported need for action
  bool marking_ = false;  // this agent brought the job to its end
  bool over_ = false;     // the end was reported
  launch::Outlook::Trouble trouble_ = launch::Outlook::Trouble::None;  // the reported one
};

// `machine` ends at `deadline`. Says the time left to the second.
std::string notice_words(const std::string& machine, Time deadline, Time now);

}  // namespace spotter
