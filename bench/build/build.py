#!/usr/bin/python3
"""How long the demo and the gate take in a fresh clone, without and with a compiler cache.

Demo: from `scripts/demo` to its first line, without a cache. Cold: `scripts/test` in a fresh clone
with an empty compiler cache; packages that scripts/setup installs are there before. Warm: the same
again with the cache that this has filled. Of both each part's minutes and CPU minutes and the ten
slowest entries, and of the cold build the ten units that took longest to compile: a unit is what is
compiled at once (up to forty files of a folder). Nothing else may run beside it.
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
TARGETS = {"demo": 7, "cold": 20, "warm": 10}  # minutes, on two quiet cores
FIRST_LINE = re.compile(r"^ +\d+\.\d s  ")


def dearest(clone):
    """[(seconds, unit)], the ten longest of the last build."""
    took = {}
    for line in (clone / "build/release/.ninja_log").read_text().splitlines()[1:]:
        begin, finish, _, output, _ = line.split("\t")
        if output.endswith(".o"):
            took[re.sub(r"CMakeFiles/|\.o$", "", output)] = (int(finish) - int(begin)) / 1000
    return sorted(((seconds, name) for name, seconds in took.items()), reverse=True)[:10]


def demo(clone):
    """Minutes. Then it is ended as by Ctrl-C, and takes down its world."""
    begun, said = time.monotonic(), []
    process = subprocess.Popen(["scripts/demo", "--no-verify"], cwd=clone, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               stdin=subprocess.DEVNULL, start_new_session=True,
                               env={**os.environ, "CCACHE_DISABLE": "1"})
    try:
        for line in process.stdout:
            said.append(line)
            if FIRST_LINE.match(line):
                return (time.monotonic() - begun) / 60
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        process.communicate()
    sys.exit("the demo said nothing:\n" + "".join(said[-40:]))


def gate(clone, report, cache):
    """What scripts/test said of itself, and its exit status."""
    shutil.rmtree(clone / "build", ignore_errors=True)
    process = subprocess.Popen(["scripts/test", "--json", report], cwd=clone,
                               stdin=subprocess.DEVNULL, start_new_session=True,
                               env={**os.environ, "CCACHE_DIR": str(cache)})
    try:
        status = process.wait()
    finally:  # it takes down what it has when it is asked to
        if process.poll() is None:
            process.terminate()
            process.wait()
    return {**json.loads(report.read_text()), "status": status}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only", choices=["demo", "cold"], help="one of the three")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    figures, missed = {"targets": TARGETS, "cores": os.cpu_count()}, False
    with tempfile.TemporaryDirectory(prefix="spotter-build-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)  # the unprivileged trainer reads what is in the clone
        clone = pathlib.Path(folder) / "spotter"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        runs = [options.only] if options.only else list(TARGETS)
        for name in runs:
            if name == "demo":
                figures[name] = demo(clone)
                continue
            figures[name] = gate(clone, pathlib.Path(folder) / f"{name}.json",
                                 pathlib.Path(folder) / "cache")
            if name == "cold":
                figures["dearest"] = dearest(clone)
    print("\nthe units that took longest to compile:")
    for seconds, name in figures.get("dearest", []):
        print(f"  {seconds:5.1f} s  {name}")
    for name in runs:
        if name == "demo":
            minutes, more = figures[name], ""
        else:
            parts, minutes = figures[name]["parts"], figures[name]["minutes"]
            cpu = sum(part["cpu_minutes"] for part in parts)
            built = sum(part["minutes"] for part in parts if part["part"].startswith("build"))
            more = f" (the build {built:.1f}), {cpu:.1f} CPU minutes"
            missed |= figures[name]["status"] != 0
        print(f"{name}: {minutes:.1f} min{more}; target {TARGETS[name]} min")
        missed |= minutes > TARGETS[name]
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
