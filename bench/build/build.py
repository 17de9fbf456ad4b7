#!/usr/bin/python3
"""How long the gate takes in a fresh clone, without and with a compiler cache.

Cold: `scripts/test` in a fresh clone with an empty compiler cache; packages that scripts/setup
installs are there before. Warm: the same again with the cache that this has filled. Of both each
part's minutes and CPU minutes and the ten slowest entries, and of the cold build the ten units
that took longest to compile: a unit is what is compiled at once (up to forty files of a folder).
Nothing else may run beside it.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = {"cold": 20, "warm": 10}  # minutes, on two quiet cores


def dearest(clone):
    """[(seconds, unit)], the ten longest of the last build."""
    took = {}
    for line in (clone / "build/release/.ninja_log").read_text().splitlines()[1:]:
        begin, finish, _, output, _ = line.split("\t")
        if output.endswith(".o"):
            took[re.sub(r"CMakeFiles/|\.o$", "", output)] = (int(finish) - int(begin)) / 1000
    return sorted(((seconds, name) for name, seconds in took.items()), reverse=True)[:10]


def gate(clone, report, cache):
    """What scripts/test said of itself, and its exit status."""
    shutil.rmtree(clone / "build", ignore_errors=True)
    done = subprocess.run(["scripts/test", "--json", report], cwd=clone, check=False,
                          stdin=subprocess.DEVNULL, env={**os.environ, "CCACHE_DIR": str(cache)})
    return {**json.loads(report.read_text()), "status": done.returncode}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--only", choices=["cold"], help="not the second run")
    options = parser.parse_args()
    figures, missed = {"targets": TARGETS, "cores": os.cpu_count()}, False
    with tempfile.TemporaryDirectory(prefix="spotter-build-", dir="/var/tmp") as folder:
        clone = pathlib.Path(folder) / "spotter"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        for name in ("cold",) if options.only == "cold" else TARGETS:
            figures[name] = gate(clone, pathlib.Path(folder) / f"{name}.json",
                                 pathlib.Path(folder) / "cache")
            if name == "cold":
                figures["dearest"] = dearest(clone)
    print("\nthe units that took longest to compile:")
    for seconds, name in figures["dearest"]:
        print(f"  {seconds:5.1f} s  {name}")
    for name in TARGETS.keys() & figures.keys():
        parts = figures[name]["parts"]
        minutes, cpu = (sum(part[key] for part in parts) for key in ("minutes", "cpu_minutes"))
        built = sum(part["minutes"] for part in parts if part["part"].startswith("build"))
        print(f"gate {name}: {minutes:.1f} min (the build {built:.1f}), {cpu:.1f} CPU minutes; "
              f"target {TARGETS[name]} min")
        missed |= minutes > TARGETS[name] or figures[name]["status"] != 0
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
