#!/usr/bin/python3
"""The page against a real emulator with a real small job: whoever presses *interrupt* sees the
notice, then the job going on elsewhere. tests/page/live.mjs holds the browser's side."""

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import ec2  # noqa: E402
from emulator import Failed, wait  # noqa: E402
from harness import Story, main  # noqa: E402

BUCKET = "histories"


class Page(Story):
    job_name = "digits"

    def browser(self, *arguments):
        done = subprocess.run(["node", HERE / "live.mjs", self.world.api, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              env={**os.environ, "SPOTTER_BIN": str(self.bin)})
        if done.returncode == 77:
            self.skipTest(done.stdout.strip().splitlines()[-1])
        if done.returncode:
            raise Failed(f"the browser's side ended with {done.returncode}:\n{done.stdout}")

    @property
    def bin(self):
        return pathlib.Path(os.environ.get("SPOTTER_BIN") or HERE.parents[1] / "build/release/bin")

    def setUp(self):
        super().setUp()
        (self.world.directory / "s3" / BUCKET).mkdir(parents=True, exist_ok=True)

    def begin(self, steps):
        self.volume()
        job = self.job(env={"STEPS": str(steps), "PACE": "0.05", "FORMAT": "spotter"},
                       publish=f"s3://{BUCKET}/jobs")
        instance = self.launch(job, zones=self.world.zones)
        self.wait_training(instance, 20)
        return instance

    def test_interrupt_leads_to_a_resumed_run(self):
        self.browser("interrupt", self.begin(4000))

    def test_with_the_keyboard_alone(self):
        self.browser("keyboard", self.begin(4000))

    def model(self, query="", url=None):
        url = url or f"{self.world.api}/_spotter/"
        with urllib.request.urlopen(f"{url}model{query}") as answer:
            return json.load(answer)

    def test_a_laptop_serves_what_is_published(self):
        instance = self.begin(4000)
        process = subprocess.Popen(
            [self.bin / "spotter", "status", "--serve", "--job", self.job_name, "--publish",
             f"s3://{BUCKET}/jobs"], cwd=self.world.workplace, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "AWS_ENDPOINT_URL": self.world.api, "AWS_REGION": "us-west-2",
                 "AWS_ACCESS_KEY_ID": ec2.USER, "AWS_SECRET_ACCESS_KEY": self.world.secret})
        try:
            url = process.stdout.readline().strip()

            def shown():
                model = self.model(url=url)
                return model if model.get("instances") else None
            model = wait("the page to know the instance", shown)
            self.assertEqual(model["job"], self.job_name)
            self.assertEqual(model["instances"][0]["id"], instance)
            process.terminate()
            self.assertEqual(process.wait(10), 0)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def store(self, key, *lines):
        path = self.world.directory / "s3" / BUCKET / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def test_jobs_and_sweeps_are_found_in_s3(self):
        for index in range(3000):  # data, not a job
            self.store(f"data/{index % 30}/{index}", {})
        began = time.time() - 60
        moments = [{"time": began, "what": "began", "instance": "i-1", "zone": "us-west-2a",
                    "type": "p3.2xlarge"},
                   {"time": began + 1, "what": "phase", "instance": "i-1", "phase": "training"}]
        self.store("team/one/history/1-i-1.jsonl", *moments, {"torn": 1})
        self.store("team/one/metrics/1-i-1.jsonl", {"step": 1, "loss": 2.5, "time": began + 2})
        self.store("team/grid/00000.claim", {"state": "done", "token": 2, "holder": "i-1",
                                             "nonce": "n", "span": 5000, "failures": 0})
        self.store("team/grid/00000.result", {
            "version": 1, "index": 0, "state": "done", "attempt": 2, "attempts": 2, "seconds": 7,
            "parameters": {"lr": 0.1}, "curve": {"step": [5], "epoch": [None], "loss": [0.5],
                                                 "accuracy": [None], "time": [began]}})
        self.store("team/grid/1/history/1-i-1.jsonl", *moments)
        first = self.model()
        self.assertEqual({each["name"] for each in first["jobs"]}, {"grid", "one"})
        one = self.model(f"?job={BUCKET}/team/one/")
        self.assertEqual((one["job"], one["state"]), ("one", "training"))
        self.assertEqual(one["curve"]["loss"], [2.5])
        self.assertEqual(one["foreign_lines"], 1)
        self.assertEqual([each["phase"] for each in one["instances"][0]["phases"]], ["training"])
        grid = self.model(f"?job={BUCKET}/team/grid/")
        self.assertEqual(grid["sweep"]["parameters"], ["lr"])
        self.assertEqual([each["state"] for each in grid["sweep"]["experiments"]],
                         ["done", "running"])
        self.assertEqual(self.model("?job=nobody/knows/it/")["job"], None)
        # As a page would get it.
        self.store("team/one/metrics/1-i-1.jsonl", {"step": 1, "loss": 2.5, "time": began + 2},
                   {"step": 2, "loss": 1.5, "time": began + 3})
        self.assertEqual(self.model(f"?job={BUCKET}/team/one/")["curve"]["loss"], [2.5, 1.5])

    def test_of_the_world_alone(self):
        self.browser("world")


if __name__ == "__main__":
    main()
