#!/usr/bin/python3
"""Which programs without one of the defences does the judge catch? tests/adversary/mutants.txt.

mutants.py [NAME...]: as root; builds what it needs. Exit status 0 only when it catches each."""

import importlib.machinery
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
simulate = importlib.machinery.SourceFileLoader(
    "simulate", str(HERE.parents[1] / "scripts/simulate")).load_module()
simulate.MUTANTS = HERE / "mutants.txt"
BIN = simulate.BUILD / "bin"


def programs_with(mutant, commands):
    """A folder of all programs, `spotter` the mutant."""
    folder = simulate.BUILD / "mutants" / f"bin-{mutant.name}"
    folder.mkdir(parents=True, exist_ok=True)
    for program in BIN.iterdir():
        link = folder / program.name
        link.unlink(missing_ok=True)
        link.symlink_to(mutant.build(commands, "spotter") if program.name == "spotter" else program)
    return folder


def catches(mutant, commands):
    """What the judge says of it; nothing where it finds nothing. A story that breaks before it
    has judged catches nothing: that ends the run."""
    story = re.search(r"\((\w+)\)$", mutant.words)[1]
    words = ["/usr/bin/python3", HERE / "without_units.py", "-k", f"test_{story}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={
        **os.environ, "SPOTTER_BIN": str(programs_with(mutant, commands)),
        "PYTHONDONTWRITEBYTECODE": "1"})
    if done.returncode == 77:
        sys.exit(f"{story} is skipped here: {done.stdout}{done.stderr}")
    said = re.findall(r"(?m)^(?:AssertionError|TimeoutError)[^\n]*", done.stderr + done.stdout)
    if done.returncode and not said:
        sys.exit(f"{story} broke without {mutant.name}'s defence, before it judged:\n"
                 f"{(done.stderr + done.stdout)[-2000:]}")
    return " ".join(said)[:150] if done.returncode else ""


def main(names):
    simulate.build("spotter", "spotter-emulator")
    wanted, commands = simulate.chosen_mutants(names, "spotter")
    survivors = 0
    for mutant in wanted:
        caught = catches(mutant, commands)
        survivors += not caught
        print(f"{mutant.name:26} {caught or 'SURVIVES: ' + mutant.words}", flush=True)
    print(f"{len(wanted) - survivors} of {len(wanted)} mutants caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
