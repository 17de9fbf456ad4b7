"""From the start of a training to the end of its first and of its tenth epoch: Pipe mode against
file mode and fast_file, of three file types, and a picture of it.

The network is that of a small instance: 90 MB/s a connection, 400 MB/s in all. The reader sums
what it reads, as a trainer would use it. Pipe mode fetches each epoch again; the others keep files.
"""

import gzip
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys

import peers
import pipe
import server as servers

EPOCHS, FILES, BYTES = 10, 8, 32 << 20
MODES = {"pipe": "", "fast_file": ",mode=fast_file", "file": ",mode=file"}
PREFIXES = {"RecordIO": "recordio", "CSV": "csv", "CSV, gzip": "csv-gzip"}
READER = """
import gzip, os, sys, time, zlib
view, packed = sys.argv[1], sys.argv[2] == "packed"
for epoch in range(int(sys.argv[3])):
    fifo = f"{view}_{epoch}"
    files = ([fifo] if os.path.exists(fifo) else
             [f"{view}/{name}" for name in sorted(os.listdir(view)) if name[0] != "."])
    came = total = 0
    for name in files:
        with (gzip.open if packed and name != fifo else open)(name, "rb") as file:
            while block := file.read(1 << 20):
                came += len(block)
                total = zlib.crc32(block, total)
    print(time.time_ns(), came, flush=True)
"""


def lines(chance):
    """A table of numbers, 4 MiB of which are repeated."""
    row = lambda: ",".join(f"{chance.random():.6f}" for _ in range(32))  # noqa: E731
    return "".join(row() + "\n" for _ in range((4 << 20) // 288)).encode()


def fill(server, what):
    """FILES objects of about BYTES each below its prefix."""
    folder = server.bucket / PREFIXES[what]
    folder.mkdir(parents=True)
    table = lines(random.Random(1))
    for i in range(FILES):
        if what == "RecordIO":  # of 100 KB each, as pictures are
            record = os.urandom(100_000)
            framed = (0xced7230a).to_bytes(4, "little") + len(record).to_bytes(4, "little") + record
            content = framed * (BYTES // len(framed))
        else:
            content = table * (BYTES // len(table))
        if what == "CSV, gzip":
            content = gzip.compress(content, 1)
        (folder / f"{i:05}").write_bytes(content)
    return len(content) * FILES


def ends(server, scratch, what, mode, environment):
    """Seconds from the start until each epoch's end."""
    data = scratch / "data"
    packed = what.endswith("gzip")
    options = MODES[mode] + (",gzip" if packed and mode == "pipe" else "")
    command = [peers.BIN / "spotter", "pipe", "--channel",
               f"train=s3://bucket/{PREFIXES[what]}/{options}", "--directory", data, "--",
               sys.executable, "-c", READER, data / "train",
               "packed" if packed else "plain", EPOCHS]
    begun = pipe.time.time_ns()
    done = subprocess.run(list(map(str, command)), env=environment, check=True, text=True,
                          stdout=subprocess.PIPE)
    shutil.rmtree(data, ignore_errors=True)
    came = {line.split()[1] for line in done.stdout.splitlines()}
    if len(came) != 1:
        raise SystemExit(f"{what}, {mode}: not the same bytes each epoch: {came}")
    return [(int(line.split()[0]) - begun) / 1e9 for line in done.stdout.splitlines()]


def figures(folder, rounds):
    """what -> mode -> [seconds to the end of epoch 1, ... of epoch 10], medians."""
    scratch = pathlib.Path(folder) / "scratch"
    scratch.mkdir(exist_ok=True)
    found = {}
    with pipe.serving(lambda where: servers.Emulator(where, True), folder) as server:
        environment = peers.environment(server, scratch)
        server.fault("s3-slow", "rate=90000000", "total=400000000")
        for what, prefix in PREFIXES.items():
            size = fill(server, what)
            taken = {mode: [] for mode in MODES}
            for _ in range(rounds):
                for mode in MODES:
                    taken[mode].append(ends(server, scratch, what, mode, environment))
            found[what] = {mode: [statistics.median(each) for each in zip(*times)]
                           for mode, times in taken.items()}
            for mode, times in found[what].items():
                print(f"{what:10} {size / 1e6:4.0f} MB  {mode:10} first epoch {times[0]:6.2f} s"
                      f"  {times[0] / found[what]['file'][0]:5.2f} of file mode's,"
                      f"  {EPOCHS} epochs {times[-1]:6.2f} s"
                      f"  {times[-1] / found[what]['file'][-1]:5.2f}", flush=True)
            shutil.rmtree(server.bucket / prefix)
    return found


def picture(found):
    """An SVG: for each file type the seconds to the end of the first and of the last epoch."""
    width, height, left, top, bar = 720, 300, 50, 40, 24
    colours = {"pipe": "#2a6fdb", "fast_file": "#7fb3ff", "file": "#9a9a9a"}
    most = max(times[-1] for modes in found.values() for times in modes.values())
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + 60}" '
             f'font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="18" font-size="14">Seconds from the start to the end of '
             f'epoch 1 (solid) and {EPOCHS} (outlined)</text>']
    group = (width - left) / len(found)
    for i, (what, modes) in enumerate(found.items()):
        x = left + i * group
        for j, (mode, times) in enumerate(modes.items()):
            for end, style in ((times[-1], 'fill="none"'), (times[0], f'fill="{colours[mode]}"')):
                tall = end / most * (height - top - 20)
                parts.append(f'<rect x="{x:.0f}" y="{height - tall:.1f}" width="{bar}" '
                             f'height="{tall:.1f}" {style} stroke="{colours[mode]}"/>')
            parts.append(f'<text x="{x + bar / 2:.0f}" y="{height - tall - 4:.1f}" '
                         f'text-anchor="middle">{times[0]:.1f}</text>')
            high = height - times[-1] / most * (height - top - 20)
            if high < height - tall - 20:
                parts.append(f'<text x="{x + bar / 2:.0f}" y="{high - 4:.1f}" '
                             f'text-anchor="middle">{times[-1]:.1f}</text>')
            x += 2 * bar
        parts.append(f'<text x="{left + i * group:.0f}" y="{height + 18}">{what}</text>')
    for j, (mode, colour) in enumerate(colours.items()):
        x = left + 110 * j
        parts.append(f'<rect x="{x}" y="{height + 34}" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{x + 18}" y="{height + 45}">{mode}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
