// Exit statuses of commands, other than 0 and 1.
#pragma once

namespace spotter {

inline constexpr int wrong_input = 2;  // the arguments or job.yaml are wrong; nothing was done
inline constexpr int job_failed = 3;   // of commands that look at a job: it gave up
// EX_UNAVAILABLE: of `spotter gang`, to its agent: the machine is not fit for the gang.
inline constexpr int give_machine_back = 69;
// EX_CONFIG: of `spotter set-up`, to its agent: the trainer was not reached.
inline constexpr int setup_failed = 78;

}  // namespace spotter
