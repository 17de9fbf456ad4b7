"""What Prometheus gets, by a scrape and by a file: as promtool wants it; the examples fit."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import ROOT, wait

PORT = 19464
EXAMPLES = ROOT / "scripts/packaging/monitoring"


def value(text, name, **labels):
    """Of the sample with these labels, if it is there."""
    for line in text.splitlines():
        found = re.fullmatch(r"(spotter_\w+)(?:\{(.*)\})? (\S+)", line)
        if not found or found[1] != f"spotter_{name}":
            continue
        seen = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
        if all(seen.get(label) == wanted for label, wanted in labels.items()):
            return float(found[3])
    return None


class Prometheus(harness.Story):
    def scrape(self, instance, path="/metrics", port=PORT):
        words = ["curl", "-s", "-w", "%{http_code}", f"http://127.0.0.1:{port}{path}"]
        agents = self.agents(instance)
        if not agents:
            return "", ""
        if self.world.mode == "root":  # each instance has a loopback of its own
            words = ["nsenter", "-t", str(agents[0]), "-n", *words]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
        return done.stdout[-3:], done.stdout[:-3]

    def assert_well_formed(self, text):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                              capture_output=True, check=False, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_scraped_and_written_across_an_interruption(self):
        self.root_only("instances share one loopback, and the port")
        folder = pathlib.Path(self.world.directory) / "exporter"
        folder.mkdir()
        file = folder / "spotter-story.prom"
        self.volume()
        job = self.job(env={"STEPS": "100000"},
                       prometheus={"port": PORT, "textfile": str(folder)},
                       finish_by="2040-01-01T00:00Z")
        instance = self.launch(job)
        self.wait_training(instance, 4)
        wait("a checkpoint", lambda: value(self.scrape(instance)[1], "checkpoints_total"))
        status, text = self.scrape(instance)
        self.assertEqual(status, "200")
        self.assert_well_formed(text)
        self.assertEqual((value(text, "training"), value(text, "blocked"), value(text, "up")),
                         (1, 0, 1))
        self.assertEqual(value(text, "instance_info", instance_id=instance), 1)
        self.assertEqual(value(text, "stage_info", stage="training"), 1)
        self.assertGreaterEqual(value(text, "step"), 4)
        self.assertEqual(value(text, "steps_expected"), 100000)
        self.assertEqual(value(text, "aws_requests_total", action="AttachVolume", service="ec2"), 1)
        self.assertIsNone(value(text, "deadline_seconds"))
        self.assertEqual(value(text, "finish_by_timestamp_seconds"), 2208988800)
        self.assertEqual(value(text, "deadline_trouble", kind="late"), 0)
        self.assertEqual(self.world.status(instance)["outlook"], "by 2040-01-01T00:00:00Z")
        self.assertEqual(self.scrape(instance, "/other"), ("404", "ask for /metrics\n"))
        wait("the file", lambda: file.exists() and value(file.read_text(), "training") == 1)
        self.assert_well_formed(file.read_text())

        self.world.interrupt(instance, 120)
        wait("the deadline", lambda: value(self.scrape(instance)[1], "deadline_seconds"))
        self.wait_released(instance)
        self.world.kill(instance)
        self.world.control("fault", "capacity", self.zone, "1")
        other = self.wait_instance(besides=(instance,))
        self.wait_status(other, "training", lambda one: one.get("resumed_step"))
        after = self.scrape(other)[1]
        self.assert_well_formed(after)
        self.assertEqual(value(after, "interruptions_total", kind="announced"), 1)
        self.assertEqual(value(after, "interruptions_total", kind="lost"), 0)
        self.assertGreaterEqual(value(after, "checkpoint_stall_seconds_total"),
                                value(text, "checkpoint_stall_seconds_total"),
                                "the job's, whichever machine wrote the checkpoints")
        # Those that are sent at times, or by other trainers.
        self.assert_examples_know(text + after + "spotter_deadline_seconds "
                                 "spotter_accuracy spotter_metric spotter_pipe_bytes_total "
                                 "spotter_pipe_stall_seconds_total")

    def test_a_scrape_while_it_ends_is_whole_or_none(self):
        self.root_only("instances share one loopback, and the port")
        self.volume()
        instance = self.launch(self.job(env={"STEPS": "100000"}, prometheus={"port": PORT}),
                               restart=False)
        self.wait_training(instance, 2)
        agent = self.agents(instance)[0]
        scrapes = subprocess.Popen(
            ["nsenter", "-t", str(agent), "-n", "sh", "-c",
             f"while curl -sf http://127.0.0.1:{PORT}/metrics || {{ echo curl $?; exit; }}; "
             "do echo '# end'; done"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(scrapes.kill)
        text = ""
        for line in scrapes.stdout:  # until one fails
            text += line
            if line == "# end\n" and text.count(line) == 3:
                os.kill(agent, signal.SIGINT)  # releases the job, which takes some steps
        *whole, last = text.split("# end\n")
        self.assertGreaterEqual(len(whole), 3)
        for one in {one.split("# HELP spotter_aws")[0] for one in whole}:
            self.assert_well_formed(one)
        # Refused, or closed before a byte of the answer: never a part of one.
        self.assertRegex(last, r"^curl (7|52|56)\n$")
        self.wait_console(instance, "asked to stop: releasing the job")

    def test_a_port_that_is_taken_costs_no_training(self):
        self.volume()
        self.root_only("the test would take the port of everybody")
        before = f"/usr/bin/python3 -c 'import socket, time; s = socket.socket(); " \
                 f"s.bind((\"127.0.0.1\", {PORT})); s.listen(); time.sleep(300)' &\nsleep 1"
        instance = self.launch(self.job(prometheus={"port": PORT, "textfile": "/no/such/folder"}),
                               before=before)
        self.wait_training(instance, 2)
        self.wait_console(instance, f"prometheus.port: cannot listen on 127.0.0.1:{PORT}: Address")
        self.wait_console(instance, "prometheus.textfile: cannot write /no/such/folder/spotter-")

    def assert_examples_know(self, text):
        """Each metric of the examples is one that exists."""
        known = set(re.findall(r"\bspotter_\w+", text))
        done = subprocess.run(["promtool", "check", "rules", EXAMPLES / "alerts.yml"], text=True,
                              capture_output=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        dashboard = json.loads((EXAMPLES / "dashboard.json").read_text())
        used = " ".join(target["expr"] for panel in dashboard["panels"]
                        for target in panel["targets"])
        used += "".join(re.findall(r"expr: .*", (EXAMPLES / "alerts.yml").read_text()))
        self.assertEqual(set(re.findall(r"\bspotter_\w+", used)) - known, set())


if __name__ == "__main__":
    harness.main()
