#!/usr/bin/python3
"""A plain script that knows nothing of Spotter: it writes training.csv in the manner of Keras'
CSVLogger(append=True), a checkpoint an epoch, of which the newest two stay, and starts with the
newest. Its validation is best in the middle.

    logs_csv.py EPOCHS SECONDS [RATE]
"""

import csv
import os
import pathlib
import pickle
import sys
import time
import zipfile

EPOCHS, PAUSE = int(sys.argv[1]), float(sys.argv[2])
RATE = float(sys.argv[3]) if len(sys.argv) > 3 else 1.0
CHECKPOINTS, LOG = pathlib.Path("checkpoints"), pathlib.Path("result/training.csv")


def save(epoch, weights):
    path = CHECKPOINTS / f"epoch-{epoch:03}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("state", pickle.dumps((epoch, weights)))
    for old in sorted(CHECKPOINTS.glob("epoch-*.zip"))[:-2]:
        old.unlink()


def load():
    found = sorted(CHECKPOINTS.glob("epoch-*.zip"))
    if not found:
        return -1, 0.0
    with zipfile.ZipFile(found[-1]) as archive:
        epoch, weights = pickle.loads(archive.read("state"))
    print(f"resumed after epoch {epoch}", flush=True)
    return epoch, weights


def main():
    os.chdir(os.environ.get("SPOTTER_STORAGE", "."))
    epoch, weights = load()
    LOG.parent.mkdir(exist_ok=True)
    CHECKPOINTS.mkdir(exist_ok=True)
    begins = not LOG.exists() or not LOG.stat().st_size
    with open(LOG, "a", newline="", encoding="utf-8") as file:
        log = csv.DictWriter(file, ["epoch", "accuracy", "loss", "val_accuracy", "val_loss"])
        if begins:
            log.writeheader()
        while epoch + 1 < EPOCHS:
            time.sleep(PAUSE)
            epoch, weights = epoch + 1, weights + RATE
            good = 1 - abs(epoch - EPOCHS // 2) / EPOCHS
            log.writerow({"epoch": epoch, "accuracy": epoch / EPOCHS, "loss": 1 / (weights + 1),
                          "val_accuracy": good * RATE, "val_loss": 1 - good * RATE})
            file.flush()
            save(epoch, weights)
    pathlib.Path("result/weights").write_text(str(weights), encoding="utf-8")


main()
