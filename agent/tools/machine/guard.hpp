// `spotter guard`: see agent/guard/guard.hpp. The supervisor runs it; a person does not.
#pragma once

namespace spotter::command {

int guard(int argc, char** argv);

}  // namespace spotter::command
