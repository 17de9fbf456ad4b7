"""The demo's picture in the terminal: one row an instance, time from left to right."""

import os
import sys

CELLS = {"starting": ("·", "90"), "moving": ("▒", "33"), "training": ("━", "32"),
         "releasing": ("▪", "36")}
MARKS = {"checkpoint": ("┿", "32;1"), "notice": ("!", "31;1"), "killed": ("✕", "31;1"),
         "finished": ("✓", "32;1"), "round": ("◆", "34;1")}


class Paper:
    """Colours only where somebody looks: not in a file, not with NO_COLOR."""

    def __init__(self, stream=sys.stdout):
        self.colour = stream.isatty() and "NO_COLOR" not in os.environ
        encoding = (getattr(stream, "encoding", "") or "").lower()
        self.plain = "utf" not in encoding

    def paint(self, text, code):
        if self.plain:
            text = text.translate({ord(a): b for a, b in zip("·▒━▪┿✕✓█◆", ".%=-*x+#o")})
        return f"\033[{code}m{text}\033[0m" if self.colour and code else text

    def cell(self, name):
        return self.paint(*{**CELLS, **MARKS}[name])


def spans(instance):
    """Its phases, each with its begin and end in seconds."""
    phases = instance["phases"] + [(instance["to"], None)]
    return [(start, stop, name) for (start, name), (stop, _) in zip(phases, phases[1:])]


def row(instance, ends, width, paper):
    """`instance`: phases [(seconds, phase)], marks [(seconds, mark)], to (seconds)."""
    def column(seconds):
        return min(width - 1, max(0, int(seconds / ends * width)))
    cells = [" "] * width
    for start, stop, name in spans(instance):
        for at in range(column(start), column(stop) + 1):
            cells[at] = paper.cell(name)
    # Checkpoints first: what ended the instance must not be hidden by one.
    for seconds, mark in sorted(instance["marks"], key=lambda item: item[1] != "checkpoint"):
        cells[column(seconds)] = paper.cell(mark)
    return "".join(cells)


def axis(ends, width):
    step = next(step for step in (5, 10, 15, 30, 60, 120, 300, 600) if ends / step <= 8)
    text = [" "] * (width + 8)
    for seconds in range(0, int(ends) + 1, step):
        at = int(seconds / ends * width)
        if at < width:
            text[at:at + len(f"{seconds} s")] = f"{seconds} s"
    return "".join(text).rstrip()


def timeline(instances, ends, width, paper):
    margin = 12 + max(len(one["zone"]) for one in instances) + 2
    lines = [" " * (margin + 2) + axis(ends, width - margin)]
    for one in instances:
        label = f"{one['id'][:10]}  {one['zone']}"
        lines.append(f"  {label:<{margin}}{row(one, ends, width - margin, paper)}")
    moved = sum(stop - start for one in instances for start, stop, name in spans(one)
                if name == "moving")
    legend = [f"{paper.cell('starting')} starting",
              f"{paper.cell('moving')} moving the volume" + (f", {moved:.1f} s" if moved else ""),
              f"{paper.cell('training')} training", f"{paper.cell('checkpoint')} checkpoint",
              f"{paper.cell('notice')} notice", f"{paper.cell('releasing')} releasing",
              f"{paper.cell('killed')} killed", f"{paper.cell('finished')} finished"]
    return lines + ["", " " * (margin + 2) + "  ".join(legend[:4]),
                    " " * (margin + 2) + "  ".join(legend[4:])]


def verdicts(promises, paper):
    return [f"  {paper.cell('finished') if kept else paper.cell('killed')} {text}"
            for text, kept in promises]


class Progress:
    """A bar that is redrawn on a terminal; elsewhere one plain line for each thing that happens."""

    def __init__(self, stream=sys.stderr):
        self.stream, self.live = stream, stream.isatty()
        self.paper, self.shown = Paper(stream), False

    def bar(self, share, text):
        if not self.live:
            return
        width = 30
        full = int(width * min(1, max(0, share)))
        blocks = self.paper.paint("█" * full, "32") + self.paper.paint("·" * (width - full), "90")
        self.stream.write(f"\r\033[K  {blocks} {text}")
        self.stream.flush()
        self.shown = True

    def say(self, seconds, text):
        self.clear()
        self.stream.write(f"  {seconds:5.1f} s  {text}\n")
        self.stream.flush()

    def clear(self):
        if self.shown:
            self.stream.write("\r\033[K")
            self.stream.flush()
            self.shown = False
