"""A whole life of a job, from a blank volume to the cancelled fleet, and how it is judged.

Whatever happened on the way: the result is the one of an uninterrupted run, bit for bit; every
step that was durable was never done again; no two trainers worked at once; the fleet is cancelled;
one volume is left, marked as done, and no snapshot, process, mount or loop device.
"""

import subprocess

import fake_trainer
import harness
import volumes
from emulator import wait

# In a mount namespace of its own: nothing to unmount afterwards, however this ends.
FILL = """
set -e
mkfs.xfs -q "$1"
mount --make-rprivate /
mount -o loop "$1" "$2"
printf %s "$3" >"$2/lesson"
head -c "$4" /dev/urandom >"$2/more"
"""


class Life(harness.Story):
    steps = 60

    def begin(self, env=None, zones=None, bound="1s", trainer=None, volume=None, **more):
        """The user's volume in the first zone, a fleet over `zones` (all), its first instance."""
        self.journal = self.world.shared / "journal"
        self.journal.mkdir()
        self.journal.chmod(0o777)  # the trainer's user writes there
        self.volume(**(volume or {}))
        env = {"STEPS": str(self.steps), "JOURNAL": str(self.journal), **(env or {})}
        return self.launch(self.job(env=env, bound=bound, trainer=trainer, **more),
                           zones=zones or self.world.zones)

    # What happens on the way

    def users_snapshot(self, lesson, more=0):
        """Made by a user of a disk that is no job's; `more`: bytes beside the lesson."""
        volume = self.volume(tags={"Name": "lessons"})
        backing = next((self.world.directory / "volumes").glob(f"{volume}*"))
        point = self.world.workplace / "fill"
        point.mkdir()
        subprocess.run(["unshare", "-m", "sh", "-c", FILL, "sh", backing, point, lesson,
                        str(more)], check=True)
        made = self.ec2.call("CreateSnapshot", VolumeId=volume).text("snapshotId")
        wait("the snapshot to be completed", lambda: all(
            one.text("status") == "completed" for one in self.ec2.snapshots()))
        self.ec2.call("DeleteVolume", VolumeId=volume)
        self.wait_volume(volume, "gone")
        return made

    def fault(self, name, **arguments):
        self.world.control("fault", name, *(f"{key}={value}" for key, value in arguments.items()))

    def room(self, *zones):
        """Capacity for one instance in each of these zones, none elsewhere."""
        for zone in self.world.zones:
            self.fault("capacity", zone=zone, instances=1 if zone in zones else 0)

    def successor(self, *before):
        return self.wait_instance(besides=before)

    def step_of(self, instance):
        return self.world.status(instance).get("step") or 0

    def wait_more_steps(self, instance, count=3):
        self.wait_training(instance, self.step_of(instance) + count)

    # The end

    def fleet_is_cancelled(self):
        return self.ec2.fleet_state(self.fleet) == "cancelled"

    def wait_end(self):
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        wait("the instances to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()))
        wait("the volumes to be free", lambda: all(
            one.text("status") == "available" for one in self.ec2.volumes()))

    def trainer_runs(self):
        """Of each start of a trainer, in their order: [(time, step), ...]."""
        return [[tuple(map(int, line.split())) for line in path.read_text().splitlines()]
                for path in sorted(self.journal.iterdir())]

    def assert_ended_well(self, kills=0, torn=0):
        """`kills`: so many trainers died between making a step durable and writing it down.
        `torn`: so many durable steps were destroyed from outside and had to be done again."""
        self.wait_end()
        self.assert_steps(kills, torn)
        left = self.ec2.volumes()
        self.assertEqual(len(left), 1, [f"{one.text('volumeId')} {one.tags()}" for one in left])
        self.assertEqual(left[0].tags().get("spotter:done"), "true")
        self.assertEqual([one.text("snapshotId") for one in self.ec2.snapshots()], [])
        self.world.stop()
        self.left = left[0].text("volumeId")
        result = self.kept_folder("result")
        self.assertEqual((result / "weights.bin").read_text(), fake_trainer.result_of(self.steps))

    def kept_folder(self, path):
        """A copy of the folder on the volume that is left, once all has ended well."""
        return volumes.copy_out(self.world, self.left, path)

    def assert_steps(self, kills, torn):
        runs = [run for run in self.trainer_runs() if run]
        for one, next_one in zip(runs, runs[1:]):
            self.assertLess(one[-1][0], next_one[0][0], "two trainers worked at once")
        done = [step for run in runs for _, step in run]
        again = sum(later <= step for step, later in zip(done, done[1:]))
        self.assertLessEqual(again, torn, "a durable step was lost and done again")
        self.assertLessEqual(len(done) - len(set(done)), torn)
        missing = set(range(1, self.steps + 1)) - set(done)
        self.assertLessEqual(len(missing), kills, f"not done: {missing}")
