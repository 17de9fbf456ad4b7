#!/usr/bin/python3
"""A sweep, end to end: eight trainings of MNIST on a spot fleet of three, interrupted all along.

No engine but a bucket: the instances of spotter-emulator claim the experiments there, and share a
folder. Whoever trains is interrupted, with notice and without, again and again. Then the table of
the results, a page with the learning curves, and the comparison with undisturbed runs, bit for bit.
With --asha 27 sets of 27 epochs, of which the hopeless ones are stopped early: how many steps that
saves, and whether the best set is the same. `scripts/demo sweep` builds everything first.
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
# Of these tests/sweep/mnist_curves.csv has the learning curves.
ASHA_GRID = {"learning_rate": [0.01, 0.001, 0.0001], "hidden_nodes": ["256,128", "64", "16"],
             "dropout_rate": [0, 0.2, 0.5]}
ASHA_EPOCHS = 27

# A log of steps for each start, outside the storage: the demo counts with it.
TRAIN = """#!/bin/sh
instance=$(echo "$SPOTTER_NOTICE_FILE" | tr / '\\n' | grep -m 1 '^i-' || echo reference)
exec "$TRAINER" --data "$MNIST" --seed SEED --threads THREADS --checkpoint-every 100 \\
  --steps-log "$STEPS/$SPOTTER_EXPERIMENT-$instance-$$.log" "$@"
""".replace("SEED", str(demo.SEED)).replace("THREADS", str(demo.THREADS))


class Sweep(demo.Demo):
    grid = GRID
    stop = {}
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
                             trainer={"env": env, "result": "result/model.safetensors"},
                             storage={"folder": {"path": str(self.shared)}},
                             sweep={"grid": self.grid, **self.stop,
                                    "objective": {"metric": "val_accuracy", "mode": "max"}},
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
        return self.command("sweep", words[0], self.job_file, *words[1:])

    def command(self, *words):
        command = [self.emulator.bin / "spotter", *words]
        done = subprocess.run(command, env=self.emulator.launcher(), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False)
        if done.returncode:
            raise Failed(f"spotter {words[0]} {words[1]}: {done.stderr}")
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
            self.until(f"the end of {one.id}", lambda: not one.alive())
        else:
            self.say(f"notice: {one.id} will be terminated in {NOTICE_SECONDS} s")
            one.marks.append((self.watch.now(), "notice"))
            self.emulator.interrupt(one.id, NOTICE_SECONDS)

    def train(self):
        interruptions = 0
        while interruptions < MOST_INTERRUPTIONS:
            found = self.until("somebody amid a training", lambda: self.is_over() or self.at_work())
            if found is True:
                break
            self.interrupt(found, interruptions)
            interruptions += 1
        self.facts["interruptions"] = interruptions
        self.promise(f"it was interrupted all along: {interruptions} times", interruptions >= 4)
        self.until("the fleet to be cancelled", self.is_over)
        self.until("the instances to be gone", lambda: not self.not_terminated())
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
        validated = [row["metrics"].get("val_accuracy") for row in rows]
        self.promise("the best by validation comes first",
                     None not in validated and validated == sorted(validated, reverse=True))
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
        page = pathlib.Path(self.arguments.page)
        page.parent.mkdir(parents=True, exist_ok=True)
        self.progress.clear()
        print("\n" + self.spotter("results"))
        self.command("report", "--job", self.job_file, "--no-prices", "--output", page.resolve())
        print(f"The learning curves are in {page}", flush=True)
        curves = json.loads(self.command("report", "--job", self.job_file, "--no-prices", "--json"))
        self.promise("the page has the learning curve of each experiment",
                     len(curves["sweep"]["experiments"]) == len(self.sets) and
                     all(each["curve"]["loss"] for each in curves["sweep"]["experiments"]))

    def compare(self):
        """The same trainings, undisturbed, with none of Spotter around them."""
        same = []
        for index, parameters in enumerate(self.sets):
            self.progress.bar(index / len(self.sets), "the same trainings without interruptions")
            theirs = self.reference(index, parameters)
            ours = self.shared / JOB / str(index) / "result" / "model.safetensors"
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
        return place / "result" / "model.safetensors"

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


class Asha(Sweep):
    grid = ASHA_GRID
    stop = {"stop": "asha"}

    def judge_sweep(self):
        rows = json.loads(self.spotter("results", "--json", "-"))
        whole = self.arguments.epochs * STEPS_AN_EPOCH
        early = [row for row in rows if row["stopped_early"]]
        ended = [row for row in rows if not row["stopped_early"]]
        self.promise("every experiment is done",
                     [row["state"] for row in rows] == ["done"] * len(self.sets))
        self.promise(f"{len(early)} of them were stopped early, the others have all their steps",
                     bool(early) and all(row["step"] < whole for row in early) and
                     all(row["step"] == whole for row in ended))
        self.promise("what was trained to its end comes first", rows[:len(ended)] == ended)
        claims = [json.loads((self.bucket / f"{JOB}/{index:05d}.claim").read_text())
                  for index in range(len(self.sets))]
        self.promise("a stop counts as no failure", all(
            (claim["state"], claim["failures"]) == ("done", 0) for claim in claims))
        done = sum(len(self.steps(index)) for index in range(len(self.sets)))
        total = whole * len(self.sets)
        best = rows[0]
        self.facts.update(experiments=len(self.sets), steps_total=total, steps_done=done,
                          steps_repeated=done - sum(row["step"] for row in rows),
                          attempts=sum(claim["token"] for claim in claims),
                          stopped_early=len(early), times_fewer=round(total / done, 2),
                          best=best["parameters"])
        self.say(f"{done} steps instead of {total}: {total / done:.1f} times fewer")
        self.compare_best(best)

    def compare_best(self, best):
        """With the full sweep, as it was recorded once: of the same epochs only."""
        recorded = recorded_curves()
        if self.arguments.epochs != len(next(iter(recorded.values()))):
            return
        full = {name: curve[-1] for name, curve in recorded.items()}
        first = max(full, key=full.get)
        name = name_of(best["parameters"])
        self.facts["same_best"] = name == first
        reached = best["metrics"]["val_accuracy"]
        self.say(f"the best set: {name}, val_accuracy {reached:.4f}; of the full sweep, as "
                 f"recorded: {first}, {full[first]:.4f}")
        self.promise("it is as good as the full sweep's best, but for 0.005",
                     full[name] >= full[first] - 0.005)

    def compare(self):
        """The best one's weights: what is stopped has none."""
        best = json.loads(self.spotter("results", "--json", "-"))[0]
        ours = self.shared / JOB / str(best["index"]) / "result" / "model.safetensors"
        self.progress.bar(0, "the best set again, without interruptions")
        theirs = self.reference(best["index"], best["parameters"])
        self.progress.clear()
        self.facts["bit_identical"] = volumes.sha256(ours) == volumes.sha256(theirs)
        self.promise("the best set's weights are bit for bit those of an undisturbed run",
                     self.facts["bit_identical"])

    def figures(self):
        return ("experiments {experiments}, {stopped_early} stopped early; steps {steps_done} "
                "instead of {steps_total}, {times_fewer} times fewer".format(**self.facts))


def name_of(parameters):
    return " ".join(f"{name}={parameters[name]}" for name in ASHA_GRID)


def recorded_curves():
    """val_accuracy by epoch, by the set's name."""
    lines = (ROOT / "tests/sweep/mnist_curves.csv").read_text().splitlines()
    pairs = [line.split(": ") for line in lines if not line.startswith("#")]
    return {name: list(map(float, values.split())) for name, values in pairs}


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo sweep", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", metavar="FILE", default=str(ROOT / "build/demo-sweep.html"),
                        help="the report is written there")
    parser.add_argument("--asha", action="store_true", help="stop hopeless experiments early")
    if "--asha" in sys.argv[1:]:
        return demo.main(Asha, parser, ASHA_EPOCHS)
    return demo.main(Sweep, parser, EPOCHS)


if __name__ == "__main__":
    sys.exit(main())
