// Where log lines go: under systemd to the journal with their priority, elsewhere to stderr with
// the time.
#pragma once

namespace spotter::io {

// Once, before the first line.
void set_up_log();

}  // namespace spotter::io
