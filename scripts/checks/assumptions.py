"""Is all there that spotter-assumptions(7) names: files, faults of the emulator, tests?"""

import re
import sys

from checks.files import ROOT, name, sources

MANUAL = ROOT / "scripts/packaging/manual"
sys.path.append(str(MANUAL))
from render_assumptions import read, shown_by  # noqa: E402

DATA = MANUAL / "assumptions.txt"
VERDICTS = ("same", "by a fault", "on request", "in part", "kinder", "not modelled")
# Where the emulator's faults have their names, and how these stand there.
FAULTS = {"tests/world/faults.cpp": r'^    \{"([\w-]+)",',
          "tests/world/s3/faults.cpp": r'Named\{"([\w-]+)",',
          "tests/world/batch/batch.cpp": r'\{"(batch-[\w-]+)", &|"(batch-drain) '}
KINDS = {"Pa": "file", "Ic": "fault", "Ql": "test"}


def faults():
    found = set()
    for file, pattern in FAULTS.items():
        for match in re.finditer(pattern, (ROOT / file).read_text(), re.M):
            found.add(next(filter(None, match.groups())))
    return found


def tests():
    """Suite.Name of each test in C++."""
    return {f"{suite}.{test}" for path in sources(".cpp") if "tests" in path.parts
            for suite, test in re.findall(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)",
                                          path.read_text(), re.M)}


def problems_of(entry, pages, known):
    if entry.source != "open" and entry.source not in pages:
        yield f"'from: {entry.source}': neither 'open' nor a title of [PAGES]"
    if not entry.emulator.startswith(VERDICTS):
        yield f"the emulator does {', '.join(VERDICTS)}; not '{entry.emulator}'"
    shown = list(shown_by(entry))
    if "by a fault" in entry.emulator and "Ic" not in dict(shown):
        yield "which fault?"
    for macro, what in [("Pa", entry.code), *shown]:
        if not ((ROOT / what).is_file() if macro == "Pa" else what in known[macro]):
            yield f"there is no {KINDS[macro]} {what}"


def check_assumptions():
    known = {"Ic": faults(), "Ql": tests()}
    try:
        entries, pages = read(DATA.read_text())
    except ValueError as error:
        yield f"{name(DATA)}: {error}"
        return
    if not entries or not known["Ic"] or not known["Ql"]:
        yield f"{name(DATA)}: no entries, faults or tests were found: is the check still right?"
    for entry in entries:
        for problem in problems_of(entry, pages, known):
            yield f"{name(DATA)}:{entry.line}: {problem}"
    for title in sorted(set(pages) - {entry.source for entry in entries}):
        yield f"{name(DATA)}: nothing is from '{title}'"
