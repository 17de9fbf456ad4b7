"""What every story shares: an emulator, a job with a small trainer, waiting, and a clean end."""

import os
import pathlib
import re
import shutil
import signal
import sys
import unittest

import job as jobs
from emulator import ROOT, Emulator, Failed, place_beside, processes, sweep, wait

BINARIES = os.environ.get("SPOTTER_BIN") or str(ROOT / "build/release/bin")
MODE = os.environ.get("SPOTTER_E2E_MODE", "auto")
TRAINERS = pathlib.Path(__file__).with_name("trainers")


class Apart(unittest.TestCase):
    """`place` is a folder for a whole program of tests, which is ended in the middle."""

    def setUp(self):
        self.place = place_beside()
        os.chmod(self.place, 0o755)  # the unprivileged trainer has to reach it
        self.addCleanup(shutil.rmtree, self.place)
        self.addCleanup(sweep, self.place)

    def runs(self, program):
        return any(program in words for _, words in processes(self.place))


class Story(unittest.TestCase):
    """One world a test. Subclasses call launch() and then tell what must happen."""

    job_name = "story"
    emulator_options = ()
    trainer = pathlib.Path(__file__).with_name("fake_trainer.py")

    def setUp(self):
        self.world = self.make_world()
        self.ec2 = self.world.ec2
        self.addCleanup(self._end)
        self.world.allow_nothing()
        self.zone = self.world.zones[0]
        self.repository = self.world.shared / "repository"
        self.revision = jobs.repository(self.repository, self.code())

    def code(self):
        """The files of the repository that the job fetches."""
        return {"train.py": self.trainer.read_text()}

    def make_world(self):
        return Emulator(BINARIES, name="story", mode=MODE, options=self.emulator_options)

    def _end(self):
        outcome = self._outcome
        errors = [error for _, error in getattr(outcome, "errors", []) if error]
        if errors or (outcome.result and outcome.result.failures + outcome.result.errors):
            print(self.world.logs(), file=sys.stderr)
        remains = self.world.close(keep=bool(os.environ.get("SPOTTER_KEEP")))
        self.assertEqual(remains, [], "left behind")

    # Given

    def root_only(self, reason):
        if self.world.mode != "root":
            self.skipTest(f"needs root: {reason}")

    def volume(self, tags=None, zone=None, **more):
        """A volume as a user makes it, available."""
        tags = jobs.volume_tags(jobs.TAG, self.job_name) if tags is None else tags
        volume = self.ec2.create_volume(zone or self.zone, tags, **more)
        self.wait_volume(volume, "available")
        return volume

    def job(self, env=None, secrets=None, trainer=None, bound="1s", **more):
        """`bound`: the emulator's answers are never stale, unless the story asks for it."""
        env = {"STEPS": "30", "PACE": "0.1", **(env or {})}
        trainer = {"env": env, **({"secrets": secrets} if secrets else {}), **(trainer or {})}
        return jobs.document(self.job_name, self.repository, self.revision, "./train.py",
                             trainer=trainer, ebs={"consistency_bound": bound}, **more)

    def launch(self, job, restart=True, zones=None, besides=(), before=""):
        """A spot fleet of one whose instance runs this job; gives back the instance's id."""
        text = job if isinstance(job, str) else jobs.yaml(job)
        self.launches = getattr(self, "launches", 0) + 1
        name = "story" if self.launches == 1 else f"story-{self.launches}"
        template = self.ec2.create_template(name, self.user_data(text, restart, before))
        self.world.allow_only(text)
        self.fleet = self.request_fleet(template, zones or [self.zone])
        self.instance = self.wait_instance(besides)
        return self.instance

    def user_data(self, job_text, restart, before):
        return jobs.user_data(self.world.bin, job_text, restart, before)

    def request_fleet(self, template, zones):
        return self.ec2.request_spot_fleet(template, zones, tags=self.fleet_tags())

    def fleet_tags(self):
        """By which the agent's policy knows the fleet that it may end."""
        return {"spotter:job": self.job_name}

    def held(self, steps):
        """The environment of a trainer that waits after so many steps of each start, until the gate
        is touched or a stop is asked for: however slow the story is, nothing is over before its
        time."""
        self.gate = self.world.shared / "gate"
        return {"EACH": str(steps), "GATE": str(self.gate)}

    def notice(self, instance, seconds=120):
        """An interruption notice, as early as AWS gives it: what the agent says of its release it
        has said before its end, however slow this machine is. Then nobody waits for that end."""
        self.world.interrupt(instance, seconds)
        self.wait_released(instance)
        self.world.kill(instance)

    # Then

    def wait_released(self, instance):
        self.wait_status(instance, "released", lambda status: status.get("released"))

    def wait_instance(self, besides=()):
        def running():
            for instance in self.ec2.instances():
                name = instance.text("instanceId")
                if name not in besides and instance.text("instanceState/name") == "running":
                    return name
            return None
        return wait("an instance to run", running)

    def wait_volume(self, volume, state):
        return wait(f"{volume} to be {state}", lambda: self.volume_state(volume) == state)

    def volume_state(self, volume):
        return next((one.text("status") for one in self.ec2.volumes()
                     if one.text("volumeId") == volume), "gone")

    def wait_status(self, instance, what, condition):
        """Until the agent's own account of itself fits; gives that account back."""
        def fits():
            status = self.world.status(instance)
            return status if status and condition(status) else None
        try:
            return wait(what, fits)
        except Failed as failure:
            raise Failed(f"{failure}; last status: {self.world.status(instance)}") from None

    def wait_stage(self, instance, stage):
        return self.wait_status(instance, f"the stage {stage}",
                                lambda status: status.get("stage") == stage)

    def wait_training(self, instance, step):
        """Also where it has resumed behind that step and has done none since."""
        return self.wait_status(
            instance, f"the trainer to be at step {step}", lambda status:
            status["stage"] == "training" and
            max(status.get("step", 0), status.get("resumed_step", 0)) >= step)

    def wait_console(self, instance, pattern):
        def said():
            return re.search(pattern, self.world.console(instance), re.I)
        return wait(f"the console to say /{pattern}/", said)

    def everybody(self, instance):
        return processes(self.world.instance(instance))

    @staticmethod
    def environment(pid):
        return pathlib.Path(f"/proc/{pid}/environ").read_bytes()

    def agents(self, instance):
        """Process ids of the instance's agents."""
        agent = f"{self.world.bin}/spotter agent"
        return [pid for pid, words in self.everybody(instance) if words.startswith(agent)]

    def kill_agent(self, instance):
        for pid in self.agents(instance):
            os.kill(pid, signal.SIGKILL)

    def trainers(self, instance):
        return [pid for pid, words in self.everybody(instance)
                if words.startswith("/usr/bin/python3") and "train.py" in words]

    def assert_fleet_untouched(self):
        self.assertEqual(self.ec2.fleet_state(self.fleet), "active")
        self.assertEqual(self.ec2.fleet_target(self.fleet), 1)

    def assert_volumes(self, *expected):
        self.assertEqual(sorted(one.text("volumeId") for one in self.ec2.volumes()),
                         sorted(expected), "a volume was made or deleted")
        self.assertEqual(self.ec2.snapshots(), [], "a snapshot was made")


def main():
    """One CTest entry: exit status 77 when every test was skipped, with the reason as last line."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if result.skipped and len(result.skipped) == result.testsRun:
        print("skipped: " + "; ".join(reason for _, reason in result.skipped))
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
