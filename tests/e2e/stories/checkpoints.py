"""`spotter checkpoints`: what a guard has kept and put away, listed while its trainer runs, and
chosen from when nothing does."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import emulator
import harness
from emulator import LIMIT, wait

TRAINER = harness.TRAINERS / "saves_slowly.py"


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.place = emulator.own_place(self, "checkpoints")
        self.place.chmod(0o755)
        self.storage = self.place / "storage"
        self.storage.mkdir()
        self.home = self.storage / "kept"
        self.job = self.place / "job.yaml"
        self.write_job("5000", "0.4")
        self.environment = {**os.environ, "HOME": str(self.place), "AWS_REGION": "",
                            "SPOTTER_RUN": str(self.place / "run"),
                            "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}
        self.output = self.place / "output"

    def write_job(self, last, pace):
        self.job.write_text(json.dumps({
            "job": "kept", "storage": {"folder": {"path": str(self.storage)}},
            "trainer": {"command": f"exec python3 {TRAINER} $SPOTTER_STORAGE/ckpt {last} {pace}",
                        "stop_signal": "none"},
            "checkpoints": {"directory": "ckpt", "files": "*.bin"}}))

    def start(self):
        with open(self.output, "ab") as output:
            return subprocess.Popen(
                [f"{harness.BINARIES}/spotter", "run", "--job", str(self.job)],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)

    def ask(self, *words, user=None, command="checkpoints"):
        return subprocess.run([f"{harness.BINARIES}/spotter", command, *map(str, words)],
                              check=False, env=self.environment, cwd=self.place, text=True,
                              capture_output=True, timeout=60, user=user, group=user,
                              extra_groups=[] if user is not None else None)

    def say(self, *words, **how):
        done = self.ask(*words, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, words, *arguments, status=1, **how):
        done = self.ask(*arguments, **how)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertRegex(done.stderr, words)

    def inventory(self):
        return json.loads(self.say(self.home, "--json"))

    def kill(self, process):
        """The machine is lost: nothing of it ends by itself."""
        process.kill()
        emulator.sweep(self.place)
        process.wait(LIMIT)
        wait("its end", lambda: not emulator.leftovers(self.place, 0), 60)

    def killed_in_the_middle_of_a_save(self):
        process = self.start()
        wait("two generations", lambda: self.has_generations(2), 60)
        hold = self.home / "hold"
        hold.touch()
        wait("the middle of a save", lambda: [
            file for file in (self.home / "ckpt").glob("*.bin")
            if re.fullmatch(r"step \d+ ", file.read_text())], 60)
        self.kill(process)
        hold.unlink()

    def has_generations(self, count):
        done = self.ask(self.home, "--json")
        if done.returncode:
            return False
        named = [each for each in json.loads(done.stdout)["generations"] if each["checkpoint"]]
        return len(named) >= count

    def age_ledger(self):
        old = time.time() - 600
        os.utime(self.home / ".spotter/ledger.json", (old, old))

    def test_while_a_trainer_runs_it_is_only_looked_at(self):
        self.refused("lies in no storage", self.place, status=2)
        process = self.start()
        wait("two generations", lambda: self.has_generations(2), 60)
        found = self.inventory()
        self.assertEqual((found["directory"], found["files"]), ("ckpt", "*.bin"))
        newest = found["generations"][-1]
        self.assertIn("newest", newest["marks"])
        self.assertRegex(newest["checkpoint"], r"^epoch-\d+\.bin$")
        text = self.say(self.home / "ckpt")
        self.assertRegex(text, rf"(?m)^{newest['number']} .* {re.escape(newest['checkpoint'])} ")
        self.assertIn("nothing is put away", text)
        self.assertEqual(self.say(), self.say(self.home), "by job.yaml here")
        if os.geteuid() == 0:
            self.assertEqual(self.say(self.home, user=65534).splitlines()[1].split()[0],
                             "GENERATION")
        for way in ("--restore", "--bring-back", "--delete"):
            self.refused("a guard watches the checkpoints of", self.home, way, 1)
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)

    def test_there_and_back_after_crashes(self):
        for _ in range(3):
            self.killed_in_the_middle_of_a_save()
        self.refused("written [0-9]+ s ago, says that its trainer runs", self.home, "--restore", 1)
        self.age_ledger()
        process = self.start()  # puts the last half away
        wait("it to be put away", lambda: self.inventory()["away"], 60)
        status = wait("status to say so", lambda: re.search(
            r"put away .* put away, .*", self.ask(command="status").stdout), 60)
        self.assertIn("lists them", status.group(0))
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
        found = self.inventory()
        away = found["away"][-1]
        self.assertGreater(away["bytes"], 0)
        self.assertRegex(away["why"], "not finished when its trainer ended")
        self.assertIn("put away", self.ask(self.job, command="doctor").stdout)

        self.refused(r"there is no generation 999: there is \d+", self.home, "--restore", 999)
        chosen = found["generations"][-2]
        said = self.say(self.home, "--restore", chosen["number"])
        self.assertIn(f"as it was in generation {chosen['number']}", said)
        self.assertIn("was asked for; moved to", said)
        self.assertEqual((self.home / "ckpt/latest").read_text(), chosen["checkpoint"])
        now = self.inventory()
        self.assertEqual(now["generations"][-1]["checkpoint"], chosen["checkpoint"])
        self.assertIn(found["generations"][-1]["checkpoint"], now["away"][-1]["names"])

        self.refused("in the way: .*latest", self.home, "--bring-back", now["away"][-1]["number"])
        # Whether its name was saved again before the trainer was stopped is chance.
        done = self.ask(self.home, "--delete", away["number"])
        if done.returncode != 0:
            self.assertRegex(done.stderr, "no generation has .*--force")
            self.say(self.home, "--delete", away["number"], "--force")
        self.assertNotIn(away["number"], [each["number"] for each in self.inventory()["away"]])

        step = int(re.search(r"\d+", chosen["checkpoint"]).group())
        self.write_job(step + 1, "0.1")
        process = self.start()
        self.assertEqual(process.wait(LIMIT), 0, "it goes on from there and finishes")
        self.assertEqual((self.home / "ckpt/latest").read_text(), f"epoch-{step + 1}.bin")

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_root_follows_no_link_of_the_trainers_and_has_its_owners_rights_alone(self):
        self.killed_in_the_middle_of_a_save()
        self.age_ledger()
        number = self.inventory()["generations"][-1]["number"]
        for path in [self.home, *self.home.rglob("*")]:
            os.lchown(path, 65534, 65534)
        outside = self.place / "outside"
        outside.mkdir()
        (outside / "epoch-1.bin").write_text("somebody else's")
        shutil.rmtree(self.home / "ckpt")
        (self.home / "ckpt").symlink_to(outside)
        self.refused("checkpoints", self.home, "--restore", number)
        self.assertEqual([(each.name, each.read_text()) for each in outside.iterdir()],
                         [("epoch-1.bin", "somebody else's")])
        (self.home / "ckpt").unlink()
        (self.home / "ckpt").mkdir()
        os.chown(self.home / "ckpt", 65534, 65534)
        torn = self.home / ".spotter/torn"
        shutil.rmtree(torn)
        torn.symlink_to(outside)
        self.refused("torn", self.home)
        torn.unlink()
        self.say(self.home, "--restore", number)
        owners = {path.lstat().st_uid for path in (self.home / "ckpt").iterdir()}
        self.assertEqual(owners, {65534})

    def test_a_record_that_cannot_be_used_is_said(self):
        own = self.home / ".spotter"
        own.mkdir(parents=True)
        self.refused("no guard has kept checkpoints here", self.home)
        (own / "checkpoints.json").write_text("{}")
        self.refused("is damaged", self.home)
        self.refused("is damaged", self.home, "--restore", 1)
        self.assertEqual((own / "checkpoints.json").read_text(), "{}")


if __name__ == "__main__":
    harness.main()
