#!/usr/bin/python3
"""A trainer that attacks a whole machine, from the sandbox of its unit: systemd, the package, a
volume."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import judge  # adds tests/e2e to the path
import harness
import whole_machines

HOME = "/mnt/spotter"
# In the place of Docker's: notes the user of each who connects.
DOCKER = """
import os, shutil, socket, struct
asked = socket.socket(socket.AF_UNIX)
asked.bind("/run/docker.sock")
shutil.chown("/run/docker.sock", "root", "docker")
os.chmod("/run/docker.sock", 0o660)
asked.listen()
while True:
    one = asked.accept()[0]
    peer = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    with open("/run/docker-asked", "a") as file:
        print(struct.unpack("3i", peer)[1], file=file)
    one.send(b"x")
"""
ASK_DOCKER = ("import socket; it = socket.socket(socket.AF_UNIX); "
              "it.connect('/run/docker.sock'); it.recv(1)")


class OnAWholeMachine(judge.Judged, whole_machines.WholeLife):
    # fs.protected_hardlinks; the volume's root folder, which is root's; RestrictSUIDSGID=
    cannot_leave = ("puts_links_in_the_place_of_folders", "gives_second_names_to_others_files",
                    "moves_our_folder_away", "puts_links_in_the_place_of_our_files",
                    "makes_its_home_a_link", "writes_a_record_that_names_root",
                    "leaves_setuid_checkpoints", "leaves_a_setuid_shell")

    def words_of_root(self, instance):
        return self.world.words(instance)

    def said(self, one):
        return self.world.journal(one, "-u", "spotter", "-o", "cat")

    def others(self):
        return [*super().others(), "/usr/lib/systemd", "/usr/lib/spotter", "/boot", "/opt"]

    def begin_attack(self, env, checkpoints):
        self.volume()
        job = self.job(env=env, on_failure={"attempts_without_progress": 4, "then": "hold"})
        job["checkpoints"] = checkpoints
        if env["PLAN"] == "reached":
            job["trainer"]["user"] = "spotter"  # the package's own, and who it is by default
        return self.launch(job)

    def serve_logins(self, one):
        """A real sshd, by which a person with a key logs in, and the trainer must not."""
        self.serve_programs(one)
        self.world.run(one, "sh", "-ec", """
            systemctl start ssh
            useradd --create-home --shell /bin/bash person
            install -d -m 0700 -o person /home/person/.ssh
            ssh-keygen -q -t ed25519 -N '' -f /root/person
            install -m 0600 -o person /root/person.pub /home/person/.ssh/authorized_keys
            """)
        said = self.world.run(one, "ssh", "-i", "/root/person", "-o", "BatchMode=yes", "-o",
                              "StrictHostKeyChecking=no", "person@127.0.0.1", "id", "-un")
        self.assertEqual(said.strip(), "person")
        # The package's own user: not even with a key that sshd finds.
        self.world.run(one, "sh", "-ec", """
            install -d /nonexistent /nonexistent/.ssh
            install -m 0644 /root/person.pub /nonexistent/.ssh/authorized_keys
            """)
        own = "spotter@127.0.0.1"
        ssh = "timeout 20 ssh -i /root/person -o BatchMode=yes -o StrictHostKeyChecking=no"
        for way in (f"{own} id", f"-s {own} sftp", f"-W 127.0.0.1:22 {own}"):
            said = self.world.run(one, "sh", "-c", f"{ssh} {way} 2>&1 </dev/null", check=False)
            self.assertIn("account has expired", said)

    def serve_programs(self, one):
        """A real cron and at, and a stand-in for Docker, which run what another user says."""
        self.world.run(one, "sh", "-ec", """
            systemctl start cron atd
            groupadd docker
            useradd --create-home --groups docker worker
            systemd-run --quiet --unit=docker-stand-in /usr/bin/python3 -c "$1"
            until test -S /run/docker.sock && test "$(stat -c %G /run/docker.sock)" = docker; do
                sleep 0.1; done
            setpriv --reuid=worker --regid=worker --init-groups sh -ec '
                cd /home/worker; echo "0 0 1 1 * true" | crontab -; echo true | at now + 1 hour
                exec /usr/bin/python3 -c "$1"' sh "$2"
            """, "sh", DOCKER, ASK_DOCKER)

    def assert_programs_are_the_workers(self, one):
        said = self.world.run(one, "sh", "-ec", """
            ls /var/spool/cron/crontabs; atq | awk '{print $NF}'
            for id in $(sort -u /run/docker-asked); do getent passwd $id | cut -d: -f1; done""")
        self.assertEqual(said.split(), ["worker"] * 3)
        home = self.world.run(one, "sh", "-c", "getent passwd spotter | cut -d: -f6").strip()
        found = self.world.run(one, "sh", "-c", f"find {home} -user spotter -type f || true")
        self.assertEqual(found, "", "a mail server would run what its home says")

    def leave(self, plan):
        one = super().leave(plan)
        # Copies of its files are the trainer's: they are put back as what they were.
        own = self.world.run(one, "find", f"{HOME}/.spotter", "-perm", "/6000", "-print", "-o",
                             "-not", "-uid", "0", "-not", "-path", "*/kept/*", "-not", "-path",
                             "*/torn/*", "-print", check=False)
        self.assertEqual(own, "", "what root believes is root's, and a way in to nobody")

    def test_links_on_its_volume_lead_root_nowhere(self):
        self.leave("links")

    def test_folders_of_its_volume_that_change_places_lead_root_nowhere(self):
        self.leave("races")

    def test_a_user_who_could_become_root_starts_nothing(self):
        one = self.attack("reached", go=False)
        administrators = self.world.workplace / "administrators.yaml"
        administrators.write_text(re.sub(r"(\buser: ).*", r'\1"ubuntu"', self.file.read_text()))
        self.assertIn("ubuntu is the administrator of its image",
                      self.spotter("launch", administrators, code=1).stderr)
        self.world.run(one, "sh", "-ec", """
            useradd boss
            echo 'boss ALL=(ALL) NOPASSWD:ALL' >/etc/sudoers.d/boss
            useradd --groups sudo second
            useradd plain
            """)
        for user, right in (("root", "it is root"), ("boss", "sudo lets it run commands"),
                            ("second", "it is in the group sudo"), ("plain", "")):
            said = self.world.run(one, "sh", "-c", f"""
                mkdir -m 0700 /run/of-{user}
                echo '{{"version":1,"command":"true","user":"{user}","log_file":"/run/{user}.log",
                       "refuse_administrators":true}}' |
                    spotter supervise --run-directory /run/of-{user} --spec - 2>&1""", check=False)
            self.assertIn(right, said)
            self.assertEqual("could become root" in said, bool(right), said)

    def test_what_it_reaches_from_its_sandbox_is_its_own(self):
        one = self.reach()
        self.assert_programs_are_the_workers(one)
        agent = self.agent(one)
        self.world.run(one, "systemctl", "restart", "spotter")
        self.assertNotIn(self.agent(one), (agent, "0"))
        self.wait_more_steps(one)
        self.judge_all(one)
        self.wait_journal(one, "the job is done|cancelling the fleet")


if __name__ == "__main__":
    harness.main()
