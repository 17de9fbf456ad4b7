#!/usr/bin/env python3
"""Trains with `import spotter`, in whichever Python runs it, and says which that is.

Environment: STEPS, PACE and JOURNAL as in fake_trainer.py; WHO, a folder for a file of each start.
"""

import json
import os
import pathlib
import sys
import time

import spotter

began = f"{time.time_ns()}"
steps, pace = int(os.environ["STEPS"]), float(os.environ["PACE"])
run = spotter.open()
old = run.restore()
(pathlib.Path(os.environ["WHO"]) / began).write_text(json.dumps({
    "prefix": sys.prefix, "base": sys.base_prefix, "spotter": spotter.__file__,
    "path": os.environ["PYTHONPATH"], "from": old.step if old else 0}))
total = old["total"] if old else 0
with open(pathlib.Path(os.environ["JOURNAL"]) / began, "w", encoding="ascii") as journal:
    for step in range(old.step + 1 if old else 1, steps + 1):
        time.sleep(pace)
        total += step
        run.progress(step)
        run.save(step, total=total)
        run.flush()
        print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), step, file=journal, flush=True)
        run.stop_if_asked()
result = pathlib.Path(os.environ["SPOTTER_STORAGE"]) / "result"
result.mkdir(exist_ok=True)
(result / "total").write_text(f"{total}\n")
run.finished()
