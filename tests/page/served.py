#!/usr/bin/python3
"""`spotter status --serve`: the page of a job's own storage, in a browser. tests/page/live.mjs
holds the browser's side."""

import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from harness import main  # noqa: E402

BINARIES = pathlib.Path(os.environ.get("SPOTTER_BIN") or HERE.parents[1] / "build/release/bin")
EVIL = "<img src=x onerror=window.hacked=1>"


class Served(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(
            prefix="served-", dir=os.environ.get("SPOTTER_TEST_DIRECTORY") or "/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.home = self.folder / "digits"
        (self.home / ".spotter").mkdir(parents=True)
        self.began = time.time() - 600
        self.tell("began", 0, type="g5.xlarge", zone="us-west-2a", volume="vol-1", price=0.4)
        self.tell("phase", 5, phase="preparing", says="it fetches the code")
        self.tell("phase", 20, phase="training", says="the trainer runs")
        self.learn(1, 200)

    def tell(self, what, after, instance="i-one", **fields):
        with open(self.home / ".spotter/history.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps({"time": self.began + after, "what": what, "instance": instance,
                                   **fields}) + "\n")

    def learn(self, first, last):
        with open(self.home / "metrics.jsonl", "a", encoding="utf-8") as file:
            for step in range(first, last + 1):
                file.write(json.dumps({"step": step, "loss": 1 / step,
                                       "time": self.began + 20 + step}) + "\n")

    def serve(self, *arguments):
        self.process = subprocess.Popen(
            [BINARIES / "spotter", "status", "--serve", *arguments], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "SPOTTER_RUN": str(self.folder / "run"), "AWS_ACCESS_KEY_ID": "none",
                 "AWS_SECRET_ACCESS_KEY": "none", "AWS_REGION": "us-west-2",
                 "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_EC2_METADATA_DISABLED": "true"})
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        url = self.process.stdout.readline().strip()
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+/$")
        return url

    def ask(self, url, path="/", method="GET", **headers):
        connection = http.client.HTTPConnection(url.split("/")[2], timeout=10)
        connection.request(method, path, headers={name.replace("_", "-"): value
                                                  for name, value in headers.items()})
        answer = connection.getresponse()
        self.addCleanup(connection.close)
        return answer.status, answer.read().decode()

    def browser(self, url, story):
        done = subprocess.run(["node", HERE / "live.mjs", url, story], text=True, timeout=240,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode == 77:
            self.skipTest(done.stdout.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_page_follows_the_storage(self):
        url = self.serve("--from", str(self.home))
        self.tell("problem", 30, event="not-permitted", level="error", words=EVIL)
        # What comes while the page is open.
        child = os.fork()
        if child == 0:
            time.sleep(4)
            self.tell("notice", 580, action="terminate", deadline=time.time() + 100)
            self.learn(201, 260)
            os._exit(0)
        try:
            self.browser(url, "served")
        finally:
            os.waitpid(child, 0)
        self.process.send_signal(signal.SIGINT)
        self.assertEqual(self.process.wait(10), 0)

    def test_answers_nobody_but_this_machine(self):
        url = self.serve("--from", str(self.home))
        host = url.split("/")[2]
        self.assertEqual(self.ask(url)[0], 200)
        self.assertEqual(self.ask(url, Host="evil.example")[0], 403)
        self.assertEqual(self.ask(url, "/model", Host="evil.example:80")[0], 403)
        self.assertEqual(self.ask(url, "/model", Origin="http://evil.example")[0], 403)
        self.assertEqual(self.ask(url, "/model", Origin=f"http://{host}")[0], 200)
        self.assertEqual(self.ask(url, "/model", "POST")[0], 405)
        self.assertEqual(self.ask(url, "/../../etc/passwd")[0], 404)
        if os.geteuid() == 0:  # else nobody can act as another user
            stranger = subprocess.run(
                [sys.executable, "-c", "import sys, urllib.request as it, urllib.error\n"
                 "try: print(it.urlopen(sys.argv[1]).status)\n"
                 "except urllib.error.HTTPError as no: print(no.code, no.read().decode())",
                 url + "model"],
                user=65534, group=65534, extra_groups=[], text=True, stdout=subprocess.PIPE,
                check=True, env={"PATH": "/usr/bin:/bin"}).stdout
            self.assertIn("403 this page is of the user alone who serves it", stranger)
        with urllib.request.urlopen(url) as answer:
            self.assertIsNone(answer.headers["Set-Cookie"])
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
        address = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True,
                                 check=False).stdout.split()
        for each in address[:1]:
            with self.assertRaises(OSError):
                socket.create_connection((each, int(host.split(":")[1])), timeout=5).close()

    def test_without_a_history_it_says_so_and_waits_for_one(self):
        empty = self.folder / "other"
        empty.mkdir()
        url = self.serve("--from", str(empty))

        def model():
            return json.loads(self.ask(url, "/model")[1])
        end = time.monotonic() + 20
        while "histor" not in model()["says"] or "reading" in model()["says"]:
            self.assertLess(time.monotonic(), end, model())
            time.sleep(0.2)
        shutil.copytree(self.home, empty, dirs_exist_ok=True)
        while not model().get("instances"):
            self.assertLess(time.monotonic(), end + 20, model())
            time.sleep(0.2)

    def test_a_taken_port_and_no_job_are_said(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            for arguments, words, status in (
                    (["--from", str(self.home), "--port", port], "--port", 1),
                    ([], "--from", 2)):
                done = subprocess.run([BINARIES / "spotter", "status", "--serve", *arguments],
                                      cwd=self.folder, text=True, capture_output=True,
                                      timeout=60, check=False)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    main()
