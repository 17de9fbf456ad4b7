// What a person wants to be told of, wherever they are (`notify:` of job.yaml): the interruption
// notice, that training goes on, that the result is safe, that the job needs them. Each once by one
// agent: one that is started again may repeat what still stands. No I/O.
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
  // After each step of the core; `before`: the index of the stage before it.
  std::optional<Notification> after(const decide::Event& event, std::size_t before,
                                    const decide::State& state, const decide::Policy& policy);

 private:
  std::string blocked_;   // what was told of that needs a person
  bool marking_ = false;  // it was here that the job came to its end
  bool over_ = false;     // that was told
};

// `machine` ends then. To the second: the minutes are few.
std::string notice_words(const std::string& machine, Time deadline, Time now);

}  // namespace spotter
