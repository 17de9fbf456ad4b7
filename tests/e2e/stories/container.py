"""scripts/Containerfile: its steps in a root of its own, its entry point as process 1 of it."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import containerfile
import emulator
import harness
import root
from emulator import ROOT, wait

BINARIES = pathlib.Path(harness.BINARIES)

CUDA = "nvidia/cuda:12.8.0-runtime-ubuntu22.04"
# What a user adds, and how it is said there.
OWN = """\
FROM spotter
COPY job.yaml /etc/spotter/job.yaml
COPY nolist.yaml /etc/spotter/nolist.yaml
COPY train.py /opt/train.py
ENV STEPS=20
CMD ["python3", "/opt/train.py", "{lr}"]
"""
JOB = """\
job: tuning
storage: {folder: {path: /data}}
sweep: {parameters: PARAMETERS}
trainer: {command: "echo nobody asked for this; exit 1", stop_grace: 5s}
"""
TRAINER = """\
import os, pathlib, sys, time
import spotter
run = spotter.open()
old = run.restore()
for step in range(old.step + 1 if old else 1, int(os.environ["STEPS"]) + 1):
    time.sleep(0.1)
    with open("/data/journal-" + os.environ["SPOTTER_EXPERIMENT"], "a") as journal:
        journal.write(f"{step} {os.getuid()}\\n")
    run.save(step, step=step)
    run.stop_if_asked()
    while step == 5 and not os.path.exists("/data/go"):
        time.sleep(0.1)
        run.stop_if_asked()
(pathlib.Path(os.environ["SPOTTER_MODEL"]) / "set").write_text(sys.argv[1])
run.finished()
"""


class Container(unittest.TestCase):
    def setUp(self):
        self.parse()

    def parse(self, **arguments):
        text = (ROOT / "scripts/Containerfile").read_text()
        self.build, self.last = containerfile.parse(text, **arguments)

    def built(self, path):
        """What the build stage makes is what this build has made, by the same two commands."""
        made = path.removeprefix("/spotter/build/release/")
        if made != path:
            return BINARIES.parent / made
        return ROOT / path.removeprefix("/spotter/")

    def test_the_build_stage_has_all_that_the_build_reads(self):
        copied = [text.split() for what, text in self.build.steps if what == "COPY"]
        for origin, target in copied:
            self.assertTrue((ROOT / origin).exists(), origin)
            self.assertEqual(target.rstrip("/"),
                             "/spotter" if "." in origin else f"/spotter/{origin}")
        read = re.findall(r"^\s*add_subdirectory\((\w+)", (ROOT / "CMakeLists.txt").read_text(),
                          re.M)
        self.assertTrue(read)
        self.assertLessEqual({"CMakeLists.txt", "scripts", *read}, {origin for origin, _ in copied})
        setup, build = [text for what, text in self.build.steps if what == "RUN"]
        self.assertEqual(setup, "/spotter/scripts/setup")
        words = build.split()
        self.assertEqual(words[:2], ["/spotter/scripts/build", "release"])
        if not (BINARIES.parent / "build.ninja").exists():
            return
        known = subprocess.run(["ninja", "-C", BINARIES.parent, "-t", "query", *words[2:]],
                               check=False, capture_output=True, text=True, timeout=60)
        self.assertEqual(known.returncode, 0, known.stderr)

    def test_what_is_not_understood_is_refused(self):
        for text in ("FROM a\nVOLUME /data\n", "RUN early\n", "FROM a INTO b\n",
                     "ARG A\n", "FROM a\nARG A=b\n"):
            with self.assertRaises(containerfile.Unknown):
                containerfile.parse(text)
        image = containerfile.Image("/nowhere", os.devnull)
        for text in ("FROM a\nCOPY a b /c\n", "FROM a\nCOPY a c\n", "FROM a\nENV A=$B\n"):
            with self.assertRaises(containerfile.Unknown):
                image.carry_out(containerfile.parse(text)[0], {})


    def make_image(self):
        """Ours, and a user's on top of it."""
        if why := root.missing() or self.last.base == CUDA and root.missing("jammy", root.UBUNTU):
            self.skipTest(why)
        self.addCleanup(lambda: self.assertFalse(self.place.exists()))  # the last one
        self.place = emulator.own_place(self, "container")
        self.place.chmod(0o755)
        self.output = self.place / "output"
        for user in ("root", "trainer"):
            (self.place / user).mkdir()
            (self.place / user).chmod(0o777)
        own = self.place / "own"
        own.mkdir()
        (own / "job.yaml").write_text(JOB.replace("PARAMETERS", "[{lr: 0.1}, {lr: 0.2}]"))
        (own / "nolist.yaml").write_text(JOB.replace("PARAMETERS", "s3://nowhere/sets.yml"))
        (own / "train.py").write_text(TRAINER)
        self.image = containerfile.Image(self.place / "image", self.place / "steps")
        (mine,) = containerfile.parse(OWN)
        try:
            self.image.begin(self.last.base)
            self.image.carry_out(self.last, {"build": self.built})
            self.image.carry_out(mine, {"": lambda path: own / path})
        except root.NoPackages as why:
            self.skipTest(f"Debian's packages were not to be had: {why}")

    def start(self, index, command=None, user="root", **environment):
        """A task of AWS Batch: child `index` of two."""
        for left in (self.image.root / "tmp").iterdir():  # each container has one of its own
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        words = self.image.run(command, folder=self.place / user, user=user, environment={
            "AWS_BATCH_JOB_ARRAY_INDEX": str(index), "AWS_BATCH_JOB_ARRAY_SIZE": "2",
            "AWS_BATCH_JOB_ID": "a-job", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9",
            "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "A",
            "AWS_SECRET_ACCESS_KEY": "b", **environment})
        with open(self.output, "ab") as output:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                    start_new_session=True)

    def end(self, task):
        try:
            return task.wait(180)
        except subprocess.TimeoutExpired:
            task.kill()
            task.wait()
            return self.fail(f"it did not end:\n{self.output.read_text(errors='replace')}")

    @staticmethod
    def stop(task):
        """SIGTERM to process 1 of the container, as soon as it hears it."""
        def hears():
            children = pathlib.Path(f"/proc/{task.pid}/task/{task.pid}/children").read_text()
            for child in children.split():
                status = pathlib.Path(f"/proc/{child}/status").read_text()
                caught = int(re.search(r"SigCgt:\s*(\w+)", status).group(1), 16)
                if "Name:\tspotter\n" in status and caught >> (signal.SIGTERM - 1) & 1:
                    return int(child)
            return 0
        os.kill(wait("process 1 to hear signals", hears), signal.SIGTERM)

    def journal(self, index, user="root"):
        path = self.place / user / f"journal-{index}"
        return [tuple(map(int, line.split())) for line in
                (path.read_text().splitlines() if path.exists() else [])]

    def assert_trained_once(self, index, steps, rate, user="root", number=0):
        self.assertEqual(self.journal(index, user),
                         [(step, number) for step in range(1, steps + 1)])
        home = self.place / user / "tuning" / str(index)
        self.assertEqual((home / "model" / "set").read_text(), rate)
        self.assertEqual(json.loads((home / "DONE").read_text())["job"], "tuning")

    def test_on_ubuntu_as_an_image_of_cuda_is(self):
        self.parse(BASE=CUDA)
        self.make_image()
        self.check_libraries()
        (self.place / "root" / "go").touch()
        self.assertEqual(self.end(self.start(0)), 0, self.output.read_text())
        self.assert_trained_once(0, 20, "0.1")

    def test_a_trainer_in_it_is_interrupted_and_finishes(self):
        self.make_image()
        self.check_libraries()
        first = self.start(1)
        wait("five steps", lambda: len(self.journal(1)) == 5)
        self.stop(first)
        self.assertEqual(self.end(first), 75, self.output.read_text())
        (self.place / "root" / "go").touch()
        self.assertEqual(self.end(self.start(1)), 0, self.output.read_text())
        self.assert_trained_once(1, 20, "0.2")
        # As another than root, and by the whole command that `sweep submit` puts into a definition.
        other = self.start(0, ["spotter", "run", "--job", "/etc/spotter/job.yaml", "--",
                               *self.image.command], user="trainer", HOME="/home/trainer",
                           STEPS="4")
        self.assertEqual(self.end(other), 0, self.output.read_text())
        self.assert_trained_once(0, 4, "0.1", "trainer", 1000)
        # Asked to stop before anything has begun.
        waiting = self.start(0, ["spotter", "run", "--job", "/etc/spotter/nolist.yaml"])
        self.stop(waiting)
        self.assertEqual(self.end(waiting), 75, self.output.read_text())

    def check_libraries(self):
        """What the image installs is all that its programs load."""
        programs = [path for path in ("/usr/bin/spotter", "/usr/bin/spotter-fastfile",
                                      "/usr/lib/spotter/libspotter.so.1",
                                      "/usr/lib/spotter/libspotter_s3.so")]
        said = subprocess.run(containerfile.enter(self.image.root, ["ldd", *programs]),
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertIn("libcurl", said.stdout)
        self.assertNotIn("not found", said.stdout + said.stderr)
        installed = " ".join(text for what, text in self.last.steps if what == "RUN")
        for library in re.findall(r"NEEDED\s+(\S+)", subprocess.run(
                ["objdump", "-p", BINARIES / "spotter", BINARIES / "spotter-fastfile"],
                capture_output=True, text=True, check=True, timeout=60).stdout):
            asked = containerfile.enter(self.image.root, ["dpkg-query", "-S", f"*/{library}"])
            owner = subprocess.run(asked, capture_output=True, text=True, check=False,
                                   timeout=60).stdout
            names = {line.partition(":")[0] for line in owner.splitlines()}
            self.assertTrue(names & {*installed.split(), "libc6", "libgcc-s1"},
                            f"{library} of {names} is there by luck only")


if __name__ == "__main__":
    harness.main()
