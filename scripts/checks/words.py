"""Does everything speak as agent/GLOSSARY.md says?"""

import re

from checks.files import ROOT, name, sources


def glossary():
    """agent/GLOSSARY.md: a word that is not to be used -> the term that is"""
    text = (ROOT / "agent/GLOSSARY.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*)\|$", text, re.M)
    return {word: term for term, words in rows for word in re.findall(r"`([^`]+)`", words)}


def check_words():
    """Also as a part of an identifier: of snake_case, and of CamelCase."""
    instead = glossary()
    if not instead:
        yield "agent/GLOSSARY.md lists no word that is not to be used"
        return
    some = re.compile(rf"(?<![a-z])(?:{'|'.join(instead)})(?![a-z])")
    files = [*sources(".cpp", ".hpp", ".h", ".c", ".py"), ROOT / "systemd/spotter.catalog",
             ROOT / "README.md", ROOT / "agent/README.md", ROOT / "trainer/README.md",
             *(ROOT / "scripts/packaging/manual").iterdir()]
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", line).lower()
            for word in dict.fromkeys(some.findall(apart)):
                yield f"{name(path)}:{number}: '{word}': the glossary's word is {instead[word]}"
