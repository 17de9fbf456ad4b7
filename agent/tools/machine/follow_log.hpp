// `spotter follow-log`: see agent/follow/follower.hpp. The supervisor runs it; a person does not.
#pragma once

namespace spotter::command {

int follow_log(int argc, char** argv);

}  // namespace spotter::command
