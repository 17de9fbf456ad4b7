"""A whole job where AWS is reached over TLS only, by an authority that nobody knows but a file:
EC2, and S3 for channels, checkpoints, fence and what is published."""

import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import Emulator, wait

# Both channels, then a trainer whose checkpoints are folders.
COMMAND = """same() { test "$(sha256sum)" = "$EXPECTED  -"; }
same <"$SM_CHANNEL_STREAM"_0 && cat "$SM_CHANNEL_FILES"/* | same || exit 3
exec ./train.py "$SPOTTER_STORAGE/out" "$SPOTTER_STORAGE/result/weights" 4"""


class OverTls(harness.Story):
    trainer = harness.TRAINERS / "folder_checkpoints.py"

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="spotter-tls-")
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)  # the trainer trusts the same file
        key, self.authority = f"{folder.name}/key.pem", f"{folder.name}/authority.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", key, "-out", self.authority],
                       check=True, capture_output=True, timeout=60)
        self.emulator_options = ("--tls-certificate", self.authority, "--tls-key", key)
        # Whom this test's own clients trust; an instance has AWS_CA_BUNDLE.
        os.environ["SSL_CERT_FILE"] = self.authority
        self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
        super().setUp()
        self.assertTrue(self.world.api.startswith("https://"), self.world.api)
        self.bucket = self.world.directory / "s3/bucket"
        data = self.bucket / "data"
        data.mkdir(parents=True)
        whole = hashlib.sha256()
        for name in "abc":
            (data / name).write_bytes(part := os.urandom(5_000_003))
            whole.update(part)
        self.expected = whole.hexdigest()

    def make_world(self):
        # In namespaces of their own instances reach it without TLS.
        return Emulator(harness.BINARIES, name="story", mode="user", options=self.emulator_options)

    def begin(self, before=""):
        self.volume()
        job = self.job(
            trainer={"command": COMMAND, "stop_signal": "none", "result": "result/weights",
                     "env": {"EXPECTED": self.expected}},
            channels={"stream": "s3://bucket/data/", "files": "s3://bucket/data/,mode=file"},
            fence="s3://bucket/fence", publish="s3://bucket/seen")
        job["checkpoints"] = {"directory": "out", "folders": "checkpoint-*",
                              "s3": "s3://bucket/kept"}
        return self.launch(job, before=before)

    def below(self, folder, pattern):
        return sorted(str(path.relative_to(self.bucket / folder))
                      for path in (self.bucket / folder).glob(pattern))

    def test_a_job_from_its_begin_to_its_end(self):
        instance = self.begin()
        wait("the fleet to be cancelled", lambda: self.ec2.fleet_state(self.fleet)
             .startswith("cancelled"))
        console = self.world.console(instance)
        self.assertNotIn("trusted", console)
        self.assertNotIn("not copied to S3", console)
        kept = self.below("kept/manifests", "*.json")
        self.assertTrue(any(name.startswith("checkpoint-4-") for name in kept), kept)
        self.assertEqual(len(self.below("fence", "**/*.epoch")), 1)
        wait("the last status to be published", lambda: self.below("seen", "**/*.json*"))

    def test_one_that_is_not_trusted_is_named(self):
        instance = self.begin("unset AWS_CA_BUNDLE")
        self.wait_console(instance, "blocked: .*its server is not trusted.* is self-signed")


if __name__ == "__main__":
    harness.main()
