"""Watches a world from outside: who lives, in which stage, at which step, and when that changed."""

import datetime
import pathlib
import re
import time

GONE = ("shutting-down", "terminated", "stopped")


class Watched:
    """One instance's life: its agent's status while it lives, its console for the whole story."""

    def __init__(self, name, zone, now):
        self.id, self.zone, self.start, self.end = name, zone, now, None
        self.phases, self.marks, self.status = [], [], {}

    def alive(self):
        return self.end is None

    def row(self, now, console):
        phases, checkpoints = life(console)
        return {"id": self.id, "zone": self.zone, "to": self.end or now,
                "phases": [(self.start, "starting")] + phases, "marks": checkpoints + self.marks}


LINE = re.compile(r"^(\d{4}-\S+T\S+)\s+\w+\s+(.*)$", re.M)
# What the agent says -> what is going on from then on. A move lasts until the trainer starts.
SAID = (
    (re.compile("taking a snapshot|making a copy|recover"), "moving"),
    (re.compile("training on"), "training"),
    (re.compile("asked to checkpoint|trainer (finished|ended|failed)|syncing|detaching|released|"
                "result is durable|cancelling|gave up"), "releasing"),
)
CHECKPOINT = re.compile(r"checkpoint of step \d+ is durable")


def life(console):
    """Phases and checkpoints of an agent's log, in seconds since 1970 as its clock said."""
    phases, marks = [], []
    for stamp, text in LINE.findall(console):
        at = datetime.datetime.fromisoformat(stamp).timestamp()
        if CHECKPOINT.match(text):
            marks.append((at, "checkpoint"))
            continue
        phase = next((phase for pattern, phase in SAID if pattern.search(text)), None)
        if phase and (not phases or phases[-1][1] != phase):
            phases.append((at, phase))
    return phases, marks


class Watch:
    def __init__(self, emulator):
        self.emulator, self.began, self.birth = emulator, time.monotonic(), time.time()
        self.instances, self.asked = {}, 0

    def now(self):
        return time.monotonic() - self.began

    def in_order(self):
        return list(self.instances.values())

    def rows(self, now):
        """What picture.timeline() draws."""
        rows = [one.row(now, self.emulator.console(one.id)) for one in self.in_order()]
        for row in rows:
            for key in ("phases", "marks"):  # the console's clock is the wall's, ours starts at 0
                row[key] = [(at - self.birth if at > 1e9 else at, what) for at, what in row[key]]
        return rows

    def look(self):
        """The status files at every look, EC2 twice a second."""
        now = self.now()
        if now - self.asked >= 0.5 or not self.asked:
            self.asked = now
            for one in self.emulator.ec2.instances():
                self._instance(one, now)
        for instance in self.in_order():
            if instance.alive():
                status = self.emulator.status(instance.id)
                instance.status = status or instance.status

    def _instance(self, one, now):
        name, state = one.text("instanceId"), one.text("instanceState/name")
        if name not in self.instances:
            if state in GONE:
                return
            self.instances[name] = Watched(name, one.text("placement/availabilityZone"), now)
        watched = self.instances[name]
        if state in GONE and watched.alive():
            watched.status = self.emulator.status(name) or watched.status
            watched.end = now
            finished = watched.status.get("stage") in ("finished", "cancelling-fleet", "leaving")
            watched.marks.append((now, "finished" if finished else "killed"))


def steps_of(folder, instance):
    """The steps that the trainers of an instance did, in order, from spotter-train's own log."""
    steps = []
    for path in sorted(pathlib.Path(folder).glob(f"{instance}*.log"),
                       key=lambda path: path.stat().st_mtime_ns):
        for line in path.read_text().split("\n")[:-1]:  # a killed trainer may tear the last line
            words = line.split()
            if words and words[0].isdigit():
                steps.append(int(words[0]))
    return steps
