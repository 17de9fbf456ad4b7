// `spotter gang`: the parent of torchrun on one machine of a gang. It keeps the gang's record in S3
// (agent/gang/participant.hpp), tells torchrun on which machines a round is (it asks over HTTP, see
// trainer/library/python/spotter/rendezvous.py), and the workers when to save and stop. It runs as
// the user whose trainer it is, with that user's rights at AWS. man spotter-gang has the options.
//
//   spotter gang --at s3://bucket/prefix/ --job NAME --size 4 --min 2 --home DIR -- COMMAND WORD...
//
// Exit status: 0: the gang's result is there. 75: this machine was asked to leave. 69: it is to be
// given back. Any other: torchrun's.
#pragma once

namespace spotter::command {

int gang(int argc, char** argv);

}  // namespace spotter::command
