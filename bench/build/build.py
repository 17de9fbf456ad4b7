#!/usr/bin/python3
"""How long a new user and a new machine of CI wait, in a fresh clone and with no compiler cache.

The demo: from `scripts/demo` to its first line. CI: all of `.ci/run`, which must pass. Packages
that scripts/setup installs are there before. Then the ten sources that took longest to compile: a
source is what is compiled at once (up to twelve files of a folder).
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = {"demo": 7 * 60, "ci": 50 * 60}  # seconds
FIRST_LINE = re.compile(r"^ +\d+\.\d s  ")
TALLY = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)


def started(clone, *words):
    """In a session of its own: what it started ends with it."""
    return subprocess.Popen(words, cwd=clone, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                            start_new_session=True, env={**os.environ, "CCACHE_DISABLE": "1"})


def end(process):
    """As Ctrl-C does: the demo takes down its world."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    process.communicate()


def demo(clone):
    begun = time.monotonic()
    process, said = started(clone, "scripts/demo", "--no-verify"), []
    try:
        for line in process.stdout:
            said.append(line)
            if FIRST_LINE.match(line):
                return time.monotonic() - begun
    finally:
        end(process)
    sys.exit("the demo said nothing:\n" + "".join(said[-40:]))


def dearest(clone, flavour="release"):
    """[(seconds, source)], the ten longest of the last build."""
    took = {}
    for line in (clone / f"build/{flavour}/.ninja_log").read_text().splitlines()[1:]:
        begin, finish, _, output, _ = line.split("\t")
        if output.endswith(".o"):
            took[re.sub(r"CMakeFiles/|\.o$", "", output)] = (int(finish) - int(begin)) / 1000
    return sorted(((seconds, name) for name, seconds in took.items()), reverse=True)[:10]


def ci(clone):
    shutil.rmtree(clone / "build")
    begun = time.monotonic()
    process = started(clone, ".ci/run")
    try:
        text = process.communicate()[0]
    finally:
        end(process)
    tally = TALLY.search(text)
    return {"seconds": time.monotonic() - begun, "status": process.returncode,
            "tally": tally[0] if tally else "it did not come to its end",
            "tail": [] if process.returncode == 0 else text.splitlines()[-40:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only", choices=sorted(TARGETS), help="one of the two")
    options = parser.parse_args()
    figures, missed = {"targets": TARGETS, "cores": os.cpu_count()}, False

    def report(what, seconds, more=""):
        nonlocal missed
        figures[what] = round(seconds, 1)
        missed |= seconds > TARGETS[what]
        print(f"{what}: {seconds / 60:.1f} min{more}; target {TARGETS[what] / 60:.0f}", flush=True)

    with tempfile.TemporaryDirectory(prefix="spotter-build-", dir="/var/tmp") as folder:
        clone = pathlib.Path(folder) / "spotter"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        subprocess.run(["scripts/setup"], cwd=clone, check=True, stdout=subprocess.DEVNULL)
        if options.only != "ci":
            report("demo", demo(clone))
        else:
            (clone / "build").mkdir()
        if options.only != "demo":
            run = ci(clone)
            report("ci", run["seconds"], f", {run['tally']}")
            figures["tally"] = run["tally"]
            missed |= run["status"] != 0
            print("\n".join(run["tail"]))
        figures["dearest"] = dearest(clone)
        for seconds, name in figures["dearest"]:
            print(f"  {seconds:5.1f} s  {name}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
