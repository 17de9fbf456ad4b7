#!/usr/bin/python3
"""Which guards without one of their rules does guard_test catch? tests/guard/mutants.txt.

mutants.py [NAME... | --dry-run]: builds what it needs. Exit status 0 only when it catches each;
with --dry-run only: do they still apply to the code?"""

import importlib.machinery
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
simulate = importlib.machinery.SourceFileLoader(
    "simulate", str(HERE.parents[1] / "scripts/simulate")).load_module()
simulate.MUTANTS = HERE / "mutants.txt"
LIMIT = 900  # seconds: one that hangs is caught, too


def failure(binary):
    """The first test that fails; of a binary that dies or hangs, that; else nothing. The search is
    asked last: it takes as long as all others."""
    for which in ("-Search.*", "Search.*"):
        try:
            done = subprocess.run([binary, "--gtest_fail_fast", f"--gtest_filter={which}"],
                                  text=True, capture_output=True, check=False, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return "hangs"
        failed = re.search(r"^\[  FAILED  \] (\w+\.\w+)", done.stdout, re.M)
        if done.returncode:
            return failed[1] if failed else f"ends with {done.returncode}"
    return ""


def main(names):
    if names == ["--dry-run"]:
        print(f"{len(simulate.known_mutants())} mutants apply")
        return 0
    simulate.build("guard_test")
    true = failure(simulate.BUILD / "bin/guard_test")
    if true:
        sys.exit(f"the guard as it is: {true}")
    wanted, commands = simulate.chosen_mutants(names, "guard_test")
    commands = [["-O0" if word in ("-O1", "-O2") else word for word in words]
                for words in commands]  # compiled in half the time
    survivors = 0
    for mutant in wanted:
        caught = failure(mutant.build(commands, "guard_test"))
        survivors += not caught
        print(f"{mutant.name:26} {caught or 'SURVIVES: ' + mutant.words}", flush=True)
    print(f"{len(wanted) - survivors} of {len(wanted)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
