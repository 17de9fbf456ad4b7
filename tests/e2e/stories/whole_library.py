"""`import spotter` on machines that `spotter launch` starts: the agent's package brings it."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import whole_machines


class WholeLibrary(whole_machines.WholeLife):
    trainer = harness.TRAINERS / "imports_spotter.py"
    steps = 150

    def begin_with(self, command):
        self.who = self.world.shared / "who"
        self.who.mkdir()
        self.who.chmod(0o777)
        return self.begin(env={"WHO": str(self.who), "PYTHONPATH": "/opt/mine", "PACE": "0.2"},
                          trainer={"command": command})

    def starts(self):
        return [json.loads(path.read_text()) for path in sorted(self.who.iterdir())]

    def test_in_a_virtual_environment_and_on_the_next_machine(self):
        # A user's: it sees nothing of the system's packages. Each machine makes its own.
        one = self.begin_with("python3 -m venv --clear --without-pip /tmp/venv && "
                              ". /tmp/venv/bin/activate && exec python ./train.py")
        self.wait_training(one, 5)
        self.world.interrupt(one, 10)
        two = self.successor(one)
        self.wait_training(two, 15)
        self.wait_end()
        self.assert_steps(kills=0, torn=0)
        first, second = self.starts()
        for start in (first, second):
            self.assertNotEqual(start["prefix"], start["base"], "in a virtual environment")
            self.assertEqual(start["spotter"], "/usr/lib/spotter/python/spotter/__init__.py")
            self.assertEqual(start["path"], "/opt/mine:/usr/lib/spotter/path")
        self.assertEqual(first["from"], 0)
        self.assertGreaterEqual(second["from"], 5)
        left, = self.ec2.volumes()
        self.left = left.text("volumeId")
        self.world.stop()
        total = (self.kept_folder("result") / "total").read_text()
        self.assertEqual(int(total), sum(range(1, self.steps + 1)))


if __name__ == "__main__":
    harness.main()
