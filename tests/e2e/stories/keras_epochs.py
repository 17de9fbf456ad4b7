"""AWS's own example for spot instances: *.h5 named after the epoch, no signals, and a metadata
service that is asked as version 1 is, on instances that allow it."""

import http.server
import pathlib
import re
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import unaware
from emulator import wait
from volumes import copy_out

SAME = """
import sys, h5py
one, two = (h5py.File(name, "r") for name in sys.argv[1:])
names = [f"model_weights/{number}" for number in range(3)]
sys.exit(not all((one[name][...] == two[name][...]).all() for name in names))
"""


class NotFound(http.server.BaseHTTPRequestHandler):
    def do_GET(self):  # noqa: N802
        self.send_error(404)

    def log_message(self, *_):
        pass


class KerasEpochs(unaware.Unaware):
    same = SAME
    modules, files, result = "h5py", "*.h5", "training/result/cifar10_model.h5"
    directory, subfolder = "training", "checkpoints"
    trainer = harness.TRAINERS / "cifar_keras.py"
    command = "./train.py \"{storage}/training\" {epochs} 512"
    stop_signal = "none"
    more_of_trainer = {"imds": "allow"}

    def quiet_metadata(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFound)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return f"http://127.0.0.1:{server.server_port}"

    def test_it_ends_as_if_nothing_had_happened(self):
        self.world.control("fault", "tokens-optional", "on=true")
        self.story()

    def check_the_end(self, other_result):
        super().check_the_end(other_result)
        # It saw the notice by itself, and nothing else that it would have taken for one.
        last = next(one.text("volumeId") for one in self.ec2.volumes())
        log = (copy_out(self.world, last, "log") / "trainer.log").read_text()
        self.assertEqual(set(re.findall(r"status (\d+)", log)), {"200"})

    def test_where_tokens_are_required_it_waits_at_each_batch(self):
        """As the manual says of such scripts (job.yaml(5), imds); their log shows it."""
        self.volume()
        one = self.launch(self.the_job(), zones=self.world.zones)

        def waits():
            for trainer in self.trainers(one):
                variables = dict(word.split(b"=", 1) for word in
                                 self.environment(trainer).split(b"\0") if b"=" in word)
                storage = variables[b"SPOTTER_STORAGE"].decode()
                log = pathlib.Path(f"/proc/{trainer}/root{storage}/log/trainer.log")
                return log.exists() and "status 401: waiting for the end" in log.read_text()
        wait("the script to wait", waits)


if __name__ == "__main__":
    harness.main()
