#!/usr/bin/python3
"""The main job, end to end: a real training that survives two interruptions of its instances.

A world of spotter-emulator with two zones, one volume and a spot fleet of one; real MNIST; the
first instance is interrupted with notice, the second dies without, the third finishes. Then the
same training without interruptions, and the comparison of the weights, bit for bit.
Standard library only. `scripts/demo` builds everything first.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import job as jobs
import picture
import volumes
from emulator import LIMIT, ROOT, Emulator, Failed
from watch import Watch, steps_of

JOB = "mnist-mlp"
SEED = 7
THREADS = 1  # the fastest with batches this small, and the steadiest on a busy machine
PUBLISHED = "histories"  # the bucket in which the job's history is, for the page
NOTICE_SECONDS = 20  # AWS gives 120; nobody wants to watch that
STOP_GRACE = "8s"    # of these the trainer's; the rest is for the release, on a busy machine, too
STEP_MILLISECONDS = 8  # at least: a fast machine must not be done within the notice's time

# The user's own program: the repository's train.sh. The rest comes from job.yaml.
TRAIN = """#!/bin/sh
# One log of steps for each start, outside the volume: the demo counts with it.
instance=${SPOTTER_NOTICE_FILE%/run/notice}
exec "$TRAINER" --data "$MNIST" --hidden 256,128 --seed SEED --threads THREADS --batch-size 128 \\
  --checkpoint-every 300 --steps-log "$STEPS/${instance##*/}-$$.log" "$@"
"""


def train_script():
    return TRAIN.replace("SEED", str(SEED)).replace("THREADS", str(THREADS))


class Demo:
    zones = ("us-west-2a", "us-west-2b")
    kept_volumes = 1
    broken = "user data ended with (status [1-9]|signal)"  # what a console says of its agent

    def __init__(self, arguments):
        self.arguments = arguments
        self.progress = picture.Progress()
        self.promises = []  # (words, kept)
        self.facts = {}
        self.emulator = self.watch = None

    # The pieces

    def promise(self, words, kept):
        self.promises.append((words, bool(kept)))
        return kept

    def say(self, text):
        self.progress.say(self.watch.now() if self.watch else 0.0, text)

    def until(self, what, condition):
        """Watches until condition() holds. What happens meanwhile is seen, drawn and remembered."""
        end = time.monotonic() + LIMIT
        while True:
            self.watch.look()
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise Failed(f"waited {LIMIT} s in vain for: {what}")
            for one in self.living():
                if re.search(self.broken, self.emulator.console(one.id)):
                    raise Failed(f"the agent on {one.id} ended")
            share, where = self.come_so_far()
            self.progress.bar(share, f"{where}, waiting for: {what}")
            time.sleep(0.1)

    def living(self):
        return [one for one in self.watch.in_order() if one.alive()]

    def come_so_far(self):
        living = self.living()
        status = living[-1].status if living else {}
        step, total = max(0, status.get("step") or 0), status.get("steps_total") or 0
        stage = status.get("stage", "waiting for an instance")
        return step / total if total > 0 else 0, f"{stage}, step {step}"

    def set_up(self):
        mode = "user" if self.arguments.user_mode else "auto"
        self.emulator = Emulator(self.arguments.bin, name="demo", mode=mode,
                                 zones=self.zones, seed=self.arguments.seed)
        (self.emulator.directory / "s3" / PUBLISHED).mkdir(parents=True, exist_ok=True)
        place = self.emulator.workplace
        shutil.copytree(self.arguments.data, place / "mnist", copy_function=shutil.copyfile)
        (place / "steps").mkdir()
        (place / "steps").chmod(0o777)  # the trainer's user writes its logs there
        how = {"root": "as root: loop devices, a real xfs, namespaces, IMDS at 169.254.169.254",
               "user": "as an ordinary user: volumes are directories, IMDS on loopback"}
        print(f"The world runs {how.get(self.emulator.mode, self.emulator.mode)}.\n"
              f"It is in {place}\n"
              f"Watch it at {self.emulator.api}/_spotter/\n", flush=True)

    def job(self):
        place = self.emulator.workplace
        revision = jobs.repository(place / "repository", {"train.sh": train_script()})
        env = {"TRAINER": str(self.emulator.bin / "spotter-train"),
               "MNIST": str(place / "mnist"), "STEPS": str(place / "steps"),
               "OMP_NUM_THREADS": str(THREADS)}
        command = f"./train.sh --epochs {self.arguments.epochs} --slow-down {STEP_MILLISECONDS}"
        return jobs.document(JOB, place / "repository", revision, command,
                             trainer={"env": env, "result": "result/model.safetensors",
                                      "stop_grace": STOP_GRACE},
                             fence=f"s3://{PUBLISHED}/fence",
                             publish=f"s3://{PUBLISHED}/demo")

    def make_storage(self):
        """What the job's state is on, in words."""
        zone = self.emulator.zones[0]
        return f"volume {self.emulator.ec2.create_volume(zone, jobs.volume_tags(jobs.TAG, JOB))} " \
               f"in {zone}"

    def launch(self):
        emulator, client = self.emulator, self.emulator.ec2
        storage = self.make_storage()
        text = jobs.yaml(self.job())
        script = jobs.user_data(emulator.bin, text)
        template = client.create_template(JOB, script)
        emulator.allow_only(text)
        self.fleet = client.request_spot_fleet(template, emulator.zones,
                                               tags={"spotter:job": JOB})
        self.watch = Watch(emulator)
        self.say(f"{storage}, fleet {self.fleet} of one")

    # The story

    def number(self, index):
        return self.until(f"instance {index}", lambda: self.watch.in_order()[index - 1:index])[0]

    def training_until(self, instance, share):
        """Until the instance is at that share of the job, in the middle of an epoch."""
        def there():
            status = instance.status
            if not instance.alive():
                raise Failed(f"{instance.id} ended before it should")
            total, step = status.get("steps_total") or 0, status.get("step") or 0
            if status.get("stage") != "training" or total <= 0:
                return False
            epoch = total / self.arguments.epochs
            return step >= share * total and 0.2 < step / epoch % 1 < 0.9
        self.until(f"step {share:.0%} on {instance.id}", there)

    def first(self):
        one = self.number(1)
        self.say(f"{one.id} runs in {one.zone}")
        # Early: it goes on training in the notice's time, and must not finish there.
        self.training_until(one, 0.15)
        self.say(f"notice: {one.id} will be terminated in {NOTICE_SECONDS} s")
        deadline = self.watch.now() + NOTICE_SECONDS
        one.marks.append((self.watch.now(), "notice"))
        self.emulator.interrupt(one.id, NOTICE_SECONDS)
        self.until("the volume to be released, or its end",
                   lambda: one.status.get("released") or not one.alive())
        left = max(0, deadline - self.watch.now())
        self.facts["released_seconds_before_deadline"] = round(left, 2)
        self.promise(f"{one.id} had checkpointed and released {left:.1f} s before its deadline",
                     one.status.get("released"))
        self.say(f"{one.id} released everything {left:.1f} s before the deadline")
        self.until(f"the end of {one.id}", lambda: not one.alive())

    def second(self):
        one, two = self.watch.in_order()[0], self.number(2)
        self.say(f"{two.id} runs in {two.zone}")
        self.promise(f"its successor {two.id} is in another zone ({one.zone}, then {two.zone})",
                     one.zone != two.zone)
        self.training_until(two, 0.6)
        self.say(f"{two.id} resumed at step {two.status.get('resumed_step')}; "
                 "it is killed without notice")
        self.emulator.kill(two.id)
        self.newest = self.newest_durable(two)
        self.until(f"the end of {two.id}", lambda: not two.alive())

    def third(self):
        three = self.number(3)
        self.say(f"{three.id} runs in {three.zone}")
        self.until("the fleet to be cancelled", lambda: self.emulator.ec2.fleet_state(
            self.fleet).startswith("cancelled"))
        self.until("the instances to be gone", lambda: not self.not_terminated())
        self.until("the fleet to be at rest",
                   lambda: self.emulator.ec2.fleet_state(self.fleet) == "cancelled")
        self.lasted = self.watch.now()
        self.say("finished: the fleet is cancelled, its instances are gone")

    def not_terminated(self):
        return [one.text("instanceId") for one in self.emulator.ec2.instances()
                if one.text("instanceState/name") != "terminated"]

    def newest_durable(self, two):
        """The step of the newest checkpoint that the death of this instance cannot take."""
        self.watch.look()
        return two.status.get("checkpoint_step") or 0

    # The reckoning

    def judge_steps(self):
        folder = self.emulator.workplace / "steps"
        instances = self.watch.in_order()
        done = [steps_of(folder, one.id) for one in instances]
        flat = [step for steps in done for step in steps]
        total = len(set(flat))
        last = [steps[-1] if steps else 0 for steps in done]
        resumed = [one.status.get("resumed_step") or 0 for one in instances]
        first = [steps[0] if steps else 0 for steps in done]
        self.facts.update(
            steps_total=total, steps_done=len(flat), steps_repeated=len(flat) - total,
            steps_repeated_after_notice=max(0, last[0] - (first[1] - 1)),
            instances=[{"id": one.id, "zone": one.zone, "from_step": first[index],
                        "to_step": last[index], "seconds": round((one.end or 0) - one.start, 1)}
                       for index, one in enumerate(instances)])
        self.promise(f"every step from 1 to {total} was done",
                     set(flat) == set(range(1, max(flat, default=0) + 1)) and total)
        self.promise(f"after the notice it went on at the very step ({last[0]}, then {first[1]})",
                     first[1] == last[0] + 1 and resumed[1] == last[0])
        self.promise("after the kill it went on from the newest durable checkpoint, step "
                     f"{resumed[2]} ({last[1] - resumed[2]} steps repeated)",
                     first[2] == resumed[2] + 1 and self.newest <= resumed[2] <= last[1])

    def judge_world(self):
        client = self.emulator.ec2
        kept = [one.text("volumeId") for one in client.volumes()]
        snapshots = [one.text("snapshotId") for one in client.snapshots()]
        state = client.fleet_state(self.fleet)
        alive = self.not_terminated()
        self.facts.update(
            fleet_state=state, leaked_volumes=len(kept) - self.kept_volumes,
            leaked_snapshots=len(snapshots),
            leaked_instances=len(alive), interruptions=len(self.watch.in_order()) - 1)
        self.promise("the fleet is cancelled and its instances are terminated",
                     state == "cancelled" and not alive)
        self.promise("nothing is left but one volume" if self.kept_volumes else
                     "no volume and no snapshot is left",
                     len(kept) == self.kept_volumes and not snapshots)
        return kept

    def reference(self):
        """The same training, uninterrupted, with none of Spotter around it."""
        place = self.emulator.workplace / "reference"
        place.mkdir()
        environment = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": str(THREADS),
                       "SPOTTER_STORAGE": str(place),
                       "SPOTTER_CHECKPOINTS": str(place / "checkpoints")}
        script = self.emulator.workplace / "repository" / "train.sh"
        environment |= {"TRAINER": str(self.emulator.bin / "spotter-train"),
                        "MNIST": str(self.emulator.workplace / "mnist"), "STEPS": str(place),
                        "SPOTTER_NOTICE_FILE": "reference/run/notice"}
        total = self.facts["steps_total"]
        with open(place / "output", "wb") as output:
            trainer = subprocess.Popen([script, "--epochs", str(self.arguments.epochs)],
                                       env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, cwd=place, start_new_session=True)
        try:
            while trainer.poll() is None:
                done = len(steps_of(place, "reference")) if self.progress.live else 0
                self.progress.bar(done / max(1, total), "the same training without interruptions")
                time.sleep(0.2)
        finally:
            if trainer.poll() is None:
                os.killpg(trainer.pid, signal.SIGKILL)
                trainer.wait()
        self.progress.clear()
        if trainer.returncode:
            raise Failed(f"the reference run ended with {trainer.returncode}:\n"
                         + (place / "output").read_text(errors="replace")[-2000:])
        return place

    def result(self, kept):
        """The folder of the job's result, where the job left it."""
        if len(kept) != 1:
            raise Failed(f"cannot compare: the volumes are {kept}")
        return volumes.copy_out(self.emulator, kept[0], "result")

    def compare(self, kept):
        self.emulator.stop()
        result = self.result(kept)
        metrics = json.loads((result / "metrics.json").read_text())
        self.facts["final_accuracy"] = metrics.get("accuracy", metrics.get("test_accuracy"))
        accuracy = self.facts["final_accuracy"]
        self.promise(f"test accuracy {accuracy:.4f}", accuracy >= self.arguments.least_accuracy)
        if not self.arguments.verify:
            self.facts["bit_identical"] = None
            return
        self.say("the same training once more, without interruptions")
        ours = volumes.sha256(result / "model.safetensors")
        theirs = volumes.sha256(self.reference() / "result" / "model.safetensors")
        self.facts.update(weights_sha256=ours, reference_sha256=theirs,
                          bit_identical=ours == theirs)
        self.promise(f"the weights are bit for bit those of an uninterrupted run ({ours[:12]})",
                     ours == theirs)

    def run(self):
        self.set_up()
        self.launch()
        self.first()
        self.second()
        self.third()
        self.judge_steps()
        self.compare(self.judge_world())

    def figures(self):
        return ("steps {steps_total}, done {steps_done}, repeated {steps_repeated}; "
                "interruptions {interruptions}; test accuracy {final_accuracy}"
                .format(**{"final_accuracy": "?", "interruptions": "?", **self.facts}))

    def draw(self):
        paper = picture.Paper()
        width = min(110, shutil.get_terminal_size((100, 24)).columns - 2)
        now = getattr(self, "lasted", self.watch.now())
        lines = picture.timeline(self.watch.rows(now), now, width, paper)
        print("\n" + "\n".join(lines) + "\n\n" + "\n".join(picture.verdicts(self.promises, paper)))
        if "steps_total" in self.facts:
            print("\n  " + self.figures())


def arguments(parser, epochs):
    parser.add_argument("--verify", action=argparse.BooleanOptionalAction, default=True,
                        help="run the uninterrupted training, too, and compare (the default)")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="write the facts there")
    parser.add_argument("--keep", action="store_true", help="keep the world's directory")
    parser.add_argument("--user-mode", action="store_true", help="no loop devices and namespaces")
    parser.add_argument("--epochs", type=int, default=epochs, help="of each training")
    parser.add_argument("--seed", type=int, default=1, help="of the world, not of the training")
    parser.add_argument("--least-accuracy", type=float, default=0.9, help=argparse.SUPPRESS)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"), help="the binaries")
    parser.add_argument("--data", default=str(ROOT / "build/mnist"), help="MNIST's files")
    return parser.parse_args()


def main(story, parser, epochs):
    # A polite end is handled as a Ctrl-C is, and that even where it was ignored (a script's `&`).
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    demo = story(arguments(parser, epochs))
    trouble = None
    try:
        demo.run()
    except (Failed, OSError, subprocess.SubprocessError) as failure:
        trouble = str(failure)
    except KeyboardInterrupt:
        trouble = "stopped by the user"
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # cleaning up is not to be interrupted
    demo.progress.clear()
    if demo.emulator:
        if demo.watch and demo.watch.instances:
            demo.draw()
        if trouble and trouble != "stopped by the user":
            print(demo.emulator.logs(), file=sys.stderr)
        remains = demo.emulator.close(keep=demo.arguments.keep)
        demo.promise("no process, mount or loop device is left behind", not remains)
        for line in remains:
            print(f"left behind: {line}", file=sys.stderr)
    held = not trouble and all(kept for _, kept in demo.promises)
    facts = {"held": held, "mode": getattr(demo.emulator, "mode", None), "trouble": trouble,
             "promises": [{"promise": text, "kept": kept} for text, kept in demo.promises],
             **demo.facts}
    if demo.arguments.json:
        demo.arguments.json.write_text(json.dumps(facts, indent=2) + "\n")
    if trouble:
        print(f"\nscripts/demo: {trouble}", file=sys.stderr)
    if trouble != "stopped by the user":
        print("\nEvery promise held." if held else "\nNot every promise held.")
    return 0 if held else 130 if trouble == "stopped by the user" else 1


if __name__ == "__main__":
    sys.exit(main(Demo, argparse.ArgumentParser(
        prog="scripts/demo", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter), epochs=6))
