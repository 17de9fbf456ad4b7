"""A gang on this machine: members that are processes of `spotter gang`, real torchrun with gloo,
and the emulator's S3. Each has a folder of its own, by which all its processes are known."""

import json
import os
import pathlib
import signal
import subprocess
import time

import ec2
import harness
from emulator import ROOT, Failed, wait

TRAINER = harness.TRAINERS / "gang_digits.py"
# Whose torch the members have.
PYTHON = os.environ.get("SPOTTER_TEST_PYTHON", "/usr/bin/python3")


def has_torch():
    return subprocess.run([PYTHON, "-c", "import torch.distributed.run"], check=False,
                          capture_output=True).returncode == 0


def variables(journal, scratch):
    """The trainer's, on an instance."""
    return {"JOURNAL": str(journal), "TMPDIR": str(scratch), "HOME": str(scratch),
            "PYTHONPATH": str(ROOT / "trainer/library/python"), "PYTHONDONTWRITEBYTECODE": "1",
            "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}


def command(binaries):
    """As it is with the package: here the library lies elsewhere."""
    library = pathlib.Path(binaries).parent / "lib/libspotter.so.1"
    return (f"export SPOTTER_LIBRARY={library} SPOTTER_CHECKPOINT_EVERY=2; "
            f"exec {PYTHON} -m spotter.torchrun train.py")


class Journal:
    """What the ranks have written down. Subclasses have `journal`, and words() for a failure."""

    def notes(self, kind="step"):
        """(number, ranks, when, member), in the order of their time."""
        lines = []
        for path in self.journal.iterdir():
            for line in path.read_text().splitlines():
                word, number, ranks, when = line.split()
                if word == kind:
                    member = path.name.rsplit("-", 1)[0]
                    lines.append((int(number), int(ranks), float(when), member))
        return sorted(lines, key=lambda line: line[2])

    def step(self):
        return max((line[0] for line in self.notes()), default=0)

    def wait_step(self, step):
        self._wait(f"step {step}", lambda: self.step() >= step)

    def wait_ranks(self, ranks, since):
        """Until so many train together; gives the time of the last one's first step."""
        def all_step():
            firsts = {}
            for _, those, when, member in self.notes():
                if when > since and those == ranks:
                    firsts.setdefault(member, when)
            return max(firsts.values()) if len(firsts) == ranks else None
        return self._wait(f"{ranks} ranks", all_step)

    def _wait(self, what, condition):
        try:
            return wait(what, condition)
        except Failed as failed:
            raise Failed(f"{failed}\n{self.words()}") from None


class Gang(Journal):
    """`world`: the emulator, whose workplace has all of it."""

    def __init__(self, world, size=4, least=2, name="gang", every=2, result="", stall=0,
                 **environment):
        self.world, self.size, self.name, self.needed = world, size, name, result
        self.stall = stall  # seconds
        self.place = world.workplace / name
        self.storage, self.journal = self.place / "storage", self.place / "journal"
        for folder in (self.storage, self.journal):
            folder.mkdir(parents=True)
        (world.directory / "s3/gangs").mkdir(parents=True, exist_ok=True)
        self.job, self.least, self.trainer, self.job_file = name, least, TRAINER, None
        binaries = pathlib.Path(harness.BINARIES)
        self.environment = {
            **os.environ, "HOME": str(self.place), "JOURNAL": str(self.journal),
            "PYTHONPATH": str(ROOT / "trainer/library/python"),
            "SPOTTER_LIBRARY": str(binaries.parent / "lib/libspotter.so.1"),
            "SPOTTER_CHECKPOINT_EVERY": str(every), "SPOTTER_GANG_ADDRESS": "127.0.0.1",
            "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1",
            "AWS_ACCESS_KEY_ID": ec2.USER, "AWS_SECRET_ACCESS_KEY": world.secret,
            "AWS_REGION": ec2.REGION, "AWS_ENDPOINT_URL": world.ec2.endpoint,
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9",
            "SPOTTER_NOTICE_FILE": "", **environment}
        self.members = {}

    # What happens to it

    def as_job(self):
        """From now on `spotter run` with a job.yaml starts its members."""
        self.job_file, exported = self.place / "job.yaml", self.place / "exported"
        exported.mkdir()
        self.job_file.write_text(
            f"job: {self.job}\nstorage: {{folder: {{path: {self.storage}}}}}\n"
            f"trainer: {{command: {PYTHON} {self.trainer}, result: result/weights.txt}}\n"
            f"gang: {{size: {self.size}, min: {self.least}, at: s3://gangs/, lease: 20s}}\n"
            f"prometheus: {{textfile: {exported}}}\n"
            "on_failure: {attempts_without_progress: 1, then: hold}\n")

    def command(self, member):
        if self.job_file:
            return [f"{harness.BINARIES}/spotter", "run", "--job", str(self.job_file), "--gang",
                    member]
        home = self.storage / self.name
        more = ["--result", self.needed] if self.needed else []
        return [f"{harness.BINARIES}/spotter", "gang", "--at", f"s3://gangs/{self.job}/",
                "--job", self.job, "--name", member, "--size", str(self.size), "--min",
                str(self.least), "--lease", "20000", "--home", str(home), "--stall",
                str(self.stall * 1000), *more, "--", PYTHON, "-m", "spotter.torchrun",
                str(self.trainer)]

    def start(self, member, **environment):
        folder = self.place / "run" / member
        folder.mkdir(parents=True, exist_ok=True)
        with open(self.place / f"{member}.log", "ab") as log:
            self.members[member] = subprocess.Popen(
                self.command(member), env={**self.environment, "TMPDIR": str(folder),
                                           "SPOTTER_RUN": str(folder / "run"), **environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return member

    def start_all(self):
        for number in range(1, self.size + 1):
            self.start(f"m{number}")

    def notice(self, member):
        """What an engine sends before it takes the machine away."""
        self.members[member].send_signal(signal.SIGTERM)

    def kill(self, member):
        """As when the machine is gone: all its processes, at once."""
        while pids := self.processes(member):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        self.members[member].wait(10)

    def processes(self, member):
        mark = str(self.place / "run" / member).encode()
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                texts = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                ended = "\nState:\tZ" in (entry / "status").read_text()
            except OSError:
                continue
            if not ended and (mark + b"/" in texts or mark + b"\0" in texts):
                found.append(int(entry.name))
        return found

    def processes_of(self, member, words, without="\0\0"):
        """Those with such words in their command line."""
        found = []
        for pid in self.processes(member):
            try:
                line = pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            if words in line and without not in line:
                found.append(pid)
        return found

    def close(self):
        for member in self.members:
            self.kill(member)

    # What it shows

    def record(self):
        try:
            return json.loads((self.world.directory / f"s3/gangs/{self.job}/gang").read_text())
        except (OSError, ValueError):
            return {}

    def status(self, member):
        """As the agent of a job's member has it."""
        try:
            return json.loads((self.place / "run" / member / "run/status.json").read_text())
        except (OSError, ValueError):
            return {}

    def page(self, member):
        """What `spotter status` prints there."""
        environment = {**self.environment, "SPOTTER_RUN": str(self.place / "run" / member / "run")}
        return subprocess.run([f"{harness.BINARIES}/spotter", "status"], env=environment, text=True,
                              capture_output=True, check=True, timeout=60).stdout

    def exported(self):
        """For Prometheus, by whichever member wrote last: here they have one folder."""
        try:
            return "".join(path.read_text() for path in (self.place / "exported").glob("*.prom"))
        except OSError:
            return ""

    def end(self, member):
        """Its exit status."""
        self._wait(f"{member} to end", lambda: self.members[member].poll() is not None)
        return self.members[member].returncode

    def result(self):
        """(sum of the weights, least and highest count of a sample, accuracy)"""
        digest, least, most, right = (
            self.storage / self.name / "result/weights.txt").read_text().split()
        return digest, int(least), int(most), float(right)

    def words(self):
        return json.dumps(self.record()) + "\n" + "\n".join(
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-60:])
            for path in sorted(self.place.glob("*.log")))
