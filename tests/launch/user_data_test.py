"""scripts/user-data in a folder of its own: packages from where they come, run twice, broken off
at every step, with wrong content. Its programs are small ones of this test; S3 and the metadata
service are spotter-emulator's."""

import gzip
import hashlib
import http.server
import io
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/emulator/clients"))
import served
from machine_programs import APT_GET, FRAGILE, ONE_TRY, SLEEP, SYSTEMCTL

JOB = "job: story\ntrainer: {command: \"echo $HOME `date` 'x' \\\\n\"}\n"
AGENT = "#!/bin/sh\necho agent\n"


def tarball():
    """As one that is unpacked at /."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in (("bin/spotter", AGENT),
                              ("usr/lib/spotter/needrestart.conf", "# Perl\n")):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content.encode()))
    return packed.getvalue()


def forward(asked, server):
    request = urllib.request.Request(server + urllib.parse.urlsplit(asked.path).path,
                                     headers=dict(asked.headers), method=asked.command)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status, {}, answer.read()


def web(test, answer):
    """A server that answers as it is asked to, until the test ends; `seen`: paths and headers."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.seen.append((self.path, dict(self.headers)))
            status, headers, body = answer(self)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        do_PUT = do_POST = do_GET

        def log_message(self, *_):
            pass
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.seen, server.url = [], f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
    test.addCleanup(server.server_close)
    test.addCleanup(server.shutdown)
    return server


class UserData(served.ServedTest):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="spotter-user-data-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.etc, self.state = self.root / "etc/spotter", self.root / "var/lib/spotter-launch"
        (self.root / "bin").mkdir()
        (self.root / "wanted").write_text(JOB)
        self.program("systemctl", SYSTEMCTL)
        self.program("apt-get", APT_GET)
        self.program("dpkg", "#!/bin/sh\n")
        (self.root / "slept").touch()
        (self.root / "active").write_text("1000")
        for name in ("systemd-sysusers", "systemd-tmpfiles"):
            self.program(name, f'#!/bin/sh\necho {name} "$@" >>$SPOTTER_ROOT/made\n')
        self.program("sleep", SLEEP)
        self.program("shutdown", '#!/bin/sh\necho "$@" >>$SPOTTER_ROOT/shutdown\n')
        self.up(10)

    def up(self, seconds):
        """The machine runs for so long; what it sleeps is added."""
        (self.root / "proc").mkdir(exist_ok=True)
        (self.root / "proc/uptime").write_text(f"{seconds}.25 17.00\n")

    def program(self, name, text, folder="bin"):
        path = self.root / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def bake(self):
        self.program("spotter", AGENT)

    def script(self, package="baked", digest="", files=None, failing="end-fleet", work="",
               tool="", launched=None, hold=0):
        text = (ROOT / "scripts/user-data").read_text()
        blocks = [f"  write {name} <<'END'\n{content}END\n"
                  for name, content in (files or {"job.yaml": JOB}).items()]
        text = text.replace("@PACKAGES@", f"{digest} {package}".strip())
        text = text.replace("@FAILING@", failing).replace("@WORK@", work)
        text = text.replace("@TOOL@", tool).replace("@HOLD@", str(hold))
        text = text.replace("@LAUNCHED@", str(int(time.time()) if launched is None else launched))
        path = self.root / "user-data"
        path.write_text(text.replace("#@FILES@\n", "".join(blocks)))
        path.chmod(0o700)
        return path

    def run_it(self, script, fragile=False, **environment):
        path = [str(self.root / "fragile")] if fragile else []
        environment = {
            "PATH": ":".join([*path, str(self.root / "bin"), "/usr/bin:/bin"]),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9",
            "SPOTTER_ROOT": str(self.root), "WANTED": str(self.root / "wanted"), **environment}
        with open(self.root / "console", "ab") as console:
            return subprocess.run([script], env=environment, stdin=subprocess.DEVNULL,
                                  stdout=console, stderr=console, timeout=120, check=False,
                                  start_new_session=True).returncode

    def console(self):
        return (self.root / "console").read_text()

    def lines(self, name):
        path = self.root / name
        return path.read_text().splitlines() if path.exists() else []

    def assert_up(self, status):
        self.assertEqual(status, 0, self.console())
        self.assertEqual((self.etc / "job.yaml").read_text(), JOB)
        self.assertEqual((self.etc / "job.yaml").stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.etc.stat().st_mode & 0o777, 0o700)
        self.assertFalse((self.state / "news").exists())
        self.assertEqual(list(self.root.rglob("*.new")), [])

    # A bucket

    def offer(self, name, content):
        """An object in a bucket; what of launch.package it is, and how the machine asks for it."""
        bucket = pathlib.Path(self.served.folder) / "s3/packages"
        bucket.mkdir(parents=True, exist_ok=True)
        (bucket / name).write_bytes(content)
        if not hasattr(type(self), "metadata"):
            done = self.served.command("instance", "add", "--zone", "us-west-2a")
            type(self).metadata = done.stdout.split()[1]
        return ({"package": f"s3://packages/{name}",
                 "digest": hashlib.sha256(content).hexdigest()},
                {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.metadata,
                 "AWS_ENDPOINT_URL": self.served.api})

    # Stories

    def test_fits_into_user_data_with_room_for_the_job(self):
        script = (ROOT / "scripts/user-data").read_bytes()
        self.assertLess(len(gzip.compress(script)), 7 * 1024)

    def test_a_baked_image_needs_no_package(self):
        self.bake()
        self.assert_up(self.run_it(self.script()))
        self.assertEqual(self.lines("systemctl"), ["enable spotter", "restart spotter"])
        self.assertEqual(self.lines("apt"), [])

    def test_a_second_run_changes_nothing(self):
        self.bake()
        script = self.script()
        self.run_it(script)
        before = (self.etc / "job.yaml").stat().st_mtime_ns
        self.assert_up(self.run_it(script))
        self.assertEqual((self.etc / "job.yaml").stat().st_mtime_ns, before)
        self.assertEqual(self.lines("systemctl")[2:], ["enable spotter", "start spotter"])

    def test_another_job_reaches_a_service_that_runs(self):
        self.bake()
        (self.root / "wanted").write_text("job: before\n")
        self.run_it(self.script(files={"job.yaml": "job: before\n"}))
        (self.root / "wanted").write_text(JOB)
        self.assert_up(self.run_it(self.script()))
        self.assertEqual(self.lines("systemctl")[-1], "restart spotter")

    def test_its_copy_with_the_job_in_it_is_at_no_time_readable_to_others(self):
        self.bake()
        per_boot = self.root / "var/lib/cloud/scripts/per-boot"
        per_boot.mkdir(parents=True)
        self.program("chmod", '#!/bin/sh\nstat -c %a "$2" >>$SPOTTER_ROOT/modes\n'
                     'exec /bin/chmod "$@"\n')
        before = os.umask(0o022)
        try:
            self.assert_up(self.run_it(self.script()))
        finally:
            os.umask(before)
        self.assertEqual(self.lines("modes"), ["600"])
        self.assertEqual((per_boot / "spotter").stat().st_mode & 0o777, 0o700)

    def test_an_image_without_it_says_so(self):
        self.assertEqual(self.run_it(self.script()), 1)
        self.assertIn("bake it into the image", self.console().splitlines()[-1])
        self.assertEqual(self.lines("systemctl"), [])

    def test_what_becomes_of_a_machine_that_cannot_work_is_the_jobs_to_say(self):
        for failing, hold, said in (("leave", 90, "this instance stays for 90 minutes"),
                                    ("leave", 0, "ends in an hour"),
                                    ("end-fleet", 0, "ends in an hour")):  # here it cannot
            self.assertEqual(self.run_it(self.script(failing=failing, hold=hold)), 1)
            self.assertIn(said, self.console().splitlines()[-1])
        self.assertEqual(self.lines("shutdown"), ["-h +90", "-h +60", "-h +60"])

    def test_its_successors_do_not_stay_when_the_first_has(self):
        launched = int(time.time()) - 91 * 60
        self.assertEqual(self.run_it(self.script(failing="leave", hold=90, launched=launched)), 1)
        self.assertEqual(self.lines("shutdown"), ["-h now"])

    def test_a_service_that_does_not_start_is_shown(self):
        self.bake()
        (self.root / "wanted").write_text("another")
        self.assertEqual(self.run_it(self.script()), 1)
        self.assertIn("the service did not start", self.console().splitlines()[-1])
        self.assertGreater(len(self.lines("slept")), 50, "systemd tries again each second")
        (self.root / "slept").unlink()
        (self.root / "failed").touch()  # it refuses its job.yaml
        self.assertEqual(self.run_it(self.script(failing="leave")), 1)
        self.assertEqual(self.lines("slept"), [])

    def test_a_service_that_starts_at_the_second_try(self):
        self.bake()
        (self.root / "wanted").write_text("another")
        (self.root / "slept").touch()
        (self.root / "active").write_text("3")
        self.assertEqual(self.run_it(self.script()), 0, self.console())
        self.assertEqual(self.console().splitlines()[-1], "spotter: the service runs")

    def preparer(self, outcome):
        """A machine whose `spotter prepare` ends so; its user data."""
        self.program("spotter", f'#!/bin/sh\necho "$@" >>$SPOTTER_ROOT/prepared\nexit {outcome}\n')
        return self.script(work="prepare")

    def test_a_machine_that_prepares_ends_and_never_trains(self):
        per_boot = self.root / "var/lib/cloud/scripts/per-boot"
        per_boot.mkdir(parents=True)
        for outcome, said in ((0, "the volume is prepared"), (1, "the volume is not prepared")):
            self.run_it(self.preparer(outcome))
            self.assertIn(f"spotter: {said}; the machine ends", self.console().splitlines()[-1])
        self.run_it(per_boot / "spotter")  # after a reboot
        self.assertEqual(self.lines("shutdown"), ["-h now"] * 3)
        self.assertEqual(self.lines("prepared"), [f"prepare {self.etc}/prepare/job.yaml"] * 3)
        self.assertFalse((self.etc / "job.yaml").exists(), "where the service would find it")
        self.assertEqual(self.lines("systemctl"), [])

    def test_a_machine_that_prepares_ends_whatever_breaks(self):
        script = self.preparer(0)
        self.etc.parent.mkdir()
        self.etc.write_text("no folder")
        self.run_it(script)
        self.assertIn("it broke off; the machine ends", self.console().splitlines()[-1])
        self.assertEqual(self.lines("shutdown"), ["-h now"])

    def test_apt_waits_for_locks(self):
        (self.root / "locked").write_text("7")  # each try asks three times
        self.assert_up(self.run_it(self.script("apt")))
        self.assertEqual(len(self.lines("slept")), 2)

    def test_a_lock_that_stays_ends_the_wait(self):
        (self.root / "locked").write_text("1000")
        self.assertEqual(self.run_it(self.script("apt")), 1)
        self.assertIn("apt could not install it", self.console().splitlines()[-1])
        self.assertGreater(len(self.lines("slept")), 50)

    def test_what_mounts_the_share_is_there_before_the_service_starts(self):
        self.bake()
        install = "\nprintf '#!/bin/sh\\n' >$SPOTTER_ROOT/bin/$T\nchmod +x $SPOTTER_ROOT/bin/$T\n"
        self.program("apt-get", APT_GET.split("for last")[0] + install)
        self.program("systemctl", SYSTEMCTL.replace("restart)", "restart) command -v $T &&"))
        (self.root / "locked").write_text("4")
        self.assert_up(self.run_it(self.script(tool="mount.nfs"), T="mount.nfs"))
        self.assertEqual((self.lines("apt")[-1].split()[-1], len(self.lines("slept"))),
                         ("nfs-common", 1))
        self.assertEqual(self.run_it(self.script(tool="mount.efs"), T="mount.efs"), 1)
        self.assertIn("mount.efs could not be installed", self.console().splitlines()[-1])
        self.program("dnf", "#!/bin/sh\necho $* >>$SPOTTER_ROOT/dnf" + install)  # Amazon Linux
        for _ in range(2):
            self.assert_up(self.run_it(self.script(tool="mount.efs"), T="mount.efs"))
        self.assertEqual(self.lines("dnf"), [
            "-y --setopt=*.skip_if_unavailable=True install amazon-efs-utils"])

    def test_a_package_from_a_bucket(self):
        for name, content in (("spotter 1.deb", AGENT.encode()), ("s+p~1.tar.gz", tarball())):
            with self.subTest(name):
                (self.root / "bin/spotter").unlink(missing_ok=True)
                what, where = self.offer(name, content)
                self.assert_up(self.run_it(self.script(**what), **where))
                self.assertEqual((self.root / "bin/spotter").read_text(), AGENT)
                before = len(self.lines("apt"))
                # It is fetched once: with the bucket gone, too, the machine boots.
                (pathlib.Path(self.served.folder) / "s3/packages" / name).unlink()
                self.assert_up(self.run_it(self.script(**what), **where))
                self.assertEqual(len(self.lines("apt")), before)
        self.assertEqual((self.root / "etc/needrestart/conf.d/spotter.conf").read_text(),
                         "# Perl\n")
        # An archive has no scripts: its user and folders are made all the same.
        self.assertEqual(self.lines("made"), ["systemd-sysusers spotter.conf",
                                              "systemd-tmpfiles --create spotter.conf"])

    def test_of_several_packages_the_systems_own_kind_is_taken(self):
        digests = {}
        for name, content in (("spotter-1.rpm", b"for another system"),
                              ("spotter-1.tar.gz", tarball()), ("spotter_1.deb", AGENT.encode())):
            what, where = self.offer(name, content)
            digests[name] = f"{what['digest']} {what['package']}"
        for names, calls in ((("spotter-1.rpm", "spotter-1.tar.gz"), 0),
                             (("spotter_1.deb", "spotter-1.rpm", "spotter-1.tar.gz"), 1)):
            (self.root / "bin/spotter").unlink(missing_ok=True)
            self.assert_up(self.run_it(self.script("\n".join(digests[it] for it in names)),
                                       **where))
            self.assertEqual((self.root / "bin/spotter").read_text(), AGENT)
            self.assertEqual(len(self.lines("apt")), calls)

    def test_of_several_architectures_the_machines_own_is_taken(self):
        for machine, own in (("x86_64", "amd64"), ("aarch64", "arm64")):
            self.program("uname", f"#!/bin/sh\necho {machine}\n")
            lines = []
            for architecture in ("amd64", "arm64"):
                content = AGENT if architecture == own else "#!/bin/sh\necho another\n"
                what, where = self.offer(f"spotter_1_{architecture}.deb", content.encode())
                lines.append(f"{what['digest']} {what['package']}")
            (self.root / "bin/spotter").unlink(missing_ok=True)
            self.assert_up(self.run_it(self.script("\n".join(lines)), **where))
            self.assertEqual((self.root / "bin/spotter").read_text(), AGENT)

    def test_a_new_package_replaces_the_old_one(self):
        self.bake()
        what, where = self.offer("spotter.deb", b"#!/bin/sh\necho newer\n")
        self.assert_up(self.run_it(self.script(**what), **where))
        self.assertIn("newer", (self.root / "bin/spotter").read_text())

    def test_wrong_content_is_never_installed(self):
        what, where = self.offer("spotter.deb", AGENT.encode())
        what["digest"] = hashlib.sha256(b"another").hexdigest()
        self.assertEqual(self.run_it(self.script(**what, failing="leave"), **where), 1)
        self.assertIn("has the SHA-256", self.console())
        self.assertEqual(self.lines("apt") + self.lines("systemctl"), [])
        self.assertEqual(len(self.lines("slept")), 2, "it is fetched three times")
        self.assertEqual(list(self.state.glob("spotter*")), [])

    def test_a_bucket_that_is_not_there_is_asked_for_a_while(self):
        what, where = self.offer("spotter.deb", AGENT.encode())
        what["package"] = "s3://packages/none.deb"
        self.assertEqual(self.run_it(self.script(**what), **where), 1)
        self.assertIn("s3://packages/none.deb: HTTP Error 404", self.console())
        self.assertGreater(len(self.lines("slept")), 50)

    def test_a_download_that_is_cut_off_is_not_a_wrong_one(self):
        what, where = self.offer("spotter.deb", AGENT.encode())
        cuts = [3, 2, 1]

        def answer(asked):
            status, headers, body = forward(
                asked, where["AWS_ENDPOINT_URL"] if asked.path.startswith("/packages")
                else where["AWS_EC2_METADATA_SERVICE_ENDPOINT"])
            if asked.path.startswith("/packages") and cuts:
                asked.send_response(200)
                asked.send_header("Content-Length", str(len(body)))
                asked.end_headers()
                asked.wfile.write(body[:-cuts.pop()])
                asked.close_connection = True
                raise ConnectionAbortedError
            return status, headers, body
        line = web(self, answer)
        self.assert_up(self.run_it(self.script(**what), **{
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": line.url, "AWS_ENDPOINT_URL": line.url}))
        self.assertEqual(cuts, [])
        self.assertIn("cut off after", self.console())

    def test_a_broken_repository_stops_no_package_that_needs_nothing_of_it(self):
        what, where = self.offer("spotter.deb", AGENT.encode())
        self.program("apt-get", APT_GET.replace(
            "for last", 'case "$*" in *update*) exit 100 ;; esac\nfor last'))
        self.assert_up(self.run_it(self.script(**what), **where))
        self.assertNotIn("update", " ".join(self.lines("apt")), "nothing else was asked for")
        what, where = self.offer("spotter.rpm", AGENT.encode())
        self.program("dnf", "#!/bin/sh\nexit 1\n")
        self.program("rpm", '#!/bin/sh\nfor last; do :; done\ncp "$last" '
                     "$SPOTTER_ROOT/bin/spotter && chmod +x $SPOTTER_ROOT/bin/spotter\n")
        (self.root / "bin/spotter").unlink()
        (self.root / "bin/apt-get").unlink()
        without_apt = self.root / "tools"
        without_apt.mkdir()
        for name in ("sh", "cat", "chmod", "cmp", "cp", "date", "grep", "mkdir", "mv", "python3",
                     "rm", "sync", "uname", "wc"):
            (without_apt / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
        self.assert_up(self.run_it(self.script(**what), PATH=f"{self.root}/bin:{without_apt}",
                                   **where))

    def test_where_nothing_answers_the_machine_ends_in_minutes_and_the_next_in_one(self):
        what, where = self.offer("spotter.deb", AGENT.encode())
        where["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9"
        successor = int(time.time()) - 600 - 20
        for launched, least, most in ((None, 600, 700), (1, 80, 110), (successor, 80, 110)):
            self.up(20)
            (self.root / "shutdown").unlink(missing_ok=True)
            self.assertEqual(self.run_it(self.script(**what, launched=launched), **where), 1)
            self.assertIn("has its subnet a way to S3", self.console().splitlines()[-1])
            self.assertEqual(self.lines("shutdown"), ["-h now"])
            self.assertGreaterEqual(self.seconds_up(), least)
            self.assertLess(self.seconds_up(), most)

    def test_a_later_machine_of_a_launch_that_cannot_work_ends_at_once(self):
        self.assertEqual(self.run_it(self.script(launched=1)), 1)
        self.assertEqual(self.lines("shutdown"), ["-h now"])

    def seconds_up(self):
        return float((self.root / "proc/uptime").read_text().split()[0])

    def test_tokens_reach_nobody_but_whom_they_are_for(self):
        """A metadata service that redirects each question in turn, S3 that does, and a proxy."""
        what, where = self.offer("spotter.deb", AGENT.encode())
        thief = web(self, lambda _: (200, {}, b"thief"))
        real = where["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
        self.program("sleep", ONE_TRY)
        questions = ("/latest/api/token", "/security-credentials/", "/security-credentials/s",
                     "/instance-identity/document", "/packages/spotter.deb")
        for question in questions:
            for status in (301, 302, 303, 307, 308):
                with self.subTest(question, status=status):
                    astray = web(self, lambda asked, question=question, status=status: (
                        (status, {"Location": thief.url + asked.path}, b"")
                        if question in asked.path else
                        forward(asked, where["AWS_ENDPOINT_URL"]
                                if asked.path.startswith("/packages") else real)))
                    self.run_it(self.script(**what, failing="leave"), **{
                        "AWS_EC2_METADATA_SERVICE_ENDPOINT": astray.url,
                        "AWS_ENDPOINT_URL": astray.url})
                    self.assertTrue(any(question in path for path, _ in astray.seen),
                                    "it was never asked")
                    self.assertEqual(thief.seen, [])
        self.assertFalse((self.root / "bin/spotter").exists())
        proxy = web(self, lambda asked: forward(asked, real))
        self.assert_up(self.run_it(self.script(**what), http_proxy=proxy.url, **where,
                                   no_proxy=where["AWS_ENDPOINT_URL"].partition("//")[2]))
        self.assertEqual(proxy.seen, [])

    def test_cloud_init_comes_back_at_every_boot(self):
        self.bake()
        per_boot = self.root / "var/lib/cloud/scripts/per-boot"
        per_boot.mkdir(parents=True)
        script = self.script()
        self.assert_up(self.run_it(script))
        self.assertEqual((per_boot / "spotter").read_text(), script.read_text())
        self.assertEqual((per_boot / "spotter").stat().st_mode & 0o777, 0o700)
        script.unlink()
        self.assert_up(self.run_it(per_boot / "spotter"))

    def test_broken_off_anywhere_it_ends_well_the_next_time(self):
        for name in ("cat", "chmod", "cmp", "cp", "mkdir", "mv", "rm", "python3", "systemctl",
                     "apt-get", "dpkg"):
            self.program(name, FRAGILE.replace("NAME", name), "fragile")
        what, where = self.offer("spotter.deb", AGENT.encode())
        script, breaks = self.script(**what), 0
        per_boot = self.root / "var/lib/cloud/scripts/per-boot"
        while True:
            for folder in (self.etc, self.state, per_boot):
                shutil.rmtree(folder, ignore_errors=True)
            per_boot.mkdir(parents=True)
            for name in ("bin/spotter", "calls", "systemctl"):
                (self.root / name).unlink(missing_ok=True)
            status = self.run_it(script, fragile=True, CALLS=str(self.root / "calls"),
                                 DIE_AT=str(breaks + 1), **where)
            if status == 0:
                break
            breaks += 1
            self.assertEqual(status, -signal.SIGKILL, self.console())
            if (self.etc / "job.yaml").exists():
                self.assertEqual((self.etc / "job.yaml").read_text(), JOB, "half a file")
            self.assert_up(self.run_it(script, **where))
            self.assertTrue((per_boot / "spotter").exists())
            self.assertIn(self.lines("systemctl")[-1], ("start spotter", "restart spotter"))
        self.assertGreater(breaks, 15)


if __name__ == "__main__":
    unittest.main()
