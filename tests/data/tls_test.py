#!/usr/bin/python3
"""Channels over TLS: whom the data plane trusts, with an authority that only a file knows.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pipe_test import NO_DATA, Pipe, Served, noise  # noqa: E402


class OverTls(Pipe):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="spotter-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.authority = f"{folder.name}/certificate.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
                        "-keyout", f"{folder.name}/key.pem", "-out", cls.authority],
                       check=True, capture_output=True, timeout=600)
        cls.served = Served("--tls-certificate", cls.authority,
                            "--tls-key", f"{folder.name}/key.pem")
        cls.addClassCleanup(cls.served.stop)
        cls.bucket = pathlib.Path(cls.served.folder) / "s3/bucket"
        cls.bucket.mkdir(parents=True)

    def test_every_name_of_the_authoritys_file_is_enough(self):
        self.assertTrue(self.served.api.startswith("https:"), self.served.api)
        data = self.put("a", noise(9_000_000, 1))
        for name in ("AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
            for mode, path in (("pipe", "train_0"), ("file", "train/a")):
                with self.subTest(name, mode=mode):
                    out, _ = self.run_pipe(f",mode={mode}", "sh", "-c", f"cat $F/{path}",
                                           **{name: self.authority})
                    self.assert_same(out, data)

    def test_the_one_of_aws_wins(self):
        self.put("a", b"some data")
        out, _ = self.run_pipe("", "sh", "-c", "cat $F/train_0", AWS_CA_BUNDLE=self.authority,
                               SSL_CERT_FILE="/etc/ssl/certs/ca-certificates.crt")
        self.assertEqual(out, b"some data")

    def test_who_is_not_trusted_gives_no_data(self):
        self.put("a", b"some data")
        for more in ({}, {"AWS_CA_BUNDLE": f"{self.scratch}/nothing"}):
            with self.subTest(**more):
                out, words = self.run_pipe("", "sh", "-c", "cat $F/train_0", status=NO_DATA, **more)
                self.assertNotIn(b"some", out)
                self.assertIn("certificate", words.lower())


if __name__ == "__main__":
    unittest.main()
