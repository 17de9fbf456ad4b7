"""`spotter sweep results` from a folder and from a bucket, of experiments in every state."""

import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import fake_trainer
from s3 import REGION, S3Test

SPOTTER = os.environ.get("SPOTTER_PATH", "build/release/bin/spotter")
SETS = [{"lr": 0.1, "note": 'a "b", c'}, {"lr": 0.01, "note": "<&>"}, {"lr": 0.001, "note": ""},
        {"lr": 1, "note": "x"}]


def lines(*points):
    return "".join(json.dumps({"step": step, "loss": loss, "time": step, **more}) + "\n"
                   for step, loss, more in points)


class Results(S3Test):
    def setUp(self):
        super().setUp()
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="spotter-results-"))
        self.addCleanup(shutil.rmtree, self.place)
        self.job = self.place / "job.yaml"
        self.job.write_text(
            f"job: tuning\nstorage: {{folder: {{path: {self.place}}}}}\n"
            f"trainer: {{command: 'true'}}\nsweep: {{parameters: {json.dumps(SETS)}}}\n")

    def write(self, name, text):
        path = self.place / "tuning" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def experiment(self, index, *points, done=True, **account):
        account = {"seconds": 60, "trainers": 1, **account}
        self.write(f"{index}/.spotter/ledger.json", json.dumps(account))
        self.write(f"{index}/metrics.jsonl", lines(*points))
        if done:
            self.write(f"{index}/DONE", "{}")

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.place), "AWS_REGION": REGION,
                **self.served.environment, "AWS_MAX_ATTEMPTS": "2",
                "AWS_ENDPOINT_URL_S3": self.served.api}

    def results(self, *words, status=0, place=None, command=("sweep", "results")):
        done = subprocess.run((SPOTTER, *command, *words), env=self.environment(), timeout=120,
                              capture_output=True, text=True, check=False, cwd=place or self.place)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def rows(self, *words, **more):
        return list(csv.DictReader(io.StringIO(
            self.results(*words, "--csv", "-", **more).stdout)))

    def some(self):
        self.experiment(0, (1, 2.5, {}), (10, 0.5, {"accuracy": 0.8, "epoch": 1}), trainers=3)
        self.experiment(1, (1, 2.25, {}), (10, 0.25, {"accuracy": 0.9, "epoch": 1}))
        self.experiment(2, (1, 2, {"accuracy": 0.99}), done=False, failures=1)

    def test_a_table_the_best_first_and_what_is_not_done_last(self):
        self.some()
        table = self.results().stdout.splitlines()
        self.assertEqual([line.split()[:2] for line in table[1:5]],
                         [["1", "done"], ["0", "done"], ["2", "failed"], ["3", "waiting"]])
        self.assertEqual(table[0].split(), ["index", "state", "lr", "note", "epoch", "step", "loss",
                                            "accuracy", "seconds", "attempts"])
        self.assertEqual(table[2].split()[-6:], ["1", "10", "0.5", "0.8", "60", "3"])
        self.assertEqual(table[5:], [
            "no experiment has reported val_accuracy or val_loss, so the experiments are compared "
            "by accuracy of the training",
            "4 experiments, 2 done, 1 failed, 1 waiting; by accuracy, largest first"])

    def test_the_best_is_the_best_by_validation(self):
        for index, (accuracy, validated, loss) in enumerate(((0.7, 0.9, 0.2), (0.8, 0.8, 0.1),
                                                             (0.9, 0.7, 0.3))):
            self.experiment(index, (1, 2, {}), (10, 0.5, {"accuracy": accuracy,
                                                          "val_accuracy": validated,
                                                          "val_loss": loss, "time": 5.5}))
        order = ["0", "1", "2", "3"]
        self.assertEqual([row["index"] for row in self.rows()], order)
        self.assertEqual([row["val_accuracy"] for row in self.rows()], ["0.9", "0.8", "0.7", ""])
        self.assertEqual([row["index"] for row in self.rows("--sort", "accuracy")],
                         ["2", "1", "0", "3"])
        self.assertIn("3 done, 1 waiting; by val_accuracy, largest", self.results().stdout)
        plain = self.job.read_text()
        self.job.write_text(plain.replace("sweep: {", "sweep: {objective: {metric: val_loss}, "))
        self.assertEqual([row["index"] for row in self.rows()], ["1", "0", "2", "3"])
        self.job.write_text(plain.replace(
            "sweep: {", "sweep: {objective: {metric: val_f1, mode: max}, "))
        said = "no experiment has reported val_f1, the sweep's objective, so the experiments are " \
               "compared by val_accuracy"
        self.assertIn(said + "\n", self.results().stdout)
        self.assertIn(said, self.results("--csv", "-").stderr)
        self.assertEqual([row["index"] for row in self.rows()], order)
        self.job.write_text(plain.replace("sweep: {", "sweep: {objective: {metric: val_f2}, "))
        self.assertRegex(self.results(status=2).stderr,
                         r"job.yaml:4:\d+: sweep.objective: is the smallest or the largest val_f2")

    def test_csv_json_and_the_order(self):
        self.some()
        rows = self.rows("--sort", "loss:max")
        self.assertEqual([row["index"] for row in rows], ["0", "1", "2", "3"])
        self.assertEqual([row["note"] for row in rows], [each["note"] for each in SETS])
        self.assertEqual(rows[3]["loss"], "")
        self.assertEqual([row["index"] for row in self.rows("--sort", "lr")], ["1", "0", "2", "3"])
        results = json.loads(self.results("--json", "-").stdout)
        self.assertEqual([each["parameters"] for each in results], [SETS[i] for i in (1, 0, 2, 3)])
        self.assertEqual(results[0]["curve"]["loss"], [2.25, 0.25])
        self.assertEqual((results[0]["accuracy"], results[0]["metrics"]), (0.9, {}))

    def test_a_metric_that_nobody_has(self):
        self.some()
        for words, said in ((("--sort", "f1"), "no experiment has a metric 'f1'; there are: "
                             "accuracy, loss, epoch, step, seconds, attempts, index, lr"),
                            (("--sort", "loss:up"), "neither with :min nor with :max"),
                            (("--csv", "-", "--json", "-"), "cannot both")):
            self.assertIn(said, self.results(*words, status=2).stderr)

    def test_what_is_foreign_or_half_written_is_left_out(self):
        self.some()
        self.write("1/metrics.jsonl", "hello\n" + lines((7, 0.125, {})) + '{"step":9,"loss"')
        self.write("0/.spotter/ledger.json", "{")
        self.write("notes.txt", "mine")
        self.write("9/.spotter/ledger.json", "{}")
        self.write("attempt-1/DONE", "")
        done = self.results("--csv", "-")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["index"] for row in rows], ["0", "1", "2", "3"])
        self.assertEqual(rows[1]["step"], "7")
        self.assertIn("experiment 9 is left out: the job's list has 4 sets", done.stderr)

    def test_where_there_is_nothing(self):
        self.assertIn("there is no folder", self.results(status=1).stderr)
        (self.place / "tuning").mkdir()
        self.assertIn("there is no experiment in", self.results(status=1).stderr)
        self.experiment(0, done=False)
        self.assertIn("cannot read", self.results("--from", "/nowhere", status=1).stderr)
        self.assertIn("NoSuchBucket",
                      self.results("--from", "s3://no-such-bucket-here/x", status=1).stderr)
        self.job.write_text(self.job.read_text().replace(
            f"folder: {{path: {self.place}}}", "nfs: {server: files.example, path: /, mount: "
                                               f"{self.place}/mnt}}"))
        self.assertIn("is not mounted at", self.results(status=1).stderr)

    def test_from_a_bucket_as_from_the_folder(self):
        self.some()
        of_folder = json.loads(self.results("--json", "-").stdout)
        for each in of_folder[:3]:
            self.put(f"claims/{each['index']:05}.result", json.dumps(each).encode())
        claim = {"state": "held", "token": 2, "holder": "i-1", "nonce": "n", "span_ms": 1000,
                 "failures": 0, "parent": ""}
        self.put("claims/00003.claim", json.dumps(claim).encode())
        self.put("claims/00001.claim", b"{}")
        self.put("claims/readme.txt", b"mine")
        place = f"s3://{self.bucket}/claims"
        rows = self.rows("--from", place, place="/")  # no job.yaml: as the results say
        self.assertEqual([(row["index"], row["state"], row["lr"]) for row in rows],
                         [("1", "done", "0.01"), ("0", "done", "0.1"), ("3", "running", ""),
                          ("2", "failed", "0.001")])
        self.assertEqual([row["lr"] for row in self.rows("--from", place)],
                         ["0.01", "0.1", "1", "0.001"])
        # A job that has claims, and whose share is not mounted here.
        for key in self.keys(Prefix="claims/0"):
            self.put(key.replace("claims", "claims/tuning"), self.get(key))
        with open(self.job, "a", encoding="utf-8") as job:
            job.write(f"claims: {{at: '{place}'}}\n")
        self.assertEqual(self.rows()[0]["model"], "", "from the folder")
        shutil.move(self.place / "tuning", self.place / "elsewhere")
        self.assertEqual([row["index"] for row in self.rows()], ["1", "0", "3", "2"])
        self.put("claims/00000.result", b'{"version":1,"ind')
        done = self.results("--from", place)
        self.assertIn("00000.result: not JSON", done.stderr)
        self.assertIn("there is no experiment at",
                      self.results("--from", f"s3://{self.bucket}/other", status=1).stderr)

    def home(self, index, curve):
        """One in the bucket, as Spotter commits it."""
        files = [{"path": path, "bytes": len(data), "mtime_ns": 0, "group": "1",
                  "sum": fake_trainer.xxh3_128(data), "data": data}
                 for path, data in ((".spotter/ledger.json", b'{"seconds":60,"trainers":1}'),
                                    ("metrics.jsonl", curve))]
        place = f"kept/homes/tuning/{index}/"
        for each in files:
            self.put(f"{place}data/1/{each['sum']}-{each['bytes']}", each.pop("data"))
        body = json.dumps({"format": 1, "job": f"tuning:{index}", "files": files},
                          separators=(",", ":"))[:-1]
        manifest = f"manifests/1-{fake_trainer.xxh3_128(body.encode())}.json"
        self.put(place + manifest, f'{body},"xxh3_128":"'
                                   f'{fake_trainer.xxh3_128(body.encode())}"}}\n'.encode())
        head = {"version": 1, "epoch": 1, "state": "done", "holder": "i-1", "commits": 1,
                "job": f"tuning:{index}", "manifest": manifest, "bytes": len(curve)}
        self.put(f"kept/heads/tuning/{index}/head.json", json.dumps(head).encode())

    def test_of_many_homes_not_all_curves_are_kept_at_once(self):
        homes, most = 160, 150 << 20
        curve = "".join(json.dumps({"step": step, "loss": 1 / (step + 1), "time": step,
                                    "unknown": "x" * 16_000}) + "\n" for step in range(100))
        for index in range(homes):
            self.home(index, curve.encode())
        self.assertGreater(homes * len(curve), 1.5 * most)
        self.job.write_text(
            f"job: tuning\nstorage: {{s3: 's3://{self.bucket}/kept'}}\n"
            f"trainer: {{command: 'true'}}\nsweep: {{grid: {{lr: {list(range(homes))}}}}}\n")
        with open(self.place / "rows", "w+", encoding="utf-8") as output:
            child = subprocess.Popen((SPOTTER, "sweep", "results", "--csv", "-"), cwd=self.place,
                                     env=self.environment(), stdout=output)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            output.seek(0)
            rows = list(csv.DictReader(output))
        self.assertEqual(child.returncode, 0)
        self.assertEqual([(row["state"], row["step"], row["loss"]) for row in rows],
                         [("done", "99", "0.01")] * homes)
        self.assertLess(used.ru_maxrss << 10, most)
        report = self.results("--json", "--no-prices", command=("report",)).stdout
        self.assertEqual(len(json.loads(report)["sweep"]["experiments"]), homes)


if __name__ == "__main__":
    unittest.main()
