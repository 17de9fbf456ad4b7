#!/usr/bin/python3
"""Each kind of scripts.py, killed again and again beside the guard: what its next start finds.

    kills.py SPOTTER [--kills N] [--seed N] [--place FOLDER] [--modes MODE...] [--everything]
             [KIND...]

A life: `spotter supervise` starts the trainer with the guard beside it; at a moment drawn by chance
either the trainer is killed with all its processes, or the guard and later the trainer, or the
machine is lost: everything ends at once, and, every second time, what the guard did not make
durable is cut short, zeros or empty, as after a power cut. Before the next life `spotter host`
verifies, as the agent has it done. With `--modes asked` the trainer gets SIGTERM, saves, and ends.
KIND may be one of strangers.py, too, which are not played by themselves.

  damaged     starts on a torn file, or on files of two saves
  by hand     starts that only a person's help made possible
  lost        steps trained again, and what a bare script would have: it has its newest whole save,
              if a person finds it
  too old     starts on less than that by more than one save, or, after a loss of power or of the
              guard itself, on less than was durable
Exit status 1: one of the first two, or of the last, is not 0.
"""

import argparse
import concurrent.futures
import contextlib
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import scripts
import strangers

HERE = pathlib.Path(__file__).resolve().parent
KINDS = {**scripts.KINDS, **strangers.KINDS}
LIMIT = 60  # seconds, of anything
MODES = ("trainer", "trainer", "guard", "machine", "power")
PR_SET_CHILD_SUBREAPER = 36


def wait(what, look):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.01)
    raise TimeoutError(what)


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def children():
    """pid -> its parent's."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    return found


def beneath(pid):
    parents, found = children(), [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def run_of(place):
    """Not on the file system under test: a share has no sockets."""
    return pathlib.Path("/dev/shm") / f"{place.name}.run"


class Life:
    """A supervisor with the guard and a trainer."""

    def __init__(self, spotter, kind, place, everything):
        self.run, self.log = run_of(place), place / "log"
        self.log.unlink(missing_ok=True)
        script = KINDS[kind]
        which = (["--files", script.files] if script.files and not everything
                 else ["--folders", "" if everything else script.folders or ""])
        self.guard = [str(spotter), "guard", "--mount", str(place / "home"), "--directory", "ckpt",
                      "--socket", str(self.run / "trainer.sock"), *which]
        program = HERE / ("scripts.py" if kind in scripts.KINDS else "strangers.py")
        spec = {"version": 1, "command": f"exec /usr/bin/python3 {program} {kind} "
                f"{place}/home/ckpt {self.log}", "shell": "/bin/sh", "user": "root",
                "log_file": str(place / "output"), "companion": self.guard, "job": "kills"}
        done = subprocess.run([spotter, "supervise", "--run-directory", self.run, "--spec", "-"],
                              input=json.dumps(spec), text=True, capture_output=True, check=False,
                              timeout=LIMIT)
        if done.returncode:
            raise RuntimeError(f"supervise: {done.stdout}{done.stderr}")
        about = json.loads((self.run / "supervisor.json").read_text())
        self.pid, self.trainer = about["pid"], about["trainer_pid"]
        self.group = about["control_group"]

    def lines(self, word):
        text = self.log.read_text() if self.log.exists() else ""
        lines = [line.split(" ", 1) for line in text.split("\n")[:-1]]
        return [line[1] for line in lines if line[0] == word]

    def started(self):
        """The step that it began from; None: it failed."""
        wait("the script to start", lambda: self.lines("start") or self.has_ended())
        return int(self.lines("start")[0]) if self.lines("start") else None

    def has_ended(self):
        return (self.run / "ended.json").exists()

    def processes_of_guard(self):
        return [pid for pid in beneath(self.pid)[1:]
                if b"\0guard\0" in read(f"/proc/{pid}/cmdline")]

    def end_trainer(self, number=signal.SIGKILL):
        kill(self.trainer, number)
        self.wait_end()

    def wait_end(self):
        wait("the end", self.has_ended)
        wait("the supervisor's end", lambda: not running(self.pid))
        ended = json.loads((self.run / "ended.json").read_text())
        (self.run / "ended.json").unlink()
        return ended

    def lose(self):
        trainer = beneath(self.pid)
        guards = self.processes_of_guard()
        for pid in [*guards, self.pid, *trainer]:
            kill(pid)
        wait("all to be dead", lambda: not any(running(pid) for pid in [*guards, *trainer]))
        shutil.rmtree(self.run)
        if self.group:
            wait("no group", lambda: not pathlib.Path(self.group).exists() or remove(self.group))


def remove(group):
    with contextlib.suppress(OSError):
        os.rmdir(group)
    return not os.path.exists(group)


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def running(pid):
    """Not a zombie either; whoever became its parent reaps it."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    state = read(f"/proc/{pid}/stat").rsplit(b")", 1)
    return len(state) == 2 and state[1].split()[0] not in (b"Z", b"X")


def recorded(home):
    """name -> row, of the newest generation."""
    path = home / ".spotter/checkpoints.json"
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {row["name"]: row for row in rows if not row.get("until")}


def is_as_recorded(path, row):
    status = path.lstat()
    return row is not None and (path.is_symlink() or (
        status.st_size == row["bytes"] and status.st_mtime_ns == row["mtime_ns"]))


def cut_power(home, chance):
    """What was not made durable is not whole any more. A database makes its own durable."""
    rows = recorded(home)
    for path in (home / "ckpt").rglob("*"):
        name = str(path.relative_to(home / "ckpt"))
        if not path.is_file() or path.is_symlink() or "study.db" in name:
            continue
        if is_as_recorded(path, rows.get(name)):
            continue
        size = path.stat().st_size
        how = chance.choice(("whole", "half", "empty", "zeros"))
        if how != "whole":
            os.truncate(path, size // 2 if how == "half" else 0)
        if how == "zeros":
            os.truncate(path, size)


def durable(life, home, resumed, counted):
    """The newest save whose files the guard has recorded: it was begun before they were written."""
    newest = max((row["mtime_ns"] for name, row in recorded(home).items()
                  if not row.get("companion") and not row.get("link")
                  and re.fullmatch(counted, name)), default=0)
    begun = [int(step) for step, at in (line.split() for line in life.lines("save"))
             if int(at) <= newest]
    return max(begun, default=resumed)


def verify(spotter, kind, home, everything):
    script = KINDS[kind]
    request = {"verb": "verify", "mount_point": str(home), "checkpoints": "ckpt"}
    if everything or not (script.files or script.folders):
        return
    request["files" if script.files else "folders"] = script.files or script.folders
    subprocess.run([spotter, "host"], input=json.dumps(request), check=True, text=True,
                   capture_output=True, timeout=LIMIT)


def end_of(life, mode, chance):
    """At any moment, or while it saves."""
    number, early = chance.randint(1, 3), chance.random() < 0.4
    if early:
        time.sleep(chance.uniform(0.02, 3))
    else:
        wait(f"save {number}", lambda: len(life.lines("save")) >= number)
        time.sleep(chance.uniform(0, 0.3))
    if mode == "guard":
        for pid in life.processes_of_guard():
            kill(pid)
        time.sleep(chance.uniform(0, 1))
    if mode == "asked":  # it saves, and ends
        life.end_trainer(signal.SIGTERM)
    elif mode in ("trainer", "guard"):
        life.end_trainer()
    else:
        life.lose()


def state_of(folder):
    """For who reads why it failed."""
    return sorted(f"{path.relative_to(folder)} {path.lstat().st_size}"
                  for path in folder.rglob("*") if not path.is_dir())


def story(kind, options):
    """Counts of one kind."""
    chance = random.Random(f"{options.seed} {kind}")
    place = pathlib.Path(tempfile.mkdtemp(prefix=f"spotter-kills-{kind}-", dir=options.place))
    home = place / "home"
    for folder in ("ckpt", ".spotter"):
        (home / folder).mkdir(parents=True)
    counts = dict.fromkeys(("kills", "damaged", "by hand", "lost", "bare", "too old"), 0)
    least, why, failures, said = 0, "", 0, []
    life = None
    try:
        while counts["kills"] < options.kills:
            before = state_of(home) if options.verbose else None
            life = Life(options.spotter, kind, place, options.everything)
            resumed = life.started()
            if resumed is None:
                life.wait_end()
                counts["damaged"] += 1
                failures += 1
                said.append(f"{kind}: {life.lines('damaged')} after {why}")
                if options.verbose:
                    print(said[-1], *before, sep="\n    ", flush=True)
                if failures > 1:  # the guard has tried another by itself
                    counts["by hand"] += 1
                    shutil.rmtree(home)
                    for folder in ("ckpt", ".spotter"):
                        (home / folder).mkdir(parents=True)
                    least = 0
                continue
            failures = 0
            if resumed < least:
                counts["too old"] += 1
                said.append(f"{kind}: resumed from {resumed}, not {least}, after {why}")
                if options.verbose:
                    print(said[-1], *before, sep="\n    ", flush=True)
            if counts["kills"]:
                counts["lost"] += max(0, reached - resumed)
                counts["bare"] += max(0, reached - whole)
            mode = chance.choice(options.modes)
            end_of(life, mode, chance)
            saved = [int(step) for step in life.lines("saved")]
            whole = max(saved, default=resumed)
            reached = max([int(line.split()[0]) for line in life.lines("save")], default=resumed)
            # One whose `latest` does not name it yet is none.
            least = min(whole, durable(life, home, resumed, KINDS[kind].counted))
            if mode in ("trainer", "machine"):
                least = max(least, whole - scripts.EVERY)
            if mode == "asked":
                least = whole
            if mode == "power":
                cut_power(home, chance)
                whole = least  # of a bare one, too, nothing else is sure
            why = f"{mode} {counts['kills']}, saved {saved}"
            counts["kills"] += 1
            life = None
            if mode in ("machine", "power"):
                verify(options.spotter, kind, home, options.everything)
    finally:
        if life is not None:
            life.lose()
        shutil.rmtree(run_of(place), ignore_errors=True)
        if not options.keep:
            shutil.rmtree(place, ignore_errors=True)
    return kind, counts, said


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spotter", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", type=pathlib.Path, default="/dev/shm")
    parser.add_argument("--at-once", type=int, default=4, help="kinds")
    parser.add_argument("--modes", nargs="+", default=MODES)
    parser.add_argument("--everything", action="store_true", help="no patterns: all that is there")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("kinds", nargs="*", default=list(scripts.KINDS))
    options = parser.parse_intermixed_args()
    options.spotter = options.spotter.resolve()
    if os.geteuid() != 0:
        print("needs root: the supervisor gives the trainer its user's rights")
        return 77
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # supervisors detach
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        for kind, counts, said in pool.map(lambda kind: story(kind, options), options.kinds):
            print(f"{kind:22} " + ", ".join(f"{count} {what}" for what, count in counts.items()),
                  *said, sep="\n    ", flush=True)
            bad += counts["damaged"] + counts["by hand"] + counts["too old"]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
