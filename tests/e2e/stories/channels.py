"""Data channels of a job: streamed, also on the next instance; what cannot be had is a failure."""

import hashlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import wait

# Reads two epochs; other bytes than expected are a failure. The first trainer then tells the agent
# and waits for its end, which comes without notice; the second one is done.
READER = """exec python3 - <<'END'
import hashlib, os, signal, socket, sys, time
for epoch in range(2):
    with open(os.environ["SM_CHANNEL_TRAIN"] + "_" + str(epoch), "rb") as fifo:
        if hashlib.sha256(fifo.read()).hexdigest() != os.environ["EXPECTED"]:
            sys.exit("these are not the bytes")
mark = os.environ["SPOTTER_STORAGE"] + "/result/first"
if not os.path.exists(mark):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    open(mark, "w").close()
    os.sync()
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    agent.sendto(b"X_SPOTTER_STEP=1", os.environ["NOTIFY_SOCKET"])
    time.sleep(600)
END
"""


class Channels(harness.Story):
    def reading_job(self, expected=""):
        return self.job(trainer={"command": READER}, env={"EXPECTED": expected},
                        channels={"train": "s3://data/train/"})

    def test_the_next_instance_reads_the_same(self):
        folder = self.world.directory / "s3/data/train"
        folder.mkdir(parents=True)
        whole = hashlib.sha256()
        for i in range(4):
            part = bytes([65 + i]) * (3_000_000 * i + 1)
            (folder / str(i)).write_bytes(part)
            whole.update(part)
        self.volume()
        instance = self.launch(self.reading_job(whole.hexdigest()), zones=self.world.zones)
        self.wait_training(instance, 1)
        self.world.kill(instance)
        wait("the fleet to be cancelled", lambda: self.ec2.fleet_state(self.fleet)
             .startswith("cancelled"), 120)

    def test_no_data_is_a_failure_that_is_told(self):
        self.volume()
        instance = self.launch(self.reading_job())
        self.wait_console(instance, "channel train: s3://data/train/: there is no such bucket", 90)


if __name__ == "__main__":
    harness.main()
