"""A job whose trainer attacks the machine, judged from outside: what the program says of itself is
read for mistakes of its own, never as a proof.

The proof is what is not the trainer's, before and after: type, owner, mode and content. What the
trainer steals it writes into a folder, where a secret is found however it came there."""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import job as jobs
import volumes
from emulator import SECRETS, wait

ATTACKS = HERE / "attacks"
# Of the machine: what a trainer must never change. It is run where these paths mean something.
SYSTEM = ("/etc", "/usr/bin", "/usr/sbin", "/usr/local", "/root/.ssh", "/root/.bashrc",
          "/root/.profile", "/root/.gitconfig", "/root/.config", "/var/spool/cron")
LOOK = """
import hashlib, json, os, stat, sys
seen = {}
def look(path):
    try:
        status = os.lstat(path)
        content = ""
        if stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            with open(path, "rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return
    seen[path] = [status.st_mode, status.st_uid, status.st_gid, content]
for top in sys.argv[1:]:
    look(top)
    for place, folders, files in os.walk(top):
        for name in folders + files:
            look(os.path.join(place, name))
print(json.dumps(seen))
"""
STRANGER = 4243  # another user, who has a job on the share and a home


class Judged:
    """Beside a life.Life. Subclasses say where a program looks at the machine: words()."""

    job_name = "story"
    trainer = ATTACKS / "train.py"
    maxDiff = None

    def code(self):
        return {path.name: path.read_text() for path in ATTACKS.glob("*.py")} | {
            "fake_trainer.py": (HERE.parent / "e2e/fake_trainer.py").read_text()}

    # Given

    def given_victims(self):
        """Files of root's and of a stranger's, which every instance sees."""
        self.victim = self.world.shared / "victim"
        self.loot = self.world.shared / "loot"
        for path in (self.victim, self.victim / "conf", self.victim / "home"):
            path.mkdir()
            path.chmod(0o755)
        self.loot.mkdir()
        self.loot.chmod(0o777)
        for name, mode in (("secret", 0o600), ("readable", 0o644), ("conf/passwd", 0o644),
                           ("home/.profile", 0o644)):
            (self.victim / name).write_text("not the trainer's\n")
            (self.victim / name).chmod(mode)
        for path in (self.victim / "home", self.victim / "home/.profile"):
            os.chown(path, STRANGER, STRANGER)

    def attack(self, plan, **more):
        """An instance whose trainer has attacked by this plan once `attacked` says so."""
        self.given_victims()
        env = {"PLAN": plan, "VICTIM": str(self.victim), "JOURNAL": str(self.loot), "STEPS": "40",
               "PACE": "0.2", "FORMAT": "spotter"}
        one = self.begin_attack(env, checkpoints={"directory": "checkpoints",
                                                  "files": "*.bin *.safetensors readable"}
                                if plan != "reached" else {"directory": "checkpoints"}, **more)
        self.wait_starts(1)
        self.before = self.look(one)
        (self.loot / "go").touch()
        return one

    def wait_starts(self, count, seconds=90):
        wait(f"start {count} of the trainer",
             lambda: len(list(self.loot.glob("start-*"))) >= count, seconds)

    def lines(self):
        """What the trainer says of its attacks so far."""
        return [json.loads(line) for file in self.loot.glob("attacks-*")
                for line in file.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def attacks(self, *names):
        """The same, once each of these is over."""
        def over():
            return set(names) <= {line["attack"] for line in self.lines()}
        wait(f"the attacks {' '.join(names)}", over, 120, 0.3)
        return self.lines()

    # What the machine shows

    def others(self):
        """Besides SYSTEM: what is there for the trainer to destroy."""
        return [self.victim]

    def look(self, instance):
        words = [*self.words_of_root(instance), "/usr/bin/python3", "-c", LOOK, *SYSTEM,
                 *map(str, self.others())]
        return json.loads(subprocess.run(words, check=True, capture_output=True, text=True,
                                         timeout=120).stdout)

    # Then

    def assert_nothing_changed(self, instance):
        after = self.look(instance)
        self.assertGreater(len(self.before), 100, "the machine was looked at")
        changed = sorted(path for path in self.before.keys() | after.keys()
                         if self.before.get(path) != after.get(path))
        self.assertEqual([(path, self.before.get(path), after.get(path)) for path in changed], [])

    def assert_nothing_stolen(self):
        for path in self.loot.glob("loot-*"):
            self.assertIsNone(SECRETS.search(path.read_bytes()), path)
            self.assertEqual(path.read_bytes(), b"", f"{path.name} was read")
        ran = {path.name for path in (self.loot / "ran").glob("*")}
        self.assertLessEqual(ran, {str(self.trainers_uid())}, "who ran the trainer's programs")

    def assert_none_broken(self, attacks):
        self.assertEqual([line for line in attacks if line.get("broken")], [])

    def assert_nothing_got(self, attacks):
        self.assert_none_broken(attacks)
        got = {line["attack"]: line["got"] for line in attacks if line["got"]}
        self.assertEqual(got, {"my_own_keys": "200"})

    def assert_no_way_in(self, folder):
        """No copy that root has, or made, acts as somebody else."""
        files = [path for path in pathlib.Path(folder).rglob("*")
                 if path.is_file() and not path.is_symlink()]
        for path in files:
            status = path.stat()
            if status.st_mode & 0o6000:
                self.assertEqual(status.st_uid, self.trainers_uid(), path)

    def assert_journal_is_ours(self, text):
        """No line in the name of another, and nothing that a terminal obeys."""
        for line in text.splitlines():
            if "forged" in line or "flood" in line:
                self.assertNotRegex(line, "(saved|kept|finished) (forged|flood)")
        self.assertNotIn("\x1b]0;owned", text)

    def assert_silent_after(self, folder, done):
        """Who outlived the trainer wrote nothing once the result was marked as durable."""
        written = list(pathlib.Path(folder).glob("after-*"))
        self.assertEqual(len(written), 8, "the chains had begun")
        for path in written:
            self.assertLessEqual(path.stat().st_mtime_ns, done, f"{path.name} after DONE")

    def trainers_uid(self):
        import pwd
        return pwd.getpwnam(jobs.trainer_user()).pw_uid

    def copy_of(self, volume, path):
        return volumes.copy_out(self.world, volume, path)
