"""A sweep as an array of somebody else's engine: each task runs its experiment, once to its end."""

import csv
import io
import json
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fake_trainer
import harness
import run
from emulator import wait

SETS = [{"lr": 0.1, "name": "a b"}, {"lr": 0.01, "name": "it's"}, {"lr": 1e-3, "name": "c"}]


class SweepArray(run.RunCase):
    def setUp(self):
        super().setUp()
        self.job = self.place / "job.yaml"
        (self.place / "sets.yml").write_text("".join(f"- {json.dumps(each)}\n" for each in SETS))
        self.describe("./sets.yml")

    def describe(self, parameters):
        self.job.write_text(
            f"job: tuning\nstorage: {{folder: {{path: {self.storage}}}}}\n"
            "trainer: {command: 'true --lr={lr} {name}'}\n"
            f"sweep: {{parameters: {parameters}}}\n")

    def task(self, *words, index, **more):
        place = self.place / f"run-{index}"
        place.mkdir(exist_ok=True)
        return self.start(*words, options=("--job", str(self.job)), SPOTTER_RUN=str(place),
                          AWS_BATCH_JOB_ARRAY_INDEX=index, AWS_BATCH_JOB_ARRAY_SIZE="3", **more)

    def home(self, index):
        return self.storage / "tuning" / index

    def test_each_has_its_set_and_its_folder(self):
        tell = ('printf "%s|%s|%s|" "$0" "$1" "$SPOTTER_EXPERIMENT" >"$SPOTTER_MODEL/said"; '
                'cat "$SPOTTER_PARAMETERS_FILE" >>"$SPOTTER_MODEL/said"')
        tasks = [self.task("/bin/sh", "-c", tell, "{lr}", "<{name}>", index=str(index))
                 for index in range(3)]
        self.assertEqual([self.end(task) for task in tasks], [0, 0, 0], self.output.read_text())
        for index, each in enumerate(SETS):
            said = (self.home(str(index)) / "model" / "said").read_text()
            rate, name, number, parameters = said.split("|")
            self.assertEqual((float(rate), name), (each["lr"], f"<{each['name']}>"))
            self.assertEqual(number, str(index))
            self.assertEqual(json.loads(parameters), each)
            self.assertTrue((self.home(str(index)) / "DONE").exists())

    def test_an_interrupted_one_goes_on_and_its_neighbour_is_left_alone(self):
        first = self.task("/usr/bin/python3", str(run.TRAINER), index="1")
        wait("some steps", lambda: len(self.steps_done()) >= 5)
        first.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(first), 75)
        stopped = len(self.steps_done())
        self.assertEqual(self.end(self.task("/bin/true", index="2")), 0)
        self.assertEqual(self.end(self.task("/usr/bin/python3", str(run.TRAINER), index="1")), 0)
        self.assertEqual(self.steps_done(), list(range(1, self.steps + 1)), "each step once")
        self.assertEqual((self.home("1") / "result" / "weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        metrics = (self.home("1") / "metrics.jsonl").read_text().splitlines()
        points = [json.loads(line) for line in metrics]
        steps = [point["step"] for point in points]
        self.assertEqual(steps, sorted(set(steps)), "none twice, none going back")
        self.assertTrue(all(abs(point["loss"] * point["step"] - 1) < 1e-9 for point in points))
        self.assertTrue(steps[0] <= stopped < steps[-1], f"of both runs: {steps}")
        self.assertIn(f"stopped at step {stopped}",
                      (self.home("1") / "log" / "trainer.log").read_text())
        homes = sorted(path.name for path in (self.storage / "tuning").iterdir())
        self.assertEqual(homes, ["1", "2"])

    def results(self, *words):
        done = subprocess.run([f"{harness.BINARIES}/spotter", "sweep", "results", str(self.job),
                               *words], env=self.environment, capture_output=True, text=True,
                              check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_results_are_in_one_place_whatever_came_between(self):
        trainer = ("/usr/bin/python3", str(run.TRAINER))
        tasks = [self.task(*trainer, index=str(index), STEPS=str(20 + 10 * index), PACE=pace,
                           VALIDATE="1")
                 for index, pace in enumerate(("0.1", "1", "0.1"))]
        wait("a checkpoint", lambda: list(self.home("1").glob("checkpoints/step-*")))
        tasks[1].send_signal(signal.SIGTERM)
        self.assertEqual([self.end(task) for task in tasks], [0, 75, 0], self.output.read_text())
        states = {row["index"]: row["state"]
                  for row in csv.DictReader(io.StringIO(self.results("--csv", "-")))}
        self.assertEqual(states, {"0": "done", "1": "stopped", "2": "done"})
        self.assertEqual(self.end(self.task(*trainer, index="1", STEPS="30",
                                            VALIDATE="1")), 0)
        table = self.results("--csv", f"{self.place}/r.csv",
                             "--json", f"{self.place}/r.json").splitlines()
        self.assertEqual(table[0].split()[:4], ["index", "state", "lr", "name"])
        self.assertEqual([line.split()[0] for line in table[1:4]], ["0", "1", "2"])
        self.assertEqual(table[-1], "3 experiments, 3 done; by val_accuracy, largest first")
        by_loss = csv.DictReader(io.StringIO(self.results("--csv", "-", "--sort", "loss")))
        self.assertEqual([row["index"] for row in by_loss], ["2", "1", "0"])
        curve = (self.home("1") / "metrics.jsonl").read_text().splitlines()
        self.assertEqual(json.loads(curve[-1])["val_accuracy"], 1 / 30)
        rows = list(csv.DictReader(io.StringIO((self.place / "r.csv").read_text())))
        self.assertEqual([(row["index"], row["state"], row["name"], row["attempts"])
                          for row in rows], [("0", "done", "a b", "1"), ("1", "done", "it's", "2"),
                                             ("2", "done", "c", "1")])
        self.assertEqual([float(row["val_accuracy"]) for row in rows], [1 / 20, 1 / 30, 1 / 40])
        for result, row in zip(json.loads((self.place / "r.json").read_text()), rows):
            self.assertEqual(result["parameters"], SETS[result["index"]])
            steps = result["curve"]["step"]
            self.assertEqual((steps, steps[-1]), (sorted(set(steps)), int(row["step"])))
            self.assertAlmostEqual(result["loss"], 1 / steps[-1])

    def test_what_does_not_fit_is_said_before_anything_starts(self):
        self.assertEqual(self.end(self.task("/bin/true", index="3")), 2)
        self.assertTrue(self.said("AWS_BATCH_JOB_ARRAY_INDEX=3, but the sweep's list has 3 sets"))
        self.assertEqual(self.end(self.task("/bin/echo", "{size}", index="0")), 2)
        self.assertTrue(self.said("the command has {size}, which is no parameter here"))
        plain = subprocess.run([f"{harness.BINARIES}/spotter", "run", "--job", str(self.job)],
                               env=self.environment, capture_output=True, text=True, check=False,
                               timeout=60)
        self.assertEqual(plain.returncode, 2)
        self.assertIn("nothing says which experiment this is", plain.stderr)
        self.describe("[]")
        self.assertEqual(self.end(self.task("/bin/true", index="0")), 2)
        self.assertTrue(self.said("the list is empty"))
        self.assertEqual(list(self.storage.iterdir()), [])


if __name__ == "__main__":
    harness.main()
