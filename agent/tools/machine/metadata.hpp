// `spotter metadata refuse|release`: what the service does, with all of root's rights, before its
// agent starts and after it has ended (systemd/spotter.service).
#pragma once

namespace spotter::command {

// refuse: from now on the instance metadata service refuses the trainer's user, where job.yaml does
// not allow it, and where that is neither root nor the agent's own. release: no longer, unless a
// trainer runs. What cannot be done is a warning: the training goes on. Exit status 2: wrong use.
int metadata(int argc, char** argv);

}  // namespace spotter::command
