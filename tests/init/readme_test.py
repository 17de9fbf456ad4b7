"""The job.yaml that the README has a reader paste is one, for an ordinary user, too."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Readme(unittest.TestCase):
    def check(self, file):
        section = (ROOT / file).read_text().partition("\nlaunch:\n")
        text = section[0].rpartition("```yaml\n")[2] + section[1] + section[2].partition("```")[0]
        self.assertRegex(text, "^job: ")
        self.assertNotIn("...", text, "something is left to fill in")
        nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        who = nobody if os.geteuid() == 0 else {}
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as job:
            job.write(text)
            job.flush()
            os.chmod(job.name, 0o644)
            # The program may lie where only its builder may look: it gets there as a file.
            with open(os.environ["SPOTTER_PATH"], "rb") as program:
                done = subprocess.run(
                    [f"/proc/self/fd/{program.fileno()}", "agent", "--check", "--job", job.name],
                    pass_fds=[program.fileno()], text=True, capture_output=True, check=False,
                    timeout=600, **who)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_its_job_is_well_described(self):
        self.check("README.md")

    def test_so_is_that_of_its_translation(self):
        self.check("agent/README.ko.md")


if __name__ == "__main__":
    unittest.main(verbosity=2)
