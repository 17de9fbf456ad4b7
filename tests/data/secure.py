"""An authority of a test's own, and an S3 server over TLS that breaks it where it is asked to: cut
within a record, closed without a close_notify, or one byte a record."""

import ctypes
import pathlib
import re
import socket
import ssl
import subprocess
import threading
import urllib.parse

SETTINGS = """
[ca]
default_ca = ours
[ours]
database = {0}/index
new_certs_dir = {0}
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
rand_serial = yes
[any]
commonName = supplied
"""


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=600)


class Authority:
    """`file` has its own certificate."""

    def __init__(self, folder, name="authority"):
        self.folder = pathlib.Path(folder) / name
        self.folder.mkdir()
        self.file = self.folder / "authority.pem"
        (self.folder / "index").touch()
        (self.folder / "settings").write_text(SETTINGS.format(self.folder))
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                f"/CN={name}", "-keyout", self.folder / "authority.key", "-out", self.file)

    def certify(self, name, host="IP:127.0.0.1", begin="20200101000000Z", end="20990101000000Z"):
        """The path of a certificate with its key, for servers of that host at that time."""
        path = self.folder / name
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=server", "-addext",
                f"subjectAltName={host}", "-keyout", f"{path}.key", "-out", f"{path}.csr")
        openssl("ca", "-batch", "-notext", "-config", self.folder / "settings", "-cert", self.file,
                "-keyfile", self.folder / "authority.key", "-in", f"{path}.csr",
                "-out", f"{path}.crt", "-startdate", begin, "-enddate", end)
        whole = pathlib.Path(f"{path}.pem")
        whole.write_text(pathlib.Path(f"{path}.crt").read_text() +
                         pathlib.Path(f"{path}.key").read_text())
        return whole


class Connection:
    """TLS in memory, so that its records can be cut."""

    def __init__(self, wire, context, cipher=None):
        self.wire, self.into, self.out = wire, ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.into, self.out, server_side=True)
        if cipher:
            self.native("SSL_set_ciphersuites", cipher.encode())
        self.turn(self.tls.do_handshake)

    def turn(self, step):
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self.flush()
                data = self.wire.recv(1 << 16)
                if not data:
                    raise ConnectionError("the client has left") from None
                self.into.write(data)
            finally:
                self.flush()

    def flush(self):
        if self.out.pending:
            self.wire.sendall(self.out.read())

    def records(self, data):
        """What TLS makes of it, not sent."""
        self.tls.write(data)
        return self.out.read()

    def send(self, data):
        self.wire.sendall(self.records(data))

    def native(self, function, *arguments):
        """A function of OpenSSL's that Python has not, of this connection."""
        # CPython's PySSLSocket: the object's head, a reference to the socket, SSL*.
        pointer = id(self.tls._sslobj) + 3 * ctypes.sizeof(ctypes.c_void_p)
        tls = ctypes.c_void_p.from_address(pointer)
        if getattr(ctypes.CDLL("libssl.so.3"), function)(tls, *arguments) != 1:
            raise ssl.SSLError(f"{function} failed")

    def request(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = self.turn(lambda: self.tls.read(4096))
            if not more:
                raise ConnectionError("the client has said that it leaves")
            head += more
        return head.decode()


class Secure:
    """S3 with one bucket. `answer(connection, head, body)` may answer a GET of an object in its own
    way, and then says whether the connection goes on; None: as usual."""

    def __init__(self, certificate, objects=None, answer=lambda *_: None,
                 version=ssl.TLSVersion.TLSv1_3, cipher=None):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = self.context.maximum_version = version
        self.context.load_cert_chain(certificate)
        self.cipher = cipher  # of TLS 1.3
        self.objects, self.answer = objects or {}, answer
        self.resumed = self.connections = 0
        self.open, self.threads = [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.api = f"https://127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self.accept)
        self.thread.start()

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        for wire in self.open:
            try:
                wire.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client was first
        for thread in self.threads:
            thread.join()

    def accept(self):
        while True:
            try:
                wire = self.listener.accept()[0]
            except OSError:
                return
            self.open.append(wire)
            self.threads.append(threading.Thread(target=self.serve, args=(wire,)))
            self.threads[-1].start()

    def serve(self, wire):
        with wire:
            try:
                connection = Connection(wire, self.context, self.cipher)
                self.connections += 1
                self.resumed += connection.tls.session_reused
                while self.carry_out(connection, connection.request()):
                    pass
            except (OSError, ssl.SSLError):
                pass  # the client has left, or does not trust us

    def carry_out(self, connection, request):
        path = urllib.parse.urlsplit(request.split()[1]).path
        key = urllib.parse.unquote(path.removeprefix("/bucket/"))
        if key not in self.objects:
            connection.send(self.head(200, len(self.listing())) + self.listing())
            return True
        data, status, more = self.objects[key], 200, ""
        if wanted := re.search(r"(?i)^range: bytes=(\d+)-(\d+)", request, re.M):
            first, last = map(int, wanted.groups())
            status, more = 206, f"Content-Range: bytes {first}-{last}/{len(data)}\r\n"
            data = data[first:last + 1]
        head = self.head(status, len(data), more)
        on = self.answer(connection, head, data)
        if on is None:
            connection.send(head + data)
            return True
        return on

    @staticmethod
    def head(status, length, more=""):
        return (f"HTTP/1.1 {status} OK\r\nContent-Length: {length}\r\nETag: \"one\"\r\n{more}\r\n"
                .encode())

    def listing(self):
        objects = "".join(f"<Contents><Key>{key}</Key><ETag>\"one\"</ETag><Size>{len(data)}</Size>"
                          "</Contents>" for key, data in sorted(self.objects.items()))
        return (f"<ListBucketResult><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>"
                .encode())
