#!/usr/bin/python3
"""Channels over TLS: whose certificate is refused, and in which words; what a reader sees of a
connection that breaks within TLS.

Environment: SPOTTER_PATH.
"""

import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pipe_test import NO_DATA, SPOTTER, noise  # noqa: E402
from secure import Authority, Secure, openssl  # noqa: E402


class Secured(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="spotter-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.authority = Authority(cls.folder)
        cls.certificate = cls.authority.certify("good")

    def serve(self, *arguments, **more):
        server = Secure(*arguments, **more)
        self.addCleanup(server.stop)
        return server

    def pipe(self, server, command, status=0, **more):
        with tempfile.TemporaryDirectory(prefix="spotter-tls-") as scratch:
            environment = {"PATH": os.environ["PATH"], "HOME": scratch, "AWS_REGION": "us-west-2",
                           "AWS_ENDPOINT_URL_S3": server.api, "AWS_ACCESS_KEY_ID": "AKID",
                           "AWS_SECRET_ACCESS_KEY": "secret", "F": f"{scratch}/data",
                           "AWS_CA_BUNDLE": str(self.authority.file), **more}
            done = subprocess.run(
                [SPOTTER, "pipe", "--channel", "train=s3://bucket/", "--directory",
                 f"{scratch}/data", "--", "sh", "-c", command],
                env=environment, capture_output=True, timeout=120, check=False)
            self.assertEqual(done.returncode, status, done.stderr.decode())
            return done.stdout, done.stderr.decode()


class Certificates(Secured):
    def refused(self, certificate, *words, **more):
        server = self.serve(certificate, {"a": b"some data"})
        out, said = self.pipe(server, "cat $F/train_0", NO_DATA, **more)
        self.assertEqual(out, b"")
        self.assertIn("its server is not trusted", said)
        self.assertNotIn("permission", said)
        for each in words:
            self.assertIn(each, said)

    def test_a_good_one_is_trusted(self):
        server = self.serve(self.certificate, {"a": b"some data"})
        self.assertEqual(self.pipe(server, "cat $F/train_0")[0], b"some data")

    def test_an_expired_one_is_named_with_what_the_clock_says(self):
        old = self.authority.certify("old", end="20210101000000Z")
        self.refused(old, "the certificate of 127.0.0.1 has expired by this machine's clock",
                     "set the clock if that is wrong")

    def test_one_of_later_means_a_wrong_clock(self):
        young = self.authority.certify("young", begin="20980101000000Z")
        self.refused(young, "is not valid yet by this machine's clock", "set it")

    def test_one_of_another_host(self):
        self.refused(self.authority.certify("other", host="DNS:s3.example.com"),
                     "is for another host")

    def test_one_of_a_foreign_authority_names_who_was_asked(self):
        foreign = Authority(self.folder, "foreign").certify("server")
        self.refused(foreign, "is of an authority that is not trusted here",
                     str(self.authority.file), "AWS_CA_BUNDLE")

    def test_a_self_signed_one(self):
        path = f"{self.folder}/self"
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=self",
                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", f"{path}.key", "-out",
                f"{path}.crt")
        whole = pathlib.Path(f"{path}.pem")
        whole.write_text("".join(pathlib.Path(f"{path}.{end}").read_text()
                                 for end in ("crt", "key")))
        self.refused(whole, "is self-signed", "AWS_CA_BUNDLE")

    def test_a_bundle_that_is_not_there(self):
        self.refused(self.certificate, "cannot be read from /nonexistent", "AWS_CA_BUNDLE",
                     AWS_CA_BUNDLE="/nonexistent")


class Breaks(Secured):
    """A body that comes back whole although its first answers break, each once."""

    SIZE = 3_000_000

    def whole_after(self, break_off, times=3, **more):
        data, lock, left = noise(self.SIZE, 1), threading.Lock(), [times]

        def answer(connection, head, body):
            with lock:
                if left[0] == 0:
                    return None
                left[0] -= 1
            return break_off(connection, head, body)

        server = self.serve(self.certificate, {"a": data}, answer=answer, **more)
        out, _ = self.pipe(server, "cat $F/train_0")
        self.assertEqual(len(out), len(data))
        self.assertTrue(out == data, "other bytes")
        self.assertEqual(left, [0])
        return server

    def test_a_cut_within_a_record(self):
        def cut(connection, head, body):
            sealed = connection.records(head + body)
            connection.wire.sendall(sealed[:len(sealed) // 2 + 7])
            return False

        server = self.whole_after(cut)
        # Only the first connections know no session: those after a cut resume one.
        self.assertGreater(server.resumed, 0)

    def test_a_record_with_a_changed_bit(self):
        def change(connection, head, body):
            sealed = bytearray(connection.records(head + body))
            sealed[len(sealed) * 2 // 3] ^= 1
            connection.wire.sendall(sealed)
            return False

        self.whole_after(change)

    def test_a_close_without_close_notify_in_the_middle_of_a_body(self):
        def close(connection, head, body):
            connection.send(head + body[:len(body) // 2])
            return False

        self.whole_after(close)

    def test_such_a_close_of_a_body_whose_length_nobody_said(self):
        def close(connection, head, body):
            lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
            connection.send(b"\r\n".join(lines) + body[:len(body) // 2])
            return False

        self.whole_after(close)

    def test_a_close_with_close_notify_is_no_end_either(self):
        def close(connection, head, body):
            connection.send(head + body[:len(body) // 2])
            try:
                connection.tls.unwrap()
            except OSError:
                pass  # it does not wait for the client's
            connection.flush()
            return False

        self.whole_after(close)

    def test_a_cut_within_a_record_of_tls_1_2(self):
        def cut(connection, head, body):
            sealed = connection.records(head + body)
            connection.wire.sendall(sealed[:len(sealed) // 2 + 7])
            return False

        self.whole_after(cut, version=ssl.TLSVersion.TLSv1_2)

    def test_a_renegotiation_is_refused_and_the_body_goes_on(self):
        answers = []

        def ask(connection, head, body):
            connection.send(head + body[:len(body) // 2])
            connection.native("SSL_renegotiate")
            connection.tls.do_handshake()
            connection.flush()
            connection.send(body[len(body) // 2:])
            try:
                connection.turn(lambda: connection.tls.read(1))
            except ssl.SSLError as error:
                answers.append(error.reason)
            return False

        self.whole_after(ask, times=1, version=ssl.TLSVersion.TLSv1_2)
        self.assertEqual(answers, ["NO_RENEGOTIATION"])

    def test_new_keys_in_the_middle_of_a_body_and_before_it(self):
        def change(connection, head, body, at):
            connection.send((head + body)[:at])
            connection.native("SSL_key_update", 0)
            connection.send((head + body)[at:])
            return True

        for at in (0, 10, 500_000):
            with self.subTest(at=at):
                self.whole_after(lambda *answer, at=at: change(*answer, at))

    def test_every_cipher_of_tls_1_3(self):
        data = noise(self.SIZE, 2)
        for cipher in ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384",
                       "TLS_CHACHA20_POLY1305_SHA256"):
            with self.subTest(cipher):
                server = self.serve(self.certificate, {"a": data}, cipher=cipher)
                self.assertTrue(self.pipe(server, "cat $F/train_0")[0] == data, "other bytes")

    def test_bytes_that_no_answer_announced(self):
        # They are not the beginning of the next answer, whether they come with the end of the body
        # or when the client has it.
        stray = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"one\"\r\n\r\nwrong"

        def together(connection, head, body):
            connection.send(head + body + stray)
            return True

        def later(connection, head, body):
            connection.send(head + body)
            connection.send(stray)
            return True

        for answer in (together, later):
            with self.subTest(answer.__name__):
                self.whole_after(answer)

    def test_a_server_that_trickles(self):
        def trickle(connection, head, body):
            for at in range(0, len(head)):
                connection.send(head[at:at + 1])
            for at in range(0, 2_000):
                connection.send(body[at:at + 1])
            connection.send(body[2_000:])
            return True

        self.whole_after(trickle, times=1)


if __name__ == "__main__":
    unittest.main()
