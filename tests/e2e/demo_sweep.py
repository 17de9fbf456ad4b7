#!/usr/bin/python3
"""A sweep, end to end: eight trainings of MNIST on a spot fleet of three, interrupted all along.

No engine but a bucket: the instances of spotter-emulator claim the experiments there, and share a
folder. Whoever trains is interrupted, with notice and without, again and again. Then the table of
the results, a plot of the learning curves, and the comparison with undisturbed runs, bit for bit.
Standard library only. `scripts/demo sweep` builds everything first.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import demo
import job as jobs
import volumes
from emulator import ROOT, Failed
from watch import Watch, steps_of

JOB = "tuning"
HOSTS = 3
EPOCHS = 3
STEPS_AN_EPOCH = 469
NOTICE_SECONDS = 12  # AWS gives 120
MOST_INTERRUPTIONS = 6  # it has to end some time
GRID = {"optimizer": ["rmsprop", "adam"], "activate_fn": ["relu", "tanh"],
        "hidden_nodes": ["256,128", "64"]}

# A log of steps for each start, outside the storage: the demo counts with it.
TRAIN = """#!/bin/sh
instance=$(echo "$SPOTTER_NOTICE_FILE" | tr / '\\n' | grep -m 1 '^i-' || echo reference)
exec "$TRAINER" --data "$MNIST" --seed SEED --threads THREADS --checkpoint-every 100 \\
  --steps-log "$STEPS/$SPOTTER_EXPERIMENT-$instance-$$.log" "$@"
""".replace("SEED", str(demo.SEED)).replace("THREADS", str(demo.THREADS))


class Sweep(demo.Demo):
    # An interruption leaves a zone without capacity for minutes.
    zones = tuple(f"us-west-2{letter}" for letter in "abcdefgh")
    broken = "user data ended with status [1-9]"  # a signal: the fleet got smaller

    def set_up(self):
        super().set_up()
        place = self.emulator.workplace
        self.shared = place / "shared"
        self.shared.mkdir()
        # For the page all stands at one place: whose an experiment is, and what became of it.
        self.bucket = self.emulator.directory / "s3" / demo.PUBLISHED

    def job(self):
        place = self.emulator.workplace
        revision = jobs.repository(place / "repository", {"train.sh": TRAIN})
        env = {"TRAINER": str(self.emulator.bin / "spotter-train"), "MNIST": str(place / "mnist"),
               "STEPS": str(place / "steps"), "OMP_NUM_THREADS": str(demo.THREADS)}
        return jobs.document(JOB, place / "repository", revision,
                             f"./train.sh --epochs {self.arguments.epochs}",
                             trainer={"env": env, "result": "result/weights.bin"},
                             storage={"folder": {"path": str(self.shared)}},
                             sweep={"grid": GRID},
                             claims={"at": f"s3://{demo.PUBLISHED}", "lease": "5s"},
                             publish=f"s3://{demo.PUBLISHED}")

    def launch(self):
        emulator, client = self.emulator, self.emulator.ec2
        text = jobs.yaml(self.job())
        self.job_file = emulator.workplace / "job.yaml"
        self.job_file.write_text(text + "\n")
        self.sets = [json.loads(line[2:]) for line in self.spotter("expand").splitlines()]
        template = client.create_template(JOB, jobs.user_data(emulator.bin, text, restart=True))
        emulator.allow_only(text)
        self.fleet = client.request_spot_fleet(template, emulator.zones, HOSTS,
                                               tags={"spotter:job": JOB})
        self.watch = Watch(emulator)
        self.say(f"{len(self.sets)} experiments, fleet {self.fleet} of {HOSTS}")

    def spotter(self, *words):
        """`spotter sweep`, as a user of this machine has it."""
        command = [self.emulator.bin / "spotter", "sweep", words[0], self.job_file, *words[1:]]
        environment = {"PATH": os.environ["PATH"], "AWS_REGION": "us-west-2",
                       "AWS_ACCESS_KEY_ID": "AKIAEMULATOR00000000",
                       "AWS_SECRET_ACCESS_KEY": "emulator-secret",
                       "AWS_ENDPOINT_URL_S3": self.emulator.ec2.endpoint}
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, timeout=60, check=False)
        if done.returncode:
            raise Failed(f"spotter sweep {words[0]}: {done.stderr}")
        return done.stdout

    # The story

    def steps(self, index):
        """Those that were done for an experiment, on whichever instance, in their order."""
        return steps_of(self.emulator.workplace / "steps", f"{index}-")

    def done(self):
        return sum((self.shared / JOB / str(index) / "DONE").exists()
                   for index in range(len(self.sets)))

    def come_so_far(self):
        done = self.done()
        return done / len(self.sets), f"{done} of {len(self.sets)} done"

    def is_over(self):
        return self.emulator.ec2.fleet_state(self.fleet).startswith("cancelled")

    def at_work(self):
        """An instance amid a training, with some checkpoints behind it; or None."""
        most = 0.6 * self.arguments.epochs * STEPS_AN_EPOCH
        for one in self.living():
            logs = sorted((self.emulator.workplace / "steps").glob(f"*-{one.id}-*.log"),
                          key=lambda path: path.stat().st_mtime_ns)
            steps = steps_of(logs[-1].parent, logs[-1].stem) if logs else []
            if not one.marks and len(steps) >= 200 and steps[-1] <= most:
                return one
        return None

    def interrupt(self, one, number):
        if number % 2:
            self.say(f"{one.id} is killed without notice")
            self.emulator.kill(one.id)
            self.until(f"the end of {one.id}", lambda: not one.alive(), 20)
        else:
            self.say(f"notice: {one.id} will be terminated in {NOTICE_SECONDS} s")
            one.marks.append((self.watch.now(), "notice"))
            self.emulator.interrupt(one.id, NOTICE_SECONDS)

    def train(self):
        interruptions = 0
        while interruptions < MOST_INTERRUPTIONS:
            found = self.until("somebody amid a training", lambda: self.is_over() or self.at_work(),
                               180)
            if found is True:
                break
            self.interrupt(found, interruptions)
            interruptions += 1
        self.facts["interruptions"] = interruptions
        self.promise(f"it was interrupted all along: {interruptions} times", interruptions >= 4)
        self.until("the fleet to be cancelled", self.is_over, 400)
        self.until("the instances to be gone", lambda: not self.not_terminated(), 60)
        self.lasted = self.watch.now()
        self.say("finished: the last one has cancelled the fleet")

    # The reckoning

    def judge_sweep(self):
        rows = json.loads(self.spotter("results", "--json", "-"))
        by_bucket = json.loads(self.spotter("results", "--json", "-", "--from",
                                            f"s3://{demo.PUBLISHED}/{JOB}/"))
        self.promise("every experiment is done",
                     [row["state"] for row in rows] == ["done"] * len(self.sets))
        # Who is taken away behind the last claim leaves no more than that there.
        folder = {row["index"]: row for row in rows}
        self.promise("the bucket tells the same as the folder", len(by_bucket) == len(rows) and all(
            row["state"] == folder[row["index"]]["state"] and
            row["loss"] in (folder[row["index"]]["loss"], None) for row in by_bucket))
        all_steps = [self.steps(index) for index in range(len(self.sets))]
        total = max(map(max, all_steps))
        self.promise(f"each was trained from step 1 to {total}, and that one was done once",
                     all(set(steps) == set(range(1, total + 1)) and steps.count(total) == 1
                         for steps in all_steps))
        claims = [json.loads((self.bucket / f"{JOB}/{index:05d}.claim").read_text())
                  for index in range(len(self.sets))]
        self.promise("each was published once, by whoever had its claim",
                     all(claim["state"] == "done" for claim in claims) and
                     {row["index"]: row["attempt"] for row in rows} ==
                     {index: claim["token"] for index, claim in enumerate(claims)})
        done = sum(map(len, all_steps))
        self.facts.update(experiments=len(self.sets), steps_total=total * len(self.sets),
                          steps_done=done, steps_repeated=done - total * len(self.sets),
                          attempts=sum(claim["token"] for claim in claims), results=[
                              {key: row[key] for key in ("index", "parameters", "loss", "accuracy",
                                                         "seconds", "attempts")} for row in rows])

    def show_results(self):
        plot = pathlib.Path(self.arguments.plot)
        plot.parent.mkdir(parents=True, exist_ok=True)
        self.progress.clear()
        print("\n" + self.spotter("results", "--sort", "loss", "--plot", str(plot.resolve())))
        print(f"The learning curves are in {plot}", flush=True)
        self.promise("the learning curves are drawn", plot.read_text().startswith("<svg"))

    def compare(self):
        """The same trainings, undisturbed, with none of Spotter around them."""
        same = []
        for index, parameters in enumerate(self.sets):
            self.progress.bar(index / len(self.sets), "the same trainings without interruptions")
            theirs = self.reference(index, parameters)
            ours = self.shared / JOB / str(index) / "result" / "weights.bin"
            same.append(volumes.sha256(ours) == volumes.sha256(theirs))
        self.progress.clear()
        self.facts["bit_identical"] = all(same)
        self.promise(f"all {len(same)} weights are bit for bit those of undisturbed runs",
                     all(same))

    def reference(self, index, parameters):
        place = self.emulator.workplace / f"reference-{index}"
        place.mkdir()
        environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": str(demo.THREADS),
                       "SPOTTER_STORAGE": str(place), "SPOTTER_EXPERIMENT": str(index),
                       "SPOTTER_CHECKPOINTS": str(place / "checkpoints"),
                       "SPOTTER_PARAMETERS": json.dumps(parameters), "STEPS": str(place),
                       "TRAINER": str(self.emulator.bin / "spotter-train"),
                       "MNIST": str(self.emulator.workplace / "mnist")}
        script = self.emulator.workplace / "repository" / "train.sh"
        done = subprocess.run([script, "--epochs", str(self.arguments.epochs)], cwd=place,
                              env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=600, check=False)
        if done.returncode:
            raise Failed(f"the reference run ended with {done.returncode}:\n{done.stdout[-2000:]}"
                         f"{done.stderr[-2000:]}")
        return place / "result" / "weights.bin"

    def run(self):
        self.set_up()
        self.launch()
        self.train()
        self.judge_sweep()
        self.show_results()
        if self.arguments.verify:
            self.compare()

    def figures(self):
        return ("experiments {experiments}, claims {attempts}, interruptions {interruptions}; "
                "steps {steps_total}, done {steps_done}, repeated {steps_repeated}"
                .format(**self.facts))


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo sweep", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", metavar="FILE", default=str(ROOT / "build/demo-sweep.svg"),
                        help="the learning curves are drawn there")
    return demo.main(Sweep, parser, EPOCHS)


if __name__ == "__main__":
    sys.exit(main())
