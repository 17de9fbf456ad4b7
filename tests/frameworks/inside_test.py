#!/usr/bin/python3
"""spotter's callbacks and savers within the real frameworks.

    inside_test.py ROOT LIBRARY NAME [arguments]

runs inside/NAME.py in ROOT, a tree of Debian testing that scripts/frameworks makes, with the
Python module of this repository and LIBRARY, a folder with libspotter.so. Python packages that
Debian does not have are found in `site` beside ROOT, if it is there.
"""

import pathlib
import subprocess
import sys
import tempfile

import root as roots


def main():
    root, library, name, *options = sys.argv[1:]
    root = pathlib.Path(root)
    roots.skip_without(root)
    with tempfile.TemporaryDirectory(prefix="spotter-inside-", dir="/var/tmp") as work:
        mounts = {"work": work, "library": library,
                  "inside": roots.REPOSITORY / "tests/frameworks/inside",
                  "python": roots.REPOSITORY / "trainer/library/python"}
        mounts |= {"site": site} if (site := root.parent / "site").is_dir() else {}
        command = roots.within(root, mounts, "python3", f"/inside/{name}.py", *options)
        environment = roots.ENVIRONMENT | {
            "PYTHONPATH": "/python:/site", "SPOTTER_LIBRARY": "/library/libspotter.so.1",
            "TMPDIR": "/work"}
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
