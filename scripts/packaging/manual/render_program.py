#!/usr/bin/python3
"""Renders spotter(1) and spotter-events(7) of what the program says of its commands and of the
journal's events: render_program.py PROGRAM PAGE.in PAGE"""

import json
import pathlib
import subprocess
import sys


def plain(text):
    """A line of plain text for mdoc(7): no word is a macro, no dot a request."""
    return "\\&" + text.replace("\\", "\\e").replace("-", "\\-") + "\n"


def option(its):
    value = " Ar VALUE" if its["takes_value"] else ""
    yield f".It Fl -{its['name']}{value}\n" if its["flag"] else f".It Ar {its['name']}\n"
    yield plain(its["text"] + ".")
    if its["choices"]:
        yield plain(f"One of: {', '.join(its['choices'].splitlines())}.")
    if its["default"]:
        yield plain(f"Default: {its['default']}.")
    if its["required"]:
        yield plain("Required.")


def command(its, above=""):
    name = above + its["name"]
    yield f".Ss {name}\n" + plain(its["text"] + ".")
    if its["options"]:
        yield ".Bl -tag -width Ds\n"
        for each in its["options"]:
            yield from option(each)
        yield ".El\n"
    for each in its["commands"]:
        yield from command(each, name + " ")


def event(its):
    """Indented lines are commands. Else each sentence is on its own line, as mdoc(7) expects."""
    yield f".Ss {its['name']}\n" + plain(its["subject"] + ".") + ".Pp\n"
    literal = apart = False
    for line in its["text"].splitlines():
        if not line:
            apart = True
            continue
        is_command = line.startswith("  ")
        if is_command != literal:
            yield ".Bd -literal -offset indent\n" if is_command else ".Ed\n"
        if apart and not is_command:
            yield ".Pp\n"
        yield from map(plain, [line] if is_command else line.replace(". ", ".\n").splitlines())
        literal, apart = is_command, False
    if literal:
        yield ".Ed\n"


def main(program, frame, page):
    its = json.loads(subprocess.run([program, "manual"], check=True, stdout=subprocess.PIPE).stdout)
    text = pathlib.Path(frame).read_text()
    for mark, render in ("commands", command), ("events", event):
        text = text.replace(f"@{mark.upper()}@",
                            "".join(part for each in its[mark] for part in render(each)))
    pathlib.Path(page).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(page).write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
