// `spotter publish`, a child of the agent's: writes its status, its history and the learning curve
// to S3, once. A process of its own, so that the agent has no memory of it and nothing waits.
#pragma once

namespace spotter::command {

// New lines of the curve come on stdin. 0: all is written; else stderr says why not.
int publish(int argc, char** argv);

}  // namespace spotter::command
