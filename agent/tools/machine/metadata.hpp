// `spotter metadata refuse|release`: systemd/spotter.service runs it, with all of root's rights,
// before its agent starts and after it has ended.
#pragma once

namespace spotter::command {

// refuse: makes the instance metadata service refuse the trainer's user, unless job.yaml allows it,
// or that user is root or the agent's own. release: ends that, unless a trainer runs. Failures are
// only logged as warnings: the training goes on. Exit status 2: wrong arguments.
int metadata(int argc, char** argv);

}  // namespace spotter::command
