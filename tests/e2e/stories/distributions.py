"""The packages where they are taken to: each distribution's apt installs them, and a job runs
there, is interrupted and finishes, with its data as files that are fetched while they are read."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import emulator
import harness
import root
import whole
from emulator import ROOT

BEHIND = ('--aptopt=Acquire::Check-Valid-Until "false"',)  # a mirror of testing may be
DATA = b"0123456789" * 300_000

# Runs in the root: the emulator of the package, for S3, and the job twice.
DRIVE = """\
import json, os, pathlib, shlex, signal, subprocess, sys, time
home = pathlib.Path("/root/story")
home.mkdir()
views = sys.argv[1] == "views"
if views:
    os.mknod("/dev/fuse", 0o020666, os.makedev(10, 229))
(home / "job.yaml").write_text(
    "job: story\\nstorage: {folder: {path: /root/story/data}}\\n"
    "trainer: {command: none, stop_grace: 20s}\\n"
    + ("channels: {train: 's3://data/train/,mode=fast_file'}\\n" if views else ""))
server = subprocess.Popen(["spotter-emulator", "serve", "--directory", home / "world", "--mode",
                           "user", "--api", "127.0.0.1:0", "--metadata", "127.0.0.1:0"],
                          stdout=subprocess.DEVNULL)
facts = home / "world/emulator.json"
while not facts.exists() and server.poll() is None:
    time.sleep(0.1)
api = json.loads(facts.read_text())["api"]
(home / "world/s3/data/train").mkdir(parents=True)
(home / "world/s3/data/train/part").write_bytes(pathlib.Path("/srv/part").read_bytes())
# What `eval` gives a shell.
lines = subprocess.run(["spotter-emulator", "env", "--directory", home / "world"], text=True,
                       stdout=subprocess.PIPE, check=True).stdout.splitlines()
keys = dict(shlex.split(line)[1].split("=", 1) for line in lines)
given = {**os.environ, **keys, "AWS_ENDPOINT_URL": api, "AWS_REGION": "us-west-2", "HOME": "/root",
         "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"}
steps = home / "steps"
(home / "data").mkdir()
def start():
    return subprocess.Popen(["spotter", "run", "--storage", home / "data", "--job",
                             home / "job.yaml", "--", "python3", "/srv/train.py"], env=given)
first = start()
while not (steps.exists() and "5" in steps.read_text().split()) and first.poll() is None:
    time.sleep(0.1)
first.send_signal(signal.SIGTERM)
statuses = [first.wait(), start().wait()]
server.terminate()
server.wait()
pathlib.Path("/srv/outcome").write_text(json.dumps({
    "statuses": statuses, "steps": list(map(int, steps.read_text().split())),
    "done": json.loads((home / "data/story/DONE").read_text())["job"],
    "digests": (home / "digests").read_text().split() if views else []}))
"""
TRAINER = """\
import hashlib, os, time
import spotter
run = spotter.open()
old = run.restore()
folder = os.environ.get("SM_CHANNEL_TRAIN")
if folder:
    with open(folder + "/part", "rb") as part, open("/root/story/digests", "a") as digests:
        print(hashlib.sha256(part.read()).hexdigest(), file=digests)
for step in range(old.step + 1 if old else 1, 11):
    run.save(step, step=step)
    with open("/root/story/steps", "a") as steps:
        print(step, file=steps)
    while step == 5:
        time.sleep(0.1)
        run.stop_if_asked()
run.finished()
"""
# A source of `prepare:` at a server that answers 302, as Hugging Face and GitHub do: that libcurl
# follows there depends on its version.
REDIRECTED = """\
import http.server, json, os, pathlib, pwd, subprocess, threading
class Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        here = self.path == "/there"
        self.send_response(200 if here else 302)
        self.send_header("Content-Length", "4" if here else "0")
        if not here:
            self.send_header("Location", "/there")
        self.end_headers()
        self.wfile.write(b"data" if here else b"")
    def log_message(self, *_):
        pass
web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
threading.Thread(target=web.serve_forever, daemon=True).start()
home = pathlib.Path("/home/fills")
(home / ".spotter").mkdir(parents=True)
os.chown(home, pwd.getpwnam("spotter").pw_uid, -1)
source = {"from": f"http://127.0.0.1:{web.server_port}/first", "to": "here", "sha256": "", "via": ""}
done = subprocess.run(["spotter", "host"], text=True, capture_output=True, input=json.dumps(
    {"verb": "fill", "job": "story", "volume": "vol-1", "mount_point": str(home),
     "user": "spotter", "sources": [source]}))
print(done.stdout, done.stderr, flush=True)
print((home / "here/first").read_text())
"""


VERSION = re.search(r"spotter VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
SMALL = """\
import spotter
run = spotter.open()
run.save(1, weight=1)
run.finished()
"""
PIP = """\
cd /srv
python3 -m venv venv
(cd venv && find . | sort) >before
. venv/bin/activate
pip install --no-index spotter-*.whl
spotter --version
spotter help trainer || true  # this system has no man
spotter run --storage out -- python3 train.py
test -f out/run/DONE
pip uninstall --yes spotter
find venv -name __pycache__ -prune -exec rm -r {} +
(cd venv && find . | sort) | grep -v __pycache__ >after || true
grep -v __pycache__ before >was || true
echo left:
comm -13 was after
"""


class Distributions(unittest.TestCase):
    def setUp(self):
        if root.release() != "bookworm":
            self.skipTest("needs Debian 12: what a newer one builds runs on no older one")
        self.place = emulator.own_place(self, "dist")

    def debian(self, suite, options=()):
        if why := root.missing(suite):
            self.skipTest(why)
        self.run_a_job(lambda: root.made(f"debian-{suite}", ["python3"], suite, options=options))

    def ubuntu(self, suite):
        if why := root.missing() or root.missing(suite, root.UBUNTU):
            self.skipTest(why)
        self.run_a_job(lambda: root.ubuntu(suite))

    def apt(self, *words):
        done = self.root.run("apt-get", "-qy", *words,
                             environment={"DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode and root.NO_PACKAGES.search(done.stdout):
            raise root.NoPackages(done.stdout[-2000:])
        self.assertEqual(done.returncode, 0, f"{words}:\n{done.stdout[-4000:]}")

    def run_a_job(self, base):
        try:
            self.root = root.Root(base(), self.place / "root")
            self.apt("update")
            for name in ("spotter", "spotter-emulator", "libspotter"):
                shutil.copy(whole.package(f"{name}_*.deb"), self.root.shared / f"{name}.deb")
            self.apt("install", "--no-install-recommends", "/srv/spotter.deb",
                     "/srv/spotter-emulator.deb")
        except root.NoPackages as why:
            self.skipTest(f"the packages were not to be had: {why}")
        fetched = self.root.run("python3", "-c", REDIRECTED)
        self.assertTrue(fetched.stdout.endswith("\ndata\n"), fetched.stdout[-4000:])
        (self.root.shared / "train.py").write_text(TRAINER)
        (self.root.shared / "part").write_bytes(DATA)
        views = os.path.exists("/dev/fuse")
        done = self.root.run("python3", "-c", DRIVE, "views" if views else "none")
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        self.assertEqual(json.loads((self.root.shared / "outcome").read_text()), {
            "statuses": [75, 0], "steps": list(range(1, 11)), "done": "story",
            "digests": [hashlib.sha256(DATA).hexdigest()] * (2 if views else 0)}, done.stdout)
        self.apt("install", "--no-install-recommends", "/srv/libspotter.deb")
        self.assertEqual(self.root.run("python3", "-c", "import spotter").returncode, 0)
        self.apt("purge", "spotter", "spotter-emulator", "libspotter")
        if not views:
            self.skipTest("the job ran, but there is no /dev/fuse for its views of data")

    def pip(self, suite, options=()):
        """The wheel where nothing of Debian is but Python and what each Debian has; a user who is
        not root installs it, runs a program with it, and takes it away."""
        if why := root.missing(suite):
            self.skipTest(why)
        try:
            base = root.made(f"pip-{suite}", ["python3-venv"], suite, options=options)
        except root.NoPackages as why:
            self.skipTest(f"the packages were not to be had: {why}")
        self.root = root.Root(base, self.place / "root")
        whole.write(self.root.place / "upper/etc/passwd", (base / "etc/passwd").read_text()
                    + "me:x:1234:1234::/srv/home:/bin/bash\n")
        shutil.copy(whole.package("spotter-*.whl"), self.root.shared)
        (self.root.shared / "train.py").write_text(SMALL)
        self.root.shared.chmod(0o777)
        done = self.root.run("setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", "bash",
                             "-ec", PIP, environment={"HOME": "/srv/home"})
        self.assertEqual(done.returncode, 0, done.stdout[-6000:])
        self.assertIn(f"spotter {VERSION}\n", done.stdout)
        self.assertIn("SPOTTER-TRAINER", done.stdout.upper())
        self.assertTrue(done.stdout.endswith("left:\n"), done.stdout[-3000:])

    def test_pip_on_debian_12(self):
        self.pip("bookworm")

    def test_pip_on_debian_13(self):
        self.pip("trixie")

    def test_pip_on_debian_testing(self):
        self.pip("testing", BEHIND)

    def test_debian_12(self):
        self.debian("bookworm")

    def test_debian_13(self):
        self.debian("trixie")

    def test_debian_testing(self):
        self.debian("testing", BEHIND)

    def test_ubuntu_22_04(self):
        self.ubuntu("jammy")

    def test_ubuntu_24_04(self):
        self.ubuntu("noble")


if __name__ == "__main__":
    harness.main()
