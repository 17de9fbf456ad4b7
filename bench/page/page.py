#!/usr/bin/python3
"""The page of a job of three days with 100 interruptions and 50,000 points in headless Chromium:
how long until it is drawn, as a report's file and live, and how smoothly it goes on while more
comes."""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = {"report_ms": 1000, "live_ms": 1000, "frame_ms_p95": 50}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there")
    parser.add_argument("--repeat", type=int, default=7)
    arguments = parser.parse_args()
    subprocess.run([ROOT / "scripts/setup", "--page"], check=False)
    done = subprocess.run(["node", ROOT / "bench/page/page.mjs", str(arguments.repeat)], text=True,
                          stdout=subprocess.PIPE, check=False, env={
                              "SPOTTER_BIN": str(ROOT / "build/release/bin"), **os.environ})
    if done.returncode:
        print(done.stdout, end="")
        return done.returncode
    figures = json.loads(done.stdout)
    print("load average {load:.1f}; document {bytes:.1f} MiB\n"
          "until it is drawn, median of {repeat}: report {report_ms:.0f} ms, live {live_ms:.0f} ms "
          "(target {report_target} ms)\n"
          "frames while four updates a second come and the chart's cursor moves: median "
          "{frame_ms_median:.0f} ms, 95 % within {frame_ms_p95:.0f} ms, longest "
          "{frame_ms_longest:.0f} ms (target of the 95 %: {frame_target} ms)".format(
              load=os.getloadavg()[0], repeat=arguments.repeat,
              report_target=TARGETS["report_ms"], frame_target=TARGETS["frame_ms_p95"],
              **figures))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(any(figures[name] > target for name, target in TARGETS.items()))


if __name__ == "__main__":
    sys.exit(main())
