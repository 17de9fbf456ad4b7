"""A machine without the GPUs that the job needs is given back; on the next one the job is done."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life
from emulator import wait

# What an image does before the agent: a driver of two GPUs, but not on the first machine.
DRIVER = """
if mkdir {first} 2>/dev/null; then
  echo "an image without a driver"
else
  mkdir -p driver
  cat >driver/nvidia-smi <<'END'
#!/bin/sh
[ "$1" = -L ] || exit 0
printf 'GPU %s: Fake (UUID: GPU-0)\\n' 0 1
END
  cat >driver/nvidia-modprobe <<END
#!/bin/sh
cd $SPOTTER_DEVICES && touch nvidiactl nvidia-uvm nvidia0 nvidia1
END
  chmod +x driver/*
  PATH=$PWD/driver:$PATH
  export PATH
fi
"""


class Gpus(life.Life):
    def launch(self, job, **more):
        before = DRIVER.format(first=self.world.workplace / "first")
        return super().launch(job, before=before, **more)

    def test_a_machine_without_them_is_given_back(self):
        one = self.begin(trainer={"gpus": 2})
        two = self.successor(one)
        wait("the first machine to be gone", lambda: all(
            it.text("instanceState/name") == "terminated" for it in self.ec2.instances()
            if it.text("instanceId") == one))
        console = self.world.console(one)
        self.assertRegex(console, "nvidia-smi.*not installed")
        self.assertIn(f"giving back {one}", console)
        self.wait_training(two, 1)
        self.assert_ended_well()
        self.assertEqual(len(self.trainer_runs()), 1, "no trainer was started on the first machine")


if __name__ == "__main__":
    life.harness.main()
