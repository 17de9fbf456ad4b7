"""Is the product no larger, and in no more pieces, than it was?"""

import collections
import re

from checks.files import ROOT, name, sources

# (what is counted, the most there may be, the aim). The most only falls: who makes something
# smaller writes the new figure here.
LIMITS = [
    ("product files", 515, 620),
    ("product lines", 94297, 79000),
    ("test lines", 139352, 94000),
    ("files under 40 lines, %", 9.1, 12),
    ("headers with at most one other user, %", 19.7, 20),
    ("lines that are #include, %", 3.6, 4),
    ("folders of the product", 36, 36),
    ("rows of layers.txt", 36, 32),
]

INCLUDE = re.compile(r'\s*#\s*include\s+["<](\S+)[">]')


def without_suffix(file):
    return file.rpartition(".")[0]


def percent(part, whole):
    return round(100 * len(part) / len(whole), 1)


def figures():
    files = {name(path): path.read_text().splitlines()
             for path in sources(".cpp", ".hpp", ".h", ".c", ".py")}
    product = {file: lines for file, lines in files.items()
               if file.startswith(("agent/", "trainer/"))}
    lines = [line for each in product.values() for line in each]
    users = collections.defaultdict(set)
    for file, each in product.items():
        for match in filter(None, map(INCLUDE.match, each)):
            users[match[1]].add(without_suffix(file))
    headers = [file for file in product if file.endswith((".hpp", ".h"))]
    layers = (ROOT / "agent/layers.txt").read_text()
    yield len(product)
    yield len(lines)
    yield sum(map(len, files.values())) - len(lines)
    yield percent([file for file, each in product.items() if len(each) < 40], product)
    yield percent([file for file in headers
                   if len(users[file] - {without_suffix(file)}) < 2], headers)
    yield percent([line for line in lines if INCLUDE.match(line)], lines)
    yield len({file.rpartition("/")[0] for file in product})
    yield len(re.findall(r"^[\w/]+( \(pure\))?:", layers, re.M))


def check_size():
    findings = []
    for figure, (what, most, aim) in zip(figures(), LIMITS, strict=True):
        print(f"  {what}: {figure} (at most {most}; aim: {aim})")
        if figure > most:
            findings.append(f"{what}: {figure}; {most} at most (scripts/checks/size.py)")
    return findings
