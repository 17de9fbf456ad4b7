"""A job whose trainer attacks the machine, judged from outside.

The proof is what is not the trainer's, before and after: type, owner, mode and content. What the
trainer steals it writes into a folder, where a secret is found however it came there. What it says
of itself shows that each attack of the table was carried out, and what answers it got."""

import json
import pathlib
import os
import pwd
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE / "attacks")]
import job as jobs
import table
import volumes
from emulator import SECRETS, wait

ATTACKS = HERE / "attacks"
BESIDE = [HERE.parent / "e2e" / name for name in ("fake_trainer.py", "sigv4.py")]
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
    seen[path] = [oct(status.st_mode), status.st_uid, status.st_gid, content]
for top in sys.argv[1:]:
    look(top)
    for place, folders, files in os.walk(top):
        for name in folders + files:
            look(os.path.join(place, name))
print(json.dumps(seen))
"""
STRANGER = 4243  # another user, who has a job on the share and a home
CHAINS = 8  # of processes, which go on after the trainer's end


class Judged:
    """Beside a life.Life. Subclasses say where a program looks at the machine, words_of_root(),
    and what of the machine cannot be attacked there."""

    job_name = "story"
    trainer = ATTACKS / "train.py"
    maxDiff = None
    left_out = ()  # attacks that are none here, with the reason where it is set
    cannot_leave = ()  # those of table.LEFT that the system itself refuses

    def code(self):
        return {path.name: path.read_text() for path in [*ATTACKS.glob("*.py"), *BESIDE]}

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

    def attack(self, plan, go=True):
        """An instance whose trainer begins to attack by this plan, or waits."""
        self.given_victims()
        env = {"PLAN": plan, "VICTIM": str(self.victim), "JOURNAL": str(self.loot), "STEPS": "40",
               "PACE": "0.2", "FORMAT": "spotter", "LEFT_OUT": " ".join(self.left_out)}
        checkpoints = {"directory": "checkpoints"}
        if plan in table.LEFT:
            checkpoints["files"] = "*.bin *.safetensors readable"
        one = self.begin_attack(env, checkpoints)
        wait("the trainer", lambda: self.starts() == 1)
        if not go:
            return one
        if plan not in table.LEFT:
            self.serve_logins(one)
        self.before = self.look(one)
        (self.loot / "go").touch()
        return one

    def starts(self):
        return len(list(self.loot.glob("start-*")))

    def lines(self):
        """What the trainer says of its attacks so far."""
        return [json.loads(line) for file in self.loot.glob("attacks-*")
                for line in file.read_text().splitlines(keepends=True) if line[-1] == "\n"]

    def leave(self, plan):
        """Until root's work with all that was left has ended: the trainer was started a third time,
        or never will be."""
        one = self.attack(plan)
        self.wait_status(one, "the end of root's work", lambda status:
                         status["stage"] == "blocked" or self.starts() > 2)
        lines = self.assert_carried_out([name for start in table.LEFT[plan] for name in start])
        for line in lines:
            if not line["got"]:
                self.assertIn(line["attack"], self.cannot_leave, line)
        self.judge_all(one)
        return one

    def serve_logins(self, one):
        """Where there is a unit to get out of."""

    def reach(self):
        """While the attacks go on, and the trainer trains: what root asks is still answered."""
        one = self.attack("reached")
        last = table.REACHED[-1]
        wait(f"the attack {last}", lambda: any(
            line["attack"] == last for line in self.lines()), every=0.3)
        lines = self.assert_carried_out([name for name in table.REACHED
                                         if name not in self.left_out])
        self.assertEqual({line["attack"]: line["got"] for line in lines if line["got"]},
                         table.ALLOWED)
        denied, = (line["answers"] for line in lines
                   if line["attack"] == "uses_its_keys_against_the_job")
        self.assertEqual(list(denied), ["Denied UnauthorizedOperation"])
        return one

    # What the machine shows

    def others(self):
        """Besides SYSTEM: what is there for the trainer to destroy."""
        return [self.victim]

    def look(self, instance):
        words = [*self.words_of_root(instance), "/usr/bin/python3", "-c", LOOK, *SYSTEM,
                 *map(str, self.others())]
        return json.loads(subprocess.run(words, check=True, capture_output=True,
                                         text=True).stdout)

    # Then

    def assert_carried_out(self, names):
        """An attack that never ran, or met nothing, proves nothing."""
        lines = self.lines()
        self.assertEqual([line for line in lines if line.get("broken")], [])
        self.assertEqual(sorted({*names} - {line["attack"] for line in lines}), [], "never ran")
        for line in lines:
            self.assertTrue(line["answers"].keys() - {"ENOENT"} or line["got"], line)
        return lines

    def judge_all(self, one):
        self.assert_nothing_changed(one)
        self.assert_nothing_stolen()
        self.assert_journal_is_ours(self.said(one))

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
        self.assertNotIn("forged", text)
        self.assertNotIn("\x1b]0;owned", text)
        self.assertLess(text.count("from step 700"), 1000, "600 lines of others a minute at most")

    def assert_silent_after(self, folder, done):
        """Who outlived the trainer wrote nothing once the result was marked as durable."""
        written = list(pathlib.Path(folder).glob("after-*"))
        self.assertEqual(len(written), CHAINS, "the chains had begun")
        for path in written:
            self.assertLessEqual(path.stat().st_mtime_ns, done, f"{path.name} after DONE")

    def trainers_uid(self):
        return pwd.getpwnam(jobs.trainer_user()).pw_uid

    def copy_of(self, volume, path):
        return volumes.copy_out(self.world, volume, path)
