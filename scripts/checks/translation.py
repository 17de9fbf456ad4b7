"""Is agent/README.ko.md still the README in Korean?"""

import itertools
import re

from checks.files import ROOT


def outline(file):
    """The sections of a Markdown file, each from a heading on (the first: from the file's begin)
    with its table rows, list items and code blocks: [(line number, line without its comment)]."""
    def section(number, level, title):
        return {"line": number, "level": level, "title": title,
                "table rows": [], "list items": [], "code blocks": []}

    sections, block, fence, blank = [section(1, 0, "its begin")], None, None, True
    for number, line in enumerate((ROOT / file).read_text().splitlines(), 1):
        code = (number, re.sub(r"(^|\s\s)#.*", "", line).rstrip())
        opening = re.match(r"(```+|~~~+)", line)
        if fence:
            block.append(code)
            if code[1] == fence:
                fence = block = None
        elif opening or not block and blank and re.match(" {4,}\\S", line):
            fence, block = opening and opening[0], [code]
            sections[-1]["code blocks"].append(block)
        elif block and (line.startswith("    ") or not line.strip()):
            block.append(code)
        else:
            block = None
            if heading := re.match(r"(#{1,6}) +(.*)", line):
                sections.append(section(number, len(heading[1]), heading[2]))
            if line.startswith("|"):
                sections[-1]["table rows"].append(number)
            if re.match(r"\s*([-*+]|\d+[.)]) ", line):
                sections[-1]["list items"].append(number)
        blank = not line.strip()
    for block in (each for one in sections for each in one["code blocks"]):
        while len(block) > 1 and not block[-1][1]:  # blank lines behind an indented one
            block.pop()
    return sections


def different_code(blocks, original, translated):
    ends = [(block[-1][0], "nothing more") for block in blocks]
    for lines in itertools.zip_longest(*blocks):
        (ours, text), (theirs, differs) = (one or end for one, end in zip(lines, ends))
        if text != differs:
            yield (f"{translated}:{theirs}: {differs.strip()!r} in a code block; "
                   f"{original}:{ours} has {text.strip()!r}")
            return


def check_translation(original="README.md", translated="agent/README.ko.md"):
    """The same headings, table rows, list items and code blocks, whose comments may differ."""
    for ours, theirs in itertools.zip_longest(outline(original), outline(translated)):
        shown = [one and f"{file}:{one['line']}: '{'#' * one['level']} {one['title']}'"
                for file, one in ((original, ours), (translated, theirs))]
        if not ours or not theirs:
            yield f"{shown[0] or shown[1]} has no counterpart in {original if theirs else translated}"
            return
        if ours["level"] != theirs["level"]:
            yield f"{shown[1]} stands where {shown[0]} does"
            return
        for kind in ("table rows", "list items", "code blocks"):
            if len(ours[kind]) != len(theirs[kind]):
                yield f"{shown[1]} has {len(theirs[kind])} {kind}; {shown[0]} has {len(ours[kind])}"
        if len(ours["code blocks"]) == len(theirs["code blocks"]):
            for pair in zip(ours["code blocks"], theirs["code blocks"]):
                yield from different_code(pair, original, translated)
