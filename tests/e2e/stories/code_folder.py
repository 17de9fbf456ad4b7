"""The folder that a person works in is the code: what `spotter launch` finds there is what each
machine runs, byte for byte; `setup` prepares its environment."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import job as jobs
import launched
import life
from emulator import wait

PLACE = "s3://seen/jobs"
COPY = 'cp -a . "$EVIDENCE/code.$$"'
PREFIX = 'python3 -c "import sys; print(sys.prefix, end=\'\')" >"$EVIDENCE/prefix"'
SAFE = 'git config --get-all safe.directory >"$EVIDENCE/safe"'


class CodeFolder(launched.Launched):
    def setUp(self):
        super().setUp()
        (self.world.directory / "s3/seen").mkdir(parents=True)
        self.mine = self.world.workplace / "mine"
        self.setup = []
        self.evidence = self.world.workplace / "evidence"
        self.evidence.mkdir()
        self.evidence.chmod(0o777)

    def job(self, env=None, **more):
        wanted = {"code": {"folder": "mine"}, "publish": PLACE, **more}
        if self.setup:
            wanted["setup"] = self.setup
        job = super().job(env={"EVIDENCE": str(self.evidence), **(env or {})}, **wanted)
        return {key: value for key, value in job.items() if value is not None}

    def git(self, *words, folder=None):
        who = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", "me"), ("EMAIL", "me@example.com"))}
        subprocess.run(["git", "-C", folder or self.mine, *words], check=True, text=True,
                       env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1", **who}, capture_output=True)

    def write(self, name, content):
        path = self.mine / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)

    def make_folder(self):
        """A checkout with all that a person may have in one; returns what machines are to get."""
        shutil.copytree(self.repository, self.mine, ignore=shutil.ignore_patterns(".git"))
        self.write(".gitattributes", b"*.txt text eol=lf\n*.pt filter=lfs\n")
        self.write(".gitignore", b"*.bin\n")
        self.write(".spotterignore", b"/notes/\n*.csv\n/inner/secret\n")
        self.write("dos.txt", b"one\r\ntwo\r\n")
        self.write("notes/own.txt", b"for me\n")
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "The trainer")
        self.write("dos.txt", b"one\r\ntwo\r\nthree, not committed\r\n")
        self.write("small.pt", b"weights, as they are")
        self.write("data.bin", b"ignored by git")
        self.write("table.csv", b"ignored by Spotter")
        self.write("inner/of_another_repository.py", b"print()\n")
        self.write("inner/secret", b"of another repository")
        self.git("init", "-q", folder=self.mine / "inner")
        self.write("tool", b"#!/bin/sh\n")
        (self.mine / "tool").chmod(0o755)
        (self.mine / "link").symlink_to("dos.txt")
        left = ("data.bin", "table.csv", "notes", "secret", ".git")
        return {str(path.relative_to(self.mine)): self.seen(path) for path in self.mine.rglob("*")
                if not path.is_dir() and not set(path.relative_to(self.mine).parts) & set(left)}

    @staticmethod
    def seen(path):
        """What must not change on the way."""
        if path.is_symlink():
            return str(path.readlink())
        return path.read_bytes(), bool(path.stat().st_mode & 0o100)

    def running(self, instance):
        """The trainer's process; none: none runs."""
        return next((pid for pid, words in self.everybody(instance)
                     if words.strip().endswith("train.py") and "python3" in words), None)

    def copies(self):
        return [path for path in self.evidence.iterdir() if path.name.startswith("code.")]

    def test_what_is_there_is_what_each_machine_runs(self):
        expected = self.make_folder()
        self.setup = [COPY, PREFIX, SAFE]
        one = self.go(self.world.zones[:1], env=self.held(20))
        self.wait_training(one, 3)
        copy, = self.copies()
        self.assertEqual({str(path.relative_to(copy)): self.seen(path) for path in copy.rglob("*")
                          if not path.is_dir() and ".git" not in path.relative_to(copy).parts},
                         expected)
        prefix = (self.evidence / "prefix").read_text()
        self.assertRegex(prefix, r"/setup/[0-9a-f]{16}/venv$")
        self.assertRegex((self.evidence / "safe").read_text(), r"^/.*/code\n$")
        again = self.spotter("launch", self.file)
        self.assertIn("is at work already", again.stderr)
        self.assertRegex(again.stderr, r"the code: \d+ files, .* \(commit \w{12} and \d changes\)")
        before = self.running(one)
        os.kill(before, signal.SIGKILL)
        wait("another trainer", lambda: self.running(one) not in (None, before))
        self.assertEqual(self.copies(), [copy], "its environment is there")
        self.world.interrupt(one, 8)
        two = self.wait_instance([one])  # which mounts the volume elsewhere: it is made again
        self.wait_training(two, 3)
        self.gate.touch()
        self.wait_end()
        self.assertEqual(len(self.copies()), 2)
        self.assert_ended_well(kills=1)

    def test_changed_and_launched_again_the_change_is_what_runs(self):
        self.make_folder()
        shutil.rmtree(self.mine / ".git")  # without git's repository all is taken
        self.setup = COPY
        one = self.go(self.world.zones[:1], env=self.held(20))
        self.wait_training(one, 3)
        first, = self.copies()
        self.assertEqual((first / "data.bin").read_bytes(), b"ignored by git")
        self.assertFalse((first / "table.csv").exists())
        self.assertFalse((first / "notes").exists())
        self.assertTrue((first / "inner/of_another_repository.py").exists())
        self.write("dos.txt", b"another\n")
        self.setup = [COPY, "true"]
        two = self.go(self.world.zones[:1], besides=[one], env=self.held(20))
        self.gate.touch()
        self.wait_end()
        self.assertNotEqual(two, one)
        second, = set(self.copies()) - {first}
        self.assertEqual((second / "dos.txt").read_bytes(), b"another\n")
        self.assert_ended_well()

    def test_a_setup_that_fails_is_no_attempt_and_waits(self):
        self.make_folder()
        self.setup = "echo looks for it; test -e $EVIDENCE/there"
        one = self.go(self.world.zones[:1])
        self.wait_stage(one, "blocked")
        self.wait_console(one, "blocked: a command of `setup` failed")
        self.assertFalse(self.fleet_is_cancelled())
        said = f"spotter: setup: '{self.setup}' failed with exit status 1"
        wait("its output in the bucket", lambda: any(
            said in path.read_text(errors="replace")
            for path in (self.world.directory / "s3/seen").rglob("*") if path.is_file()))
        self.assertIn(said + "\n", self.spotter("logs", self.file).stdout)
        (self.evidence / "there").touch()
        self.assert_ended_well()

    def test_what_cannot_be_sent_is_refused_before_it_costs(self):
        self.make_folder()
        file = self.world.workplace / "job.yaml"
        launch = {"image": "resolve:ssm:/aws/service/debian/12", "instance_types": ["g5.xlarge"],
                  "zones": self.world.zones, "profile": "spotter-role", "volume": {"size": 1}}

        def refused(says, **more):
            text = jobs.yaml(self.job(launch=launch, **more)) + "\n"
            file.write_text(text)
            self.assertIn(says, self.spotter("launch", file, code=2).stderr)
        with (self.mine / "large.pt").open("wb") as large:
            large.truncate(600 << 20)
        refused("(the largest: large.pt 629 MB")
        (self.mine / "large.pt").unlink()
        refused("code.folder is sent to where the job is published", publish=None)
        refused("nowhere is no folder here", code={"folder": "nowhere"})
        self.assertEqual(self.ec2.instances(), [])
        self.assertEqual(list((self.world.directory / "s3/seen").rglob("*")), [])


if __name__ == "__main__":
    life.harness.main()
