"""The token of a private repository reaches its server, and not where the trainer would send it."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import ROOT

TOKEN = "t0ken-9b74c9897bac770f"


class CodeToken(harness.Story):
    trainer = harness.TRAINERS / "poisons_checkout.py"

    def serve(self, name, port, token):
        """A server on the instance: its command there, its address, and what it has seen."""
        seen = self.world.shared / name
        command = (f"sleep 1000 | /usr/bin/python3 {ROOT}/tests/host/git_server.py "
                   f"{self.world.shared} {seen} token {token} port {port} >/dev/null &\n")
        return command, f"http://127.0.0.1:{port}", seen.read_text

    def test_a_poisoned_checkout_does_not_take_it_elsewhere(self):
        self.root_only("the servers' ports are the instance's own")
        subprocess.run(["git", "-c", "safe.directory=*", "-C", self.repository,
                        "update-server-info"], check=True)
        path = self.world.workplace / "token"
        path.write_text(TOKEN + "\n")
        path.chmod(0o600)
        serve, server, asked = self.serve("server", 7001, f"$(cat {path})")
        lurk, thief, stolen = self.serve("thief", 7002, "none")
        self.volume()
        job = self.job(env={"SERVER": server, "THIEF": thief})
        job["code"].update(repository=f"{server}/repository/.git", token=f"file:{path}")
        one = self.launch(job, before=serve + lurk)
        self.wait_console(one, "the checkout is poisoned")
        self.wait_console(one, "attempt 1 without progress")
        self.wait_stage(one, "training")
        pairs = re.findall(rf"nothing hidden .*\nx-access-token:{TOKEN} hidden", asked())
        self.assertEqual(len(pairs), 4,
                         "twice the commit by its id, which this server refuses, and then all")
        self.assertEqual(stolen(), "")
        self.assertNotIn("readable", asked())
        self.assertEqual(list(self.world.directory.rglob("evil.git/ran")), [])
        self.assertEqual(self.files_with(TOKEN), [])

    def test_without_tls_it_is_refused_before_anything_is_launched(self):
        job = self.job(launch={"image": "ami-0123456789abcdef0", "instance_types": ["p3.2xlarge"]})
        job["code"].update(repository="http://git.example.com/x", token="env:TOKEN")
        file = self.world.workplace / "job.yaml"
        file.write_text(harness.jobs.yaml(job))
        for words in (("agent", "--check", "--job", file), ("launch", file, "--dry-run"),
                      ("launch", file), ("prepare", file)):
            done = subprocess.run([self.world.bin / "spotter", *words], stdin=subprocess.DEVNULL,
                                  env={"SPOTTER_MOUNT": "/mnt/spotter"}, capture_output=True,
                                  text=True, timeout=30, check=False)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn("code.repository: http://git.example.com/x has no TLS, and code.token is "
                          "sent over TLS alone: give the server's https:// address", done.stderr)

    def files_with(self, secret):
        return [file for file in self.world.directory.rglob("*") if file.is_file()
                and file.stat().st_size < 1 << 24 and secret.encode() in file.read_bytes()]


if __name__ == "__main__":
    harness.main()
