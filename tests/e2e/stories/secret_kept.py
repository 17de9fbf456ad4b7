"""A secret reaches the trainer and nobody else: no argv, no log, no tag, no user data."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import wait

SECRET = "s3cr3t-5d41402abc4b2a76"


class Secrets(harness.Story):
    def test_it_is_seen_only_in_the_trainers_environment(self):
        volume = self.volume()
        path = self.world.workplace / "key"
        path.write_text(SECRET + "\n")
        path.chmod(0o600)
        job = self.job(env={"STEPS": "40", **self.held(20)}, secrets={"API_KEY": f"file:{path}"})
        instance = self.launch(job)
        self.wait_training(instance, 3)
        trainer = self.trainers(instance)[0]
        self.assertIn(f"API_KEY={SECRET}".encode(), self.environment(trainer))
        for pid, words in self.everybody(instance):
            self.assertNotIn(SECRET, words, f"in the arguments of {pid}")
        for pid in self.agents(instance):
            self.assertNotIn(SECRET.encode(), self.environment(pid))
        self.gate.touch()
        wait("the fleet to be cancelled", lambda: self.ec2.fleet_state(self.fleet)
             .startswith("cancelled"))
        for file in (path for path in self.world.directory.rglob("*") if path.is_file()):
            if file.stat().st_size < 1 << 24:
                self.assertNotIn(SECRET.encode(), file.read_bytes(), f"in {file}")
        tags = next(one.tags() for one in self.ec2.volumes() if one.text("volumeId") == volume)
        self.assertNotIn(SECRET, str(tags))

    def test_a_secret_that_cannot_be_read_is_said_without_starting_the_trainer(self):
        self.volume()
        job = self.job(secrets={"API_KEY": "file:/nowhere/key"})
        instance = self.launch(job)
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "/nowhere/key")
        self.assertEqual(self.trainers(instance), [])
        self.assert_fleet_untouched()


if __name__ == "__main__":
    harness.main()
