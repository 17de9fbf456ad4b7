// `spotter publish`, a child of the agent's: writes its status, history and learning curve to S3,
// once. It is a process of its own, so that its memory is freed and the agent does not wait.
#pragma once

namespace spotter::command {

// Reads new lines of the curve from stdin. 0: all is written; else stderr says why not.
int publish(int argc, char** argv);

}  // namespace spotter::command
