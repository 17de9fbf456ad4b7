"""Does everything speak as agent/GLOSSARY.md says, and do comments begin with a subject or a verb?"""

import re

from checks.files import ROOT, name, sources

# A comment's sentence that begins so makes its reader wait for the subject.
ODD = re.compile(r"(Of|Who|What|Whose|Which|Where|How|One that|Nobody|Else|As|Not|For)\b")
MOST_ODD = 0.5  # per cent of all sentences


def glossary():
    """agent/GLOSSARY.md: a word that is not to be used -> the term that is"""
    text = (ROOT / "agent/GLOSSARY.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*)\|$", text, re.M)
    return {word: term for term, words in rows for word in re.findall(r"`([^`]+)`", words)}


def comments(text):
    """(line, text) of each comment of C++: lines of comments that follow one another are one."""
    first, words = 0, []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        alone = re.match(r"\s*//+ ?(.*)", line)
        if alone:
            first = first if words else number
            words.append(alone[1])
            continue
        if words:
            yield first, " ".join(words)
            words = []
        if behind := re.match(r".*\s//+ ?(.*)", line):
            yield number, behind[1]


def sentences(path):
    for line, text in comments(path.read_text()):
        for sentence in re.split(r"(?<=[.:?!])\s+(?=[A-Z])", text):
            if sentence:
                yield line, sentence


def odd_openings(path):
    return [(line, text) for line, text in sentences(path) if ODD.match(text)]


def check_openings():
    code = sources(".cpp", ".hpp", ".h")
    count = sum(1 for path in code for _ in sentences(path))
    odd = [(path, line, text) for path in code for line, text in odd_openings(path)]
    share = 100 * len(odd) / count
    print(f"  odd openings: {len(odd)} of {count} sentences of comments, {share:.1f} % (at most "
          f"{MOST_ODD} %)")
    if share > MOST_ODD:
        for path, line, text in odd:
            yield f"{name(path)}:{line}: begin with the subject or a verb: {text[:60]}"


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
    yield from check_openings()
