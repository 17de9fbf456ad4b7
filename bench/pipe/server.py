"""The S3 server of the figures: the emulator, on a folder in memory."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"


def address():
    """The AWS CRT of Debian 12 connects to port 80, whatever it is told: where we may have that."""
    with socket.socket() as attempt:
        try:
            attempt.bind(("127.0.0.80", 80))
            return "127.0.0.80:80"
        except OSError:
            return "127.0.0.1:0"


class Server:
    def __init__(self, folder):
        self.bucket = pathlib.Path(folder) / "s3/bucket"
        self.bucket.mkdir(parents=True)
        self.process = subprocess.Popen(
            [BIN / "spotter-emulator", "serve", "--directory", folder, "--api", address(),
             "--metadata", "127.0.0.1:0", "--mode", "user"], stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        self.url = dict(word.split("=", 1) for word in words[1:])["api"]
        # So that curl need not sign.
        self.fault("s3-public", "bucket=bucket", "on=true")

    def fault(self, *words):
        subprocess.run([BIN / "spotter-emulator", "--api", self.url, "fault", *words], check=True,
                       capture_output=True)

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1]
        return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def fill(self, prefix, size, count):
        """Objects prefix/00000... of noise; their server reads each once, for its ETag."""
        folder = self.bucket / prefix
        folder.mkdir(parents=True)
        block = os.urandom(min(size, 64 << 20))
        for i in range(count):
            with open(folder / f"{i:05}", "wb") as file:
                for _ in range(size // len(block)):
                    file.write(block)

    def fill_sparse(self, prefix, size, count):
        """As many bytes as one likes: noughts that nobody stores."""
        for i in range(count):
            path = self.bucket / prefix / f"{i // 1000:03}/{i:06}"
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                file.truncate(size)

    def drop(self, prefix):
        shutil.rmtree(self.bucket / prefix)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
