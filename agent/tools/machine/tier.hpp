// `spotter tier`: see agent/tier/tier.hpp. The guard and the trainer's shell run it; a person does
// not.
//
//   spotter tier copy ...                     prints the name of what it copied, or what is wrong
//   spotter tier fetch ... -- COMMAND WORD... becomes this command, once the newest is here
#pragma once

namespace spotter::command {

int tier(int argc, char** argv);

}  // namespace spotter::command
