#!/usr/bin/python3
"""A gang, end to end: one model trained by four instances of a spot fleet, any of which may go.

Real torchrun, gloo and DistributedDataParallel, on digits made on the spot, on this one machine.
All four train; one gets a notice, and later the one that leads is killed; each time the others go
on, and the fleet's replacement is taken in. When the result is there, the fleet is cancelled.
`scripts/demo gang` builds everything first.
"""

import argparse
import json
import sys
import time

import demo
import gangs
import job as jobs
import picture
from emulator import Emulator, Failed
from watch import Watch

JOB = "gang"
HOSTS = 4
EPOCHS = 30
STEPS_AN_EPOCH = 10
NOTICE_SECONDS = 15  # AWS gives 120


class Gang(demo.Demo, gangs.Journal):
    # An interruption leaves a zone without capacity for minutes.
    zones = tuple(f"us-west-2{letter}" for letter in "abcdef")
    broken = "user data ended with status [1-9]"

    def set_up(self):
        if not gangs.has_torch():
            raise Failed("python3-torch is not installed: scripts/setup")
        # Instances with a network of their own would not reach one another.
        self.emulator = Emulator(self.arguments.bin, name="demo", mode="user", zones=self.zones,
                                 seed=self.arguments.seed)
        place = self.emulator.workplace
        (self.emulator.directory / "s3/gangs").mkdir(parents=True)
        self.shared, self.journal, scratch = (
            place / name for name in ("shared", "journal", "scratch"))
        for folder, mode in ((self.shared, 0o755), (self.journal, 0o777), (scratch, 0o777)):
            folder.mkdir()
            folder.chmod(mode)
        self.gate = place / "gate"
        self.rounds = {}  # of each instance: the last that it was seen in
        self.variables = {
            **gangs.variables(self.journal, scratch), "PACE": "0.1",
            "EPOCHS": str(self.arguments.epochs), "GATE": str(self.gate),
            "HOLD": str(int(0.8 * self.arguments.epochs * STEPS_AN_EPOCH))}
        print(f"The world is in {place}\nWatch it at {self.emulator.api}/_spotter/\n", flush=True)

    def job(self):
        place = self.emulator.workplace
        revision = jobs.repository(place / "repository", {"train.py": gangs.TRAINER.read_text()})
        return jobs.document(
            JOB, place / "repository", revision, gangs.command(self.arguments.bin),
            trainer={"env": self.variables, "result": "result/weights.txt"},
            storage={"folder": {"path": str(self.shared)}},
            gang={"size": HOSTS, "min": 2, "at": "s3://gangs/all", "lease": "20s"})

    def launch(self):
        emulator, client = self.emulator, self.emulator.ec2
        text = jobs.yaml(self.job())
        template = client.create_template(JOB, jobs.user_data(emulator.bin, text, restart=True))
        emulator.allow_only(text)
        self.fleet = client.request_spot_fleet(template, emulator.zones, HOSTS,
                                               tags={"spotter:job": JOB})
        self.watch = Watch(emulator)
        self.say(f"fleet {self.fleet} of {HOSTS}")

    # The story

    def words(self):
        return self.emulator.logs()

    def record(self):
        try:
            return json.loads((self.emulator.directory / f"s3/gangs/all/{JOB}/gang").read_text())
        except (OSError, ValueError):
            return {}

    def at_work(self):
        """The instances of the round, its leader first."""
        record = self.record()
        ranks = record.get("ranks", []) if record.get("phase") == "training" else []
        return [rank.rsplit("-", 1)[0] for rank in ranks]

    def come_so_far(self):
        """Beside it: each instance's row shows when a round began there."""
        at_work, number = self.at_work(), self.record().get("round", 0)
        for one in self.living():
            if one.id in at_work and self.rounds.get(one.id) != number:
                self.rounds[one.id] = number
                one.marks.append((self.watch.now(), "round"))
        step, total = self.step(), self.arguments.epochs * STEPS_AN_EPOCH
        return step / total, f"{len(at_work)} of {HOSTS} train, step {step}"

    def all_train(self, since):
        """Until so many do steps together; says what it took."""
        def steps():
            return {member for _, ranks, when, member in self.notes()
                    if when > since and ranks == HOSTS}
        self.until(f"{HOSTS} machines to train together", lambda: len(steps()) == HOSTS)
        self.say(f"round {self.record()['round']}: {HOSTS} machines train")

    def more_steps(self, count):
        until = self.step() + count
        self.until(f"step {until}", lambda: self.step() >= until)

    def went_on(self, since):
        """(last step before, first one after) that time."""
        before = max(step for step, _, when, _ in self.notes() if when < since)
        return before, min(step for step, _, when, _ in self.notes("resumed") if when > since)

    def notice(self):
        leader = self.leader()
        one = next(each for each in self.living() if each.id != leader)
        self.say(f"notice: {one.id} will be terminated in {NOTICE_SECONDS} s")
        one.marks.append((self.watch.now(), "notice"))
        since = time.time()
        self.emulator.interrupt(one.id, NOTICE_SECONDS)
        self.until(f"{one.id} to be released", lambda: one.status.get("released"))
        self.until("the others to go on", lambda: any(
            when > since for _, _, when, _ in self.notes("resumed")))
        last = max(step for step, _, when, member in self.notes() if member == one.id)
        resumed = min(step for step, _, when, _ in self.notes("resumed") if when > since)
        self.promise(f"after the notice the others went on at the very step ({last}, then "
                     f"{resumed + 1})", resumed >= last)
        self.all_train(time.time())

    def leader(self):
        return self.until("a round", self.at_work)[0]

    def kill(self):
        leader = self.leader()
        one = next(each for each in self.living() if each.id == leader)
        self.say(f"{one.id}, which leads, is killed without notice")
        since = time.time()
        self.emulator.kill(one.id)
        self.until("the others to go on", lambda: any(
            when > since for _, _, when, _ in self.notes("resumed")))
        before, resumed = self.went_on(since)
        took = min(when for _, _, when, _ in self.notes("resumed") if when > since) - since
        self.facts.update(steps_repeated=max(0, before - resumed),
                          seconds_after_the_kill=round(took, 1))
        self.promise(f"after the kill they went on from the newest checkpoint {took:.0f} s later "
                     f"({max(0, before - resumed)} steps repeated)", 0 < resumed)
        self.all_train(time.time())

    def end(self):
        self.gate.touch()
        self.until("the fleet to be cancelled", lambda: self.emulator.ec2.fleet_state(
            self.fleet).startswith("cancelled"))
        self.until("the instances to be gone", lambda: not self.not_terminated())
        self.lasted = self.watch.now()
        self.say("finished: the first that saw the result has cancelled the fleet")

    def judge(self):
        _, least, most, right = (
            self.shared / JOB / "result/weights.txt").read_text().split()
        epochs = str(self.arguments.epochs)
        self.promise(f"each sample was trained on once in each of {epochs} epochs",
                     (least, most) == (epochs, epochs))
        self.promise(f"accuracy {float(right):.3f}", float(right) >= self.arguments.least_accuracy)
        self.promise("the record says that the gang is done", self.record()["phase"] == "done")
        self.facts.update(rounds=self.record()["round"], final_accuracy=float(right),
                          steps_total=self.step(), interruptions=2)

    def run(self):
        self.set_up()
        self.launch()
        self.all_train(0)
        self.more_steps(30)
        self.notice()
        self.more_steps(30)
        self.kill()
        self.more_steps(10)
        self.end()
        self.judge()

    def figures(self):
        return ("steps {steps_total}, repeated {steps_repeated}; rounds {rounds}; interruptions "
                "{interruptions}; accuracy {final_accuracy}".format(
                    **{"steps_repeated": "?", "rounds": "?", **self.facts}))

    def draw(self):
        super().draw()
        print(f"  {picture.Paper().cell('round')} a round of the gang begins")


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo gang", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    return demo.main(Gang, parser, EPOCHS)


if __name__ == "__main__":
    sys.exit(main())
