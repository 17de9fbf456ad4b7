"""A trainer that knows nothing of Spotter, through a notice, a move, and two kills in mid-write."""

import os
import pathlib
import re
import signal
import subprocess
import time

import harness
import job as jobs
from emulator import LIMIT, Failed, wait
from volumes import copy_out


class Unaware(harness.Story):
    """Subclasses name the script, its command, its files' pattern and the modules it needs."""

    epochs = 14
    files = command = modules = None
    result = None  # relative to the storage
    same = None  # a program: does the first file have the weights of the second?
    directory = "checkpoints"  # that is watched, relative to the storage
    subfolder = "."  # of it, where the files are
    stop_signal = "SIGTERM"
    more_of_trainer = {}
    environment_of_all = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

    def setUp(self):
        done = subprocess.run(["/usr/bin/python3", "-c", f"import {self.modules}"], check=False,
                              capture_output=True)
        if done.returncode:
            self.skipTest(f"needs {self.modules} for /usr/bin/python3: scripts/setup")
        super().setUp()

    def the_job(self):
        return jobs.document(
            self.job_name, self.repository, self.revision, self.command.format(
                storage="$SPOTTER_STORAGE", epochs=self.epochs),
            trainer={"env": self.environment_of_all, "stop_signal": self.stop_signal,
                     "stop_grace": "5s", "result": self.result, **self.more_of_trainer},
            ebs={"consistency_bound": "1s"},
            checkpoints={"directory": self.directory, "files": self.files})

    def quiet_metadata(self):
        """Where a metadata service that knows of no interruption answers, for who needs one."""
        return "http://127.0.0.1:1"

    def uninterrupted(self):
        """The same script where nothing happens; its result, once it has ended."""
        folder = self.world.workplace / "uninterrupted"
        (folder / self.directory).mkdir(parents=True)
        script = self.repository / "train.py"
        run = subprocess.Popen(
            ["sh", "-c", self.command.replace("./train.py", str(script)).format(
                storage=folder, epochs=self.epochs)],
            env={"PATH": os.environ["PATH"], "AWS_EC2_METADATA_SERVICE_ENDPOINT":
                 self.quiet_metadata(), **self.environment_of_all},
            cwd=folder, stdout=subprocess.DEVNULL, start_new_session=True)

        def end():
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        self.addCleanup(end)

        def ended():
            self.assertEqual(run.wait(), 0)
            return folder / self.result
        return ended

    def folder(self, trainer):
        variables = dict(word.split(b"=", 1) for word in self.environment(trainer).split(b"\0")
                         if b"=" in word)
        checkpoints = variables[b"SPOTTER_CHECKPOINTS"].decode()
        return pathlib.Path(f"/proc/{trainer}/root{checkpoints}") / self.subfolder

    def wait_durable(self, instance, more_than=0):
        """The highest number that the journal calls durable."""
        def highest():
            found = re.findall(r"(\d+)\.\w+ is durable", self.world.console(instance))
            number = max(map(int, found), default=0)
            return number if number > more_than else None
        return wait(f"a checkpoint after {more_than}", highest)

    def in_the_middle(self, instance, kill):
        """Calls kill(trainer) while the trainer has written a part of a checkpoint."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            trainer = next(iter(self.trainers(instance)), None)
            try:
                if trainer and self._stop_in_the_middle(trainer, end):
                    return kill(trainer)
            except (FileNotFoundError, ProcessLookupError, KeyError):
                pass  # it has just ended, or is not yet what it will be
            time.sleep(0.01)
        raise Failed("never caught the trainer in the middle of a write")

    def _stop_in_the_middle(self, trainer, end):
        folder = self.folder(trainer)
        known = {name: (folder / name).stat().st_size for name in os.listdir(folder)}
        whole = max(known.values(), default=0)
        while time.monotonic() < end:
            new = next((name for name in os.listdir(folder) if name not in known), None)
            if not new:
                time.sleep(0.0003)
                continue
            while (folder / new).stat().st_size * 8 < whole and time.monotonic() < end:
                pass
            os.kill(trainer, signal.SIGSTOP)
            size = (folder / new).stat().st_size
            if whole and size < whole:
                print(f"{new}: killed at {size} of {whole} bytes", flush=True)
                return True
            os.kill(trainer, signal.SIGCONT)
            known[new] = size
            whole = max(whole, size)
        return False

    def story(self):
        volume = self.volume()
        other_result = self.uninterrupted()
        first = self.launch(self.the_job(), zones=self.world.zones)
        zone = self.zone_of(first)
        done = self.wait_durable(first)

        # A notice; the next instance is in the other zone, with a verified copy of the volume.
        self.world.control("fault", "capacity", zone, "1")
        self.notice(first)
        second = self.wait_instance(besides=(first,))
        self.assertNotEqual(self.zone_of(second), zone)
        done = self.wait_durable(second, more_than=done)
        self.assertNotEqual([one.text("volumeId") for one in self.ec2.volumes()], [volume])

        # SIGKILL of the trainer alone, in the middle of a write.
        self.in_the_middle(second, lambda trainer: os.kill(trainer, signal.SIGKILL))
        self.wait_console(second, r"; moved to \S+/torn/")
        done = self.wait_durable(second, more_than=done)

        # SIGKILL of everything, in the middle of a write; what was written so far is on the disk.
        def lose_all(trainer):
            subprocess.run(["sync", "-f", self.folder(trainer)], check=True)
            self.world.kill(second)
        self.in_the_middle(second, lose_all)
        third = self.wait_instance(besides=(first, second))
        self.wait_console(third, r"torn checkpoint: .* moved to \S+/torn/")
        wait("the fleet to be cancelled", lambda: self.ec2.fleet_state(self.fleet)
             .startswith("cancelled"))
        wait("the instances to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()))
        self.check_the_end(other_result())

    def check_the_end(self, other_result):
        last = next(one.text("volumeId") for one in self.ec2.volumes())
        log = (copy_out(self.world, last, "log") / "trainer.log").read_text()
        self.assertNotIn("Traceback", log, "a torn file was picked")
        resumed = [int(number) for number in re.findall(r"resumed after epoch (\d+)", log)]
        self.assertGreaterEqual(len(resumed), 3)
        self.assertEqual(resumed, sorted(resumed), "it went back")
        result = copy_out(self.world, last, os.path.dirname(self.result))
        self.assert_same(other_result, result / os.path.basename(self.result))

    def zone_of(self, instance):
        return next(one.text("placement/availabilityZone") for one in self.ec2.instances()
                    if one.text("instanceId") == instance)

    def assert_same(self, expected, found):
        done = subprocess.run(["/usr/bin/python3", "-c", self.same, expected, found], check=False)
        self.assertEqual(done.returncode, 0, "other weights than those of the uninterrupted run")
