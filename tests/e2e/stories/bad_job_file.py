"""A job.yaml with mistakes: all of them at once, with lines and the nearest name; exit 2."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness

MISTAKEN = """job: Not A Name
storage:
  ebs:
    tag: {Name: mnist-volume}
    filesytem: xfs
trainer:
  comand: ./train.sh
  user: nobody
on_failure: {attempts_without_progress: many}
"""


class BadJobFile(harness.Story):
    def test_every_mistake_is_said_at_once_and_nothing_is_started(self):
        volume = self.volume()
        instance = self.launch(MISTAKEN)
        self.wait_console(instance, r"job\.yaml:9")
        console = self.world.console(instance)
        self.assertRegex(console, r"job\.yaml:1\b")
        self.assertRegex(console, r"job\.yaml:5\b.*filesytem.*filesystem")
        self.assertRegex(console, r"job\.yaml:7\b.*comand.*command")
        self.assertEqual(self.volume_state(volume), "available")
        self.assertEqual(self.trainers(instance), [])
        self.assert_volumes(volume)
        self.assert_fleet_untouched()

    def test_the_agent_ends_with_status_2(self):
        path = self.world.workplace / "wrong.yaml"
        path.write_text(MISTAKEN)
        done = subprocess.run([self.world.bin / "spotter", "agent", "--job", path], timeout=20,
                              capture_output=True, text=True, check=False,
                              env={"PATH": "/usr/bin:/bin"})
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("wrong.yaml:5", done.stderr)


if __name__ == "__main__":
    harness.main()
