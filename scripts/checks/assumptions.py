"""Is all there that spotter-assumptions(7) names: files, faults of the emulator, tests?"""

import re

from checks.files import ROOT, name, sources

PAGE = ROOT / "scripts/packaging/manual/spotter-assumptions.7"
VERDICTS = ("same", "by a fault", "on request", "in part", "kinder", "not modelled")
# Where the emulator's faults have their names, and how these stand there.
FAULTS = {"tests/world/faults.cpp": r'^    \{"([\w-]+)",',
          "tests/world/s3/faults.cpp": r'Named\{"([\w-]+)",',
          "tests/world/batch/batch.cpp": r'\{"(batch-[\w-]+)", &|"(batch-drain) '}


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


def entries(text):
    """(number of the first line, its parts): the statement, and what begins with a word."""
    for match in re.finditer(r"^\.It\n(.*?)(?=^\.It\n|^\.El$)", text, re.M | re.S):
        yield text.count("\n", 0, match.start()) + 1, match[1].split("\n.br\n")


def problems_of(parts, known):
    heads = [part.split(":")[0] for part in parts[1:]]
    if heads != ["From", "Code", "Emulator"]:
        yield f"an entry has a statement, From, Code and Emulator; here are {heads}"
        return
    _, source, code, emulator = parts
    if source != "From: open." and not re.fullmatch(r"From: .+,\n\\%\S+/\S+", source):
        yield f"'{source}': expected 'From: open.' or a title and an address"
    if not emulator.startswith(tuple(f"Emulator: {verdict}" for verdict in VERDICTS)):
        yield f"the emulator does {', '.join(VERDICTS)}; not '{emulator.splitlines()[0]}'"
    named = re.findall(r"^\.(Pa|Ic|Ql) (\S+)", f"{code}\n{emulator}".replace("\\:", ""), re.M)
    if not re.search(r"^\.Pa ", code, re.M) or not re.search(r"^\.(Pa|Ic|Ql) ", emulator, re.M):
        yield "the code, and what shows what the emulator does, have to be named"
    if "by a fault" in emulator and not re.search(r"^\.Ic ", emulator, re.M):
        yield "which fault?"
    for macro, what in named:
        if what not in known[macro] and not (macro == "Pa" and (ROOT / what).is_file()):
            yield f"there is no {dict(Pa='file', Ic='fault', Ql='test')[macro]} {what}"


def check_assumptions():
    known = {"Pa": (), "Ic": faults(), "Ql": tests()}
    found = list(entries(PAGE.read_text()))
    if not found or not known["Ic"] or not known["Ql"]:
        yield f"{name(PAGE)}: no entries, faults or tests were found: is the check still right?"
    for line, parts in found:
        for problem in problems_of(parts, known):
            yield f"{name(PAGE)}:{line}: {problem}"
