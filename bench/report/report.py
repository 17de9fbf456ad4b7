#!/usr/bin/python3
"""How long `spotter report` takes for a job of three days with 100 interruptions and a curve of
50,000 points, and how large its page is. Exit status 1 when it takes more than a second."""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPOTTER = ROOT / "build/release/bin/spotter"
DAYS, MACHINES, POINTS, TARGET = 3, 100, 50_000, 1.0
BEGIN = 1_790_000_000


def history():
    """Every other machine is lost without notice."""
    length = DAYS * 86400 / MACHINES
    for number in range(MACHINES):
        name, at = f"i-{number:017x}", BEGIN + number * length

        def moment(after, what, **more):
            return json.dumps({"time": at + after, "what": what, "instance": name, **more}) + "\n"
        step = number * 10_000
        yield moment(0, "began", type="g5.xlarge", zone=f"us-west-2{'abc'[number % 3]}",
                     price=0.4, booted=at - 30)
        for second, phase in enumerate(("looking", "waiting", "moving", "mounting", "preparing",
                                        "training")):
            yield moment(20 * second, "phase", phase=phase, says=f"{phase} on vol-1")
        yield moment(110, "resumed", step=step, repeated=number % 2 * 40)
        for minute in range(0, int(length / 60) - 6, 10):
            yield moment(120 + minute * 60, "checkpoint", step=step + minute, seconds=0.4)
        if number % 2:
            yield moment(length - 200, "notice", action="terminate", deadline=at + length - 80)
            yield moment(length - 110, "checkpoint", step=step + 10_000, seconds=0.4)
            yield moment(length - 109, "ended", end="stopped", step=step + 10_000,
                         checkpoint_step=step + 10_000, window_trained=85, stall_seconds=12)


def write(home):
    (home / ".spotter").mkdir(parents=True)
    with open(home / ".spotter/history.jsonl", "w") as file:
        file.writelines(history())
    with open(home / "metrics.jsonl", "w") as file:
        for point in range(1, POINTS + 1):
            file.write(json.dumps({"step": point * 20, "epoch": point // 500, "loss": 5 / point,
                                   "accuracy": 1 - 1 / point, "time": BEGIN + point * 5}) + "\n")


def measure(home, *options):
    times = []
    for _ in range(7):
        begin = time.monotonic()
        subprocess.run([SPOTTER, "report", "--from", home, "--no-prices", "--output",
                        home / "report", *options], check=True, stdout=subprocess.DEVNULL)
        times.append(time.monotonic() - begin)
    return statistics.median(times), (home / "report").stat().st_size


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spotter-bench-report-") as folder:
        home = pathlib.Path(folder) / "job"
        write(home)
        page, size = measure(home)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    figures = {"page_seconds": round(page, 3), "page_mib": round(size / 2**20, 2),
               "resident_mib": round(memory, 1)}
    print(f"{MACHINES} machines, {POINTS} points: page {page:.2f} s (target {TARGET:.0f} s), "
          f"{size / 2**20:.1f} MiB; {memory:.0f} MiB resident")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if page <= TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
