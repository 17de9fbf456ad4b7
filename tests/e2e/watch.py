"""Watches a world from outside: who lives, in which stage, at which step, and when that changed."""

import pathlib
import time

import picture

GONE = ("shutting-down", "terminated", "stopped")


class Watched:
    """One instance's life, as its agent's status file and EC2 told it."""

    def __init__(self, name, zone, now):
        self.id, self.zone, self.start, self.end = name, zone, now, None
        self.phases, self.marks = [(now, "starting")], []
        self.status, self.notice, self.moved = {}, None, False

    def alive(self):
        return self.end is None

    def see(self, status, now):
        stage = status.get("stage", "")
        self.moved = stage in picture.MOVING or (
            self.moved and stage not in ("fetching-code", "training"))
        phase = picture.phase(stage, self.moved)
        if phase != self.phases[-1][1]:
            self.phases.append((now, phase))
        before, after = (one.get("checkpoint_step") or -1 for one in (self.status, status))
        if after > before and phase in ("training", "letting go"):
            self.marks.append((now, "checkpoint"))
        self.status = status

    def row(self, now):
        return {"id": self.id, "zone": self.zone, "from": self.start, "to": self.end or now,
                "phases": self.phases, "marks": self.marks}


class Watch:
    def __init__(self, emulator):
        self.emulator, self.began = emulator, time.monotonic()
        self.instances, self.asked = {}, 0

    def now(self):
        return time.monotonic() - self.began

    def in_order(self):
        return list(self.instances.values())

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
                if status:
                    instance.see(status, now)

    def _instance(self, one, now):
        name, state = one.text("instanceId"), one.text("instanceState/name")
        if name not in self.instances:
            if state in GONE:
                return
            self.instances[name] = Watched(name, one.text("placement/availabilityZone"), now)
        watched = self.instances[name]
        if state in GONE and watched.alive():
            status = self.emulator.status(name)
            if status:
                watched.see(status, now)
            watched.end = now
            finished = watched.status.get("stage") == "finished"
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
