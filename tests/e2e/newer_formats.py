"""All that Spotter keeps on a storage, as a later version writes it: the version of each format
raised, members that nobody knows added, sums right; and the way back, of who has that version.

    newer_formats.py raise|same|back NOTES     in the storage's folder

NOTES is a file elsewhere: what was there before, and what is there since.
"""

import json
import pathlib
import pickle
import sys

import fake_trainer

SUM = ',"xxh3_128":"'


def _document(text):
    return json.dumps({**json.loads(text), "version": 2, "of_the_future": [1]}) + "\n"


def _lines(text):
    return "".join(_document(line) for line in text.splitlines())


def sealed(text, version=2):
    """Of a manifest: its sum is the last member."""
    body = json.loads(text[:text.rindex(SUM)] + "}")
    new = json.dumps({**body, "format": version, "of_the_future": [1]}, separators=(",", ":"))[:-1]
    return f'{new}{SUM}{fake_trainer.xxh3_128(new.encode())}"}}\n'


def record(text):
    """The record of finished files, or folders, which are format 2."""
    return sealed(text, 3)


WAYS = {".spotter/volume.json": _document, ".spotter/ledger.json": _document,
        ".spotter/history.jsonl": _lines, ".spotter/checkpoints.json": record,
        "metrics.jsonl": _lines, "checkpoints/step-*/manifest.json": sealed}


def raise_all(folder):
    """Gives back the bytes of each file as they were."""
    before = {}
    for pattern, way in WAYS.items():
        for path in sorted(folder.glob(pattern)):
            try:
                data = path.read_bytes()
            except FileNotFoundError:  # a trainer that runs removes old checkpoints
                continue
            before[path.relative_to(folder).as_posix()] = data
            path.write_text(way(data.decode()))
    return before


def seen(folder):
    """Each name with its owner, mode and bytes."""
    found = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        found[path.relative_to(folder).as_posix()] = (status.st_uid, status.st_mode, data)
    return found


def main(what, notes):
    folder, notes = pathlib.Path("."), pathlib.Path(notes)
    if what == "raise":
        before = raise_all(folder)
        notes.write_bytes(pickle.dumps((before, seen(folder))))
        return print(*before) if before else sys.exit("there is nothing of Spotter's")
    before, since = pickle.loads(notes.read_bytes())
    if what == "same":
        now = seen(folder)
        other = sorted(name for name in now | since if now.get(name) != since.get(name))
        return sys.exit(f"not as it was: {', '.join(other)}") if other else None
    for name, data in before.items():
        (folder / name).write_bytes(data)
    return None


if __name__ == "__main__":
    main(*sys.argv[1:])
