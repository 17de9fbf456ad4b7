"""A person who is elsewhere is notified: by a web hook that takes what Slack's take, and by SNS."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import wait

PORT = 18443
SECRET = "T0123/B0456/very-secret"

# On each instance: it has a loopback of its own. Answers with the next of these statuses, and at
# great length.
RECEIVER = """
import http.server, itertools, json, ssl
statuses = itertools.chain({statuses}, itertools.repeat(200))
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status = next(statuses)
        with open("{log}", "a") as log:
            print(json.dumps([self.path, self.headers["Content-Type"], body, status]), file=log)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(b"ok" * 100_000 if status == 200 else b"no_service")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", {port}), Hook)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("{certificate}", "{key}")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


class Notify(harness.Story):
    def setUp(self):
        super().setUp()
        self.root_only("instances share one loopback, and the receiver's port")
        folder = self.world.workplace
        self.log = folder / "posted"
        self.topic = self.world.directory / "sns" / "training"
        self.topic.parent.mkdir()
        self.topic.touch()
        (folder / "hook").write_text(f"https://localhost:{PORT}/{SECRET}\n")
        (folder / "hook").chmod(0o600)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
                        "-keyout", folder / "key.pem", "-out", folder / "certificate.pem"],
                       check=True, capture_output=True, timeout=60)

    def begin(self, statuses=(), on=None, env=None, region="us-west-2", **more):
        folder = self.world.workplace
        (folder / "receiver.py").write_text(RECEIVER.format(
            statuses=list(statuses), log=self.log, port=PORT, key=folder / "key.pem",
            certificate=folder / "certificate.pem"))
        notify = {"webhook": f"file:{folder}/hook",
                  "topic": f"arn:aws:sns:{region}:123456789012:training",
                  **({"on": on} if on else {})}
        before = f"/usr/bin/python3 {folder}/receiver.py &\n" \
                 f"export SSL_CERT_FILE={folder}/certificate.pem"
        return self.launch(self.job(env=env, notify=notify, **more), before=before)

    def posted(self):
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def delivered(self):
        return [json.loads(body)["text"] for _, _, body, status in self.posted() if status == 200]

    def published(self):
        return [json.loads(line) for line in self.topic.read_text().splitlines()]

    def test_a_job_is_reported_by_both_ways(self):
        self.volume()
        instance = self.begin(env={"STEPS": "60", **self.held(20)}, region="eu-central-1")
        self.wait_training(instance, 8)
        self.assertEqual((self.delivered(), self.published()), ([], []), "a first start is no news")
        self.notice(instance)
        self.world.control("fault", "capacity", self.zone, "1")
        other = self.wait_instance(besides=(instance,))
        self.wait_status(other, "training", lambda one: one.get("resumed_step"))
        self.gate.touch()
        wait("the fleet's end", lambda: self.ec2.fleet_state(self.fleet) == "cancelled")
        wait("three posts", lambda: len(self.delivered()) >= 3)
        notice, resumed, finished = self.delivered()
        self.assertRegex(notice, rf"^\*story\*: interruption notice: {instance} in \S+ ends in "
                                 r"\d+ s; the trainer is at step \d+ and is asked to checkpoint$")
        self.assertRegex(resumed, rf"^\*story\*: training goes on on {other} in \S+ from the "
                                  r"checkpoint of step \d+$")
        self.assertRegex(finished, r"^\*story\*: finished, and the result is safe: .* of instances"
                                   r".*, 1 interruption$")
        self.assertEqual({(path, kind) for path, kind, _, _ in self.posted()},
                         {(f"/{SECRET}", "application/json")})
        wait("three messages", lambda: len(self.published()) >= 3)
        self.assertEqual([one["Subject"] for one in self.published()],
                         [f"spotter: story: {each}" for each in ("notice", "resumed", "finished")])
        self.assertEqual(["*story*: " + one["Message"].removeprefix("story: ")
                          for one in self.published()], self.delivered())
        self.assertNotIn(SECRET, self.world.logs())

    def test_a_deadline_that_cannot_be_kept_is_said_at_once(self):
        """An hour of work was left when the time was over."""
        self.volume()
        launch = {"image": "ami-0123", "instance_types": ["g5.xlarge"], "profile": "spotter-role",
                  "work": "1h"}
        instance = self.begin(on=["deadline"], env={"STEPS": "100000"}, launch=launch,
                              finish_by="2020-01-01T00:00Z")
        wait("the message", self.delivered)
        said = r"by 2020-01-01T00:00:00Z; 100 % left, about 1.0 h; THE DEADLINE CANNOT BE KEPT"
        self.assertRegex(self.delivered()[0], rf"^\*story\*: {said}$")
        status = self.wait_training(instance, 20)
        self.assertRegex(status["outlook"], said)
        self.assertEqual(status["finish_by"], 1577836800)
        self.assertEqual(len(self.delivered()), 1, "once")

    def test_a_hook_that_fails_is_tried_again_and_costs_the_job_nothing(self):
        self.volume()
        instance = self.begin(statuses=[500, 429], on=["notice", "finished"],
                              env={"STEPS": "100000"})
        self.wait_training(instance, 4)
        self.world.interrupt(instance, 40)
        wait("the third try", self.delivered)
        self.assertEqual([status for *_, status in self.posted()], [500, 429, 200])
        self.assertEqual(len({body for _, _, body, _ in self.posted()}), 1)

    def test_a_hook_that_was_removed_is_reported_once_and_keeps_its_secret(self):
        self.volume()
        instance = self.begin(statuses=[404] * 9, on="finished")
        self.wait_console(instance, r"a notification was not delivered \(finished\): "
                                    r"the web hook answers 404 \(no_service\)")
        wait("the fleet's end", lambda: self.ec2.fleet_state(self.fleet) == "cancelled")
        self.assertEqual(len(self.posted()), 1)
        self.assertEqual(len(self.published()), 1, "the other way is open")
        self.assertNotIn(SECRET, self.world.logs())


if __name__ == "__main__":
    harness.main()
