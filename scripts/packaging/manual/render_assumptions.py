#!/usr/bin/python3
"""Renders spotter-assumptions(7): render_assumptions.py assumptions.txt PAGE.in PAGE"""

import collections
import pathlib
import re
import sys

FIELDS = ["from", "code", "emulator", "shown by"]
Entry = collections.namedtuple("Entry", "line section statement source code emulator shown_by")


def read(text):
    """assumptions.txt, which explains its grammar: (entries, title of AWS's page -> address)."""
    entries, pages, section = [], {}, ""
    for match in re.finditer(r"(?:^.+\n?)+", text, re.M):
        line, paragraph = text.count("\n", 0, match.start()) + 1, match[0].strip()
        if heading := re.fullmatch(r"\[(.+)\]", paragraph):
            section = heading[1]
        elif section == "PAGES":
            pages.update(row.split(": ", 1) for row in paragraph.splitlines())
        elif not paragraph.startswith("#"):
            parts = re.split(rf"(?:\n  | \| )({'|'.join(FIELDS)}): ", paragraph)
            if parts[1::2] != FIELDS:
                raise ValueError(f"line {line}: expected a statement and {', '.join(FIELDS)}")
            statement, *values = (" ".join(part.split()) for part in parts[::2])
            entries.append(Entry(line, section, statement, *values))
    return entries, pages


def shown_by(entry):
    """(macro of mdoc(7), name) of each file, fault or test that shows what the emulator does."""
    for each in entry.shown_by.split(", "):
        fault = each.removeprefix("fault ")
        yield "Ic" if fault != each else "Pa" if "/" in each else "Ql", fault


def prose(text):
    """Each sentence begins a line, as mdoc(7) wants it; none is taken for a request."""
    text = re.sub(r"`([^`]+)`", r"\\(oq\1\\(cq", text.replace("\\", r"\e"))
    return re.sub(r"^(?=[.'])", r"\\&", re.sub(r"(?<=[.?!]) (?=[A-Z])", "\n", text), flags=re.M)


def rendered(entry, pages):
    yield f".It\n{prose(entry.statement)}\n.br\nFrom: {entry.source}"
    if entry.source != "open":
        yield rf"\%({pages[entry.source]})".replace("-", r"\-")
    yield f".br\nCode:\n.Pa {entry.code}\n.br\nEmulator: {prose(entry.emulator)}."
    for number, (macro, name) in enumerate(shown := list(shown_by(entry)), 1):
        if macro == "Ql":
            name = name.replace(".", r".\:")  # a line may end there
        comma = " ," if number < len(shown) else ""
        yield ("fault\n" if macro == "Ic" else "") + f".{macro} {name}{comma}"


def main(assumptions, frame, page):
    entries, pages = read(pathlib.Path(assumptions).read_text())
    lines = []
    for before, entry in zip([None, *entries], entries):
        if not before or before.section != entry.section:
            lines += [".El"] * bool(before) + [f".Sh {entry.section}", ".Bl -bullet"]
        lines += rendered(entry, pages)
    text = pathlib.Path(frame).read_text().replace("@ENTRIES@", "\n".join([*lines, ".El\n"]))
    pathlib.Path(page).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(page).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
