"""The package is rolled back in mid-job: what the later version wrote to the storage is refused
with a sentence that says so, and stays as it is; that version goes on to the same result."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life
import newer_formats
import shares
import volumes

SENTENCE = r"was written by a newer Spotter \(format 2"


class Rollback(life.Life):
    def change(self, volume, what):
        program = pathlib.Path(newer_formats.__file__)
        volumes.change(self.world, volume,
                       f"{sys.executable} {program} {what} {self.world.workplace / 'notes'}")

    def test_an_older_agent_refuses_and_a_newer_one_goes_on(self):
        one = self.begin(env={"FORMAT": "spotter"}, zones=[self.zone])
        self.wait_training(one, 8)
        volume = self.ec2.volumes()[0].text("volumeId")
        self.room()
        self.world.interrupt(one, 20)
        self.wait_volume(volume, "available")
        self.change(volume, "raise")
        started = len(self.trainer_runs())

        self.room(self.zone)
        two = self.successor(one)
        self.wait_console(two, SENTENCE)
        self.wait_status(two, "blocked", lambda status: status.get("stage") == "blocked")
        self.assert_fleet_untouched()
        self.room()
        self.world.kill(two)
        self.wait_volume(volume, "available")
        self.change(volume, "same")
        self.assertEqual(len(self.trainer_runs()), started, "a trainer was started")

        self.change(volume, "back")
        self.room(self.zone)
        three = self.successor(one, two)
        self.wait_training(three, 9)
        self.assert_ended_well()


class RollbackInTraining(shares.ShareLife):
    """The trainer runs on, in the care of the older agent: what the newer one kept stays."""

    def setUp(self):
        super().setUp()
        self.folder = self.world.workplace / "shared"
        self.folder.mkdir()
        self.folder.chmod(0o755)

    def storage(self):
        return {"folder": {"path": str(self.folder)}}

    def home(self):
        return self.folder / self.job_name

    def test_the_account_of_the_newer_one_is_not_overwritten(self):
        instance = self.begin()
        self.wait_training(instance, 5)
        trainers = self.trainers(instance)
        newer_formats.raise_all(self.home())
        kept = {name: (self.home() / ".spotter" / name).read_bytes()
                for name in ("ledger.json", "volume.json")}
        self.kill_agent(instance)
        self.wait_console(instance, "it is taken over")
        self.wait_more_steps(instance)
        self.assertEqual(self.trainers(instance), trainers)
        self.wait_console(instance, SENTENCE)
        self.assert_ended_well()
        for name, data in kept.items():
            self.assertEqual((self.home() / ".spotter" / name).read_bytes(), data)


if __name__ == "__main__":
    life.harness.main()
