// What a command's exit status says, where it is neither 0 nor 1.
#pragma once

namespace spotter {

inline constexpr int wrong_input = 2;  // the arguments or job.yaml are wrong; nothing was done

}  // namespace spotter
