"""Checkpoints that are folders, of a trainer that knows nothing of Spotter, with copies in S3: a
machine whose storage has lost all goes on with the same bytes, and not without them."""

import hashlib
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import harness
import shares
from emulator import wait

EPOCHS, SIZE = 12, 400_000
NOTHING = '{"Version": "2012-10-17", "Statement": []}'


def weights_of(epochs):
    weights = bytes(SIZE)
    for epoch in range(1, epochs + 1):
        seed = hashlib.sha256(weights + str(epoch).encode()).digest()
        weights = (seed * (SIZE // len(seed) + 1))[:SIZE]
    return weights


class FoldersInS3(shares.ShareLife):
    trainer = harness.TRAINERS / "folder_checkpoints.py"

    def setUp(self):
        super().setUp()
        self.folder = self.world.workplace / "shared"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.bucket = self.world.directory / "s3/kept"
        self.bucket.mkdir(parents=True)

    def storage(self):
        return {"folder": {"path": str(self.folder)}}

    def home(self):
        return self.folder / self.job_name

    kept = {"checkpoints": {"directory": "out", "folders": "checkpoint-*", "s3": "s3://kept/run"},
            "on_failure": {"attempts_without_progress": 100, "then": "hold"}}

    @staticmethod
    def command(epochs):
        return {"command": f'./train.py "$SPOTTER_STORAGE/out" "$SPOTTER_STORAGE/result/weights" '
                           f'{epochs}', "stop_signal": "none", "result": "result/weights"}

    def in_s3(self):
        return {int(path.name.split("-")[1])
                for path in self.bucket.glob("run/manifests/checkpoint-*.json")}

    def permit(self, text):
        document = self.world.workplace / "permitted.json"
        document.write_text(text)
        self.world.control("policy", f"role/{ec2.TRAINERS_ROLE}", document)

    def test_it_goes_on_from_there_when_the_storage_has_lost_all(self):
        first = self.begin(trainer=self.command(EPOCHS), **self.kept)
        self.wait_console(first, r"checkpoint-\d+ is copied to S3")
        copied = wait("the third checkpoint in S3", lambda: max(self.in_s3(), default=0) >= 3
                      and self.in_s3())
        self.assertLessEqual(len(copied), 3, "all are kept")  # one of them is removed just now
        self.permit(NOTHING)
        self.world.kill(first)
        shutil.rmtree(self.home())
        least = max(self.in_s3())

        second = self.successor(first)
        self.wait_console(second, "no checkpoint is on the storage, and none could be fetched")
        self.assertEqual(list((self.home() / "out").glob("checkpoint-*")), [], "from scratch")
        self.permit('{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": '
                    '"s3:*", "Resource": "*"}]}')
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        log = (self.home() / "log/trainer.log").read_text()
        fetched = re.search(r"checkpoint-(\d+) is fetched from S3\nresumed after epoch (\d+)", log)
        self.assertTrue(fetched, log)
        self.assertEqual(fetched[1], fetched[2])
        self.assertGreaterEqual(int(fetched[1]), least)
        self.assertEqual((self.home() / "result/weights").read_bytes(), weights_of(EPOCHS))
        self.assertIn(EPOCHS, self.in_s3(), "the last one was not waited for")
        self.assertEqual(list(self.home().glob(".spotter/torn/*")), [])

    def test_of_a_volume_the_trainers_user_copies_as_its_role_may(self):
        self.volume()
        first = self.launch(self.job(trainer=self.command(5), **self.kept), zones=self.world.zones)
        self.wait_console(first, r"checkpoint-\d+ is copied to S3")
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        # The newest, and the one that was copied before it, if there was time for one.
        copied = self.in_s3()
        self.assertEqual(max(copied), 5, copied)
        self.assertLessEqual(len(copied), 2, copied)
        self.assertNotRegex(self.world.console(first), "not copied to S3")


if __name__ == "__main__":
    harness.main()
