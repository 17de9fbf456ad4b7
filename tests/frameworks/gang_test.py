#!/usr/bin/python3
"""Gangs whose members have another distribution's PyTorch: the story of a gang, and what its ranks
and its rendezvous say when one goes.

    gang_test.py ROOT BINARIES

ROOT: a tree that scripts/frameworks makes; the agents and the emulator are those of BINARIES.
"""

import os
import pathlib
import shlex
import stat
import subprocess
import sys
import tempfile

import root as roots

# Of tests/e2e/stories/gang.py: those in which torch's own ways matter.
STORIES = ("one_leaves_one_is_killed_and_others_come", "a_kill_costs_no_more",
           "of_one_size_it_ends_with_the_bits", "a_network_that_breaks",
           "a_rank_that_hangs_is_named", "no_worker_outlives", "a_job_is_a_gang")
# Of tests/trainer.
UNITS = ("rendezvous_test.py", "ranks_test.py", "ends_test.py", "copies_test.py")


def main():
    root, binaries = (pathlib.Path(each).resolve() for each in sys.argv[1:])
    roots.skip_without(root)
    failed = []
    with tempfile.TemporaryDirectory(prefix="st-", dir="/var/tmp") as place:
        os.chmod(place, 0o755)
        python = pathlib.Path(place) / "python"
        # Python in the root: what the test has made is there at the same place.
        seen = {str(each)[1:]: each for each in (roots.REPOSITORY, pathlib.Path("/var/tmp"))}
        words = map(str, roots.within(root, seen, "/usr/bin/python3"))
        python.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        python.chmod(python.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        environment = {
            **os.environ, "SPOTTER_TEST_PYTHON": str(python), "SPOTTER_BIN": str(binaries),
            "SPOTTER_TEST_DIRECTORY": place, "TMPDIR": place,
            "SPOTTER_LIBRARY": str(binaries.parent / "lib/libspotter.so.1")}
        for unit in UNITS:
            command = [python, roots.REPOSITORY / "tests/trainer" / unit]
            if subprocess.run(command, env=environment, check=False).returncode:
                failed.append(unit)
        chosen = [word for story in STORIES for word in ("-k", story)]
        command = ["/usr/bin/python3", roots.REPOSITORY / "tests/e2e/stories/gang.py", *chosen]
        if subprocess.run(command, env=environment, check=False).returncode:
            failed.append("gang.py")
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
