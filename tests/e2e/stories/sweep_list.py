"""The list of a sweep in S3: what is wrong with it is for a person, what S3 cannot give now for the
next try."""

import json
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import run
import ec2
import harness
from emulator import Emulator, wait

INTERRUPTED, WRONG = 75, 2  # what a retry strategy tries again, and what it does not


class SweepList(run.RunCase):
    def setUp(self):
        super().setUp()
        self.world = Emulator(harness.BINARIES, name="list", mode="user")
        self.addCleanup(lambda: self.assertEqual(self.world.close(), [], "left behind"))
        self.bucket = self.world.directory / "s3/data"
        self.bucket.mkdir(parents=True)
        self.put("[{lr: 1}, {lr: 2}]")
        self.environment.update(AWS_ENDPOINT_URL=self.world.ec2.endpoint, AWS_REGION="us-west-2",
                                HOME=str(self.place), SPOTTER_EXPERIMENT="1",
                                AWS_ACCESS_KEY_ID=ec2.USER,
                                AWS_SECRET_ACCESS_KEY=self.world.secret)
        self.tasks = 0

    def put(self, text):
        (self.bucket / "sets.yml").write_text(text)

    def task(self, source="s3://data/sets.yml", **environment):
        self.tasks += 1
        place = self.place / f"run-{self.tasks}"
        place.mkdir()
        job = place / "job.yaml"
        job.write_text(f"job: tuning\nstorage: {{folder: {{path: {self.storage}}}}}\n"
                       f"trainer: {{command: 'true'}}\nsweep: {{parameters: {source}}}\n")
        return self.start("/bin/sh", "-c", f"echo {{lr}} >>{self.place}/trained",
                          options=("--job", str(job)), SPOTTER_RUN=str(place), **environment)

    def asked_for(self):
        return json.loads(self.world.control("state", "--json"))["s3"]["requests"].get(
            "GetObject", 0)

    def test_what_is_not_to_be_had_now_is_tried_again(self):
        keyless = self.task(AWS_ACCESS_KEY_ID="", AWS_EC2_METADATA_DISABLED="true")
        self.assertEqual(self.end(keyless), INTERRUPTED)
        self.world.control("fault", "s3-slow-down", "percent=100")
        # A minute of patience, both at once.
        waiting = [self.task(), self.task(AWS_ENDPOINT_URL="http://127.0.0.1:9")]
        self.assertEqual([self.end(task) for task in waiting], [INTERRUPTED, INTERRUPTED])
        self.assertTrue(self.said("s3://data/sets.yml"))
        self.assertFalse((self.place / "trained").exists())
        self.world.control("fault", "clear")
        self.assertEqual(self.end(self.task()), 0)
        self.assertEqual((self.place / "trained").read_text(), "2\n")

    def test_a_stop_while_it_waits_for_the_list_is_an_interruption(self):
        self.world.control("fault", "s3-slow-down", "percent=100")
        task = self.task()
        wait("the list to be asked for", self.asked_for)
        task.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(task), INTERRUPTED)

    def test_what_is_wrong_is_not_tried_again(self):
        for source, why in (("s3://none/sets.yml", "there is no such bucket"),
                            ("s3://data/none.yml", "there is no such object")):
            self.assertEqual(self.end(self.task(source)), WRONG)
            self.assertTrue(self.said(why), self.output.read_text())
        self.assertEqual(self.end(self.task(AWS_SECRET_ACCESS_KEY="guess")), WRONG)
        self.assertTrue(self.said("SignatureDoesNotMatch"), self.output.read_text())
        for text, why in (("{lr: 1}", "expected a list"), ("[]", "the list is empty"),
                          ("[{lr: 1}]", "SPOTTER_EXPERIMENT=1, but")):
            self.put(text)
            self.assertEqual(self.end(self.task()), WRONG)
            self.assertTrue(self.said(why), self.output.read_text())
        self.assertFalse((self.place / "trained").exists())


if __name__ == "__main__":
    harness.main()
