// Exit statuses of commands, other than 0 and 1.
#pragma once

namespace spotter {

inline constexpr int wrong_input = 2;  // the arguments or job.yaml are wrong; nothing was done

}  // namespace spotter
