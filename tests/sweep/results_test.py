"""`spotter sweep results` from a folder and from a bucket, of experiments in every state."""

import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

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

    def results(self, *words, status=0, place=None):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.place), "AWS_REGION": REGION,
                       "AWS_ACCESS_KEY_ID": "AKIAEMULATOR00000000", "AWS_MAX_ATTEMPTS": "2",
                       "AWS_SECRET_ACCESS_KEY": "emulator-secret",
                       "AWS_ENDPOINT_URL_S3": self.served.api}
        done = subprocess.run((SPOTTER, "sweep", "results", *words), env=environment, text=True,
                              capture_output=True, timeout=120, check=False,
                              cwd=place or self.place)
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
        self.assertEqual(table[5], "4 experiments, 2 done, 1 failed, 1 waiting; by accuracy, "
                                   "largest first")

    def test_csv_json_and_the_order(self):
        self.some()
        rows = self.rows("--sort", "loss:max")
        self.assertEqual([row["index"] for row in rows], ["0", "1", "2", "3"])
        self.assertEqual([row["note"] for row in rows], [each["note"] for each in SETS])
        self.assertEqual(rows[3]["loss"], "")
        self.assertEqual([row["index"] for row in self.rows("--sort", "lr")], ["1", "0", "2", "3"])
        told = json.loads(self.results("--json", "-").stdout)
        self.assertEqual([each["parameters"] for each in told], [SETS[i] for i in (1, 0, 2, 3)])
        self.assertEqual(told[0]["curve"]["loss"], [2.25, 0.25])
        self.assertEqual(told[0]["accuracy"], 0.9)

    def test_a_plot_with_a_curve_of_each(self):
        self.some()
        self.results("--plot", "curves.svg")
        text = (self.place / "curves.svg").read_text()
        root = xml.etree.ElementTree.fromstring(text)
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(root.tag, space + "svg")
        titles = [title.text for title in root.iter(space + "title")]
        self.assertTrue(any(title.startswith("experiment 1: lr=0.01  note=<&>; accuracy 0.9, done")
                            for title in titles), titles)
        self.assertNotIn("nan", text)
        self.assertNotIn("http", text.replace("http://www.w3.org/2000/svg", ""), "all is in it")

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
        self.assertIn("there is no curve to plot", self.results("--plot", "x", status=1).stderr)
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


if __name__ == "__main__":
    unittest.main()
