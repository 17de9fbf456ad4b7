"""What the attacks share: where they are, and how each says what answers it got.

An attack is a function that gives back what it achieved, in words; nothing where it is refused.
What it steals it writes into a file of `loot`, where the test looks for itself.
"""

import collections
import errno
import json
import os
import pathlib
import time
import traceback

STORAGE = pathlib.Path(os.environ["SPOTTER_STORAGE"])
RUN = pathlib.Path(os.environ["SPOTTER_NOTICE_FILE"]).parent
LOOT = pathlib.Path(os.environ["JOURNAL"])
VICTIM = pathlib.Path(os.environ["VICTIM"])  # files of root's and of others, not the trainer's
OWN = STORAGE / ".spotter"

answers = collections.Counter()  # of the attack that goes on


def loot(name, content):
    (LOOT / f"loot-{name}-{os.getpid()}").write_bytes(content)


def name_of(error):
    number = getattr(error, "errno", None)
    return errno.errorcode.get(number) or f"{type(error).__name__} {getattr(error, 'code', '')}"


def each(what, targets):
    """Those of the targets at which `what` succeeded, in words. Counts the answers."""
    got = []
    for target in targets:
        try:
            done = what(target) is not False
        except (OSError, ValueError) as refused:
            answers[name_of(refused).strip()] += 1
        else:
            answers["done" if done else "not done"] += 1
            got += [str(target)] if done else []
    return " ".join(got)


def listed(folder):
    """What may be seen below it, whatever may not."""
    return [pathlib.Path(place) / name
            for place, folders, files in os.walk(folder) for name in [*folders, *files]]


def roots_processes():
    """(pid, words) of the processes of root's that this one can see."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text().split("Uid:")[1].split()
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if status[0] == "0" and words.strip():  # else a thread of the kernel's
                found.append((int(entry.name), words.strip()))
        except OSError:
            pass
    return found


def carry_out(attacks):
    """Each in its turn; one line of JSON for each, in a file of this start's."""
    with open(LOOT / f"attacks-{os.getpid()}", "w", encoding="utf-8") as report:
        for attack in attacks:
            line = {"attack": attack.__name__, "got": ""}
            began = time.monotonic()
            answers.clear()
            try:
                line["got"] = str(attack() or "")
            except (OSError, ValueError) as refused:
                answers[name_of(refused)] += 1
            except Exception:  # a mistake of the attack's own is no refusal
                line["broken"] = traceback.format_exc()
            line["answers"] = dict(answers)
            line["seconds"] = round(time.monotonic() - began, 1)  # for who reads a failure
            report.write(json.dumps(line) + "\n")
            report.flush()
