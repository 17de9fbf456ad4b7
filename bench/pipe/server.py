"""The S3 servers of the figures, on a folder in memory, over TLS or plain HTTP: nginx, where it is
installed, as it costs the least; the emulator, which can be slow as networks are."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
PAGE = 1000  # keys of a listing's answer

NGINX = """
{user}
daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000;
  open_file_cache max=10000;
  default_type binary/octet-stream;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  map $args $page {{ "~(?:continuation-token|marker)=(?<key>[^&]+)" $key; }}
  map $arg_prefix $folder {{ "~^(?<name>[^%/]+)(/|%2F)?$" $name; }}
  server {{
    listen {address}{tls};
    location /bucket/ {{ root {folder}/s3; }}
    location ~ ^/bucket/[^/]+/?$ {{ return 404; }}  # folders are no objects
    location ~ ^/bucket/?$ {{
      root {folder}/lists;
      types {{ }}
      default_type application/xml;
      try_files /$folder/page-$page =404;
    }}
  }}
}}
"""
# As S3 speaks it: AES-128-GCM, the client's sessions are resumed. 16 KiB is the largest record.
TLS = """ ssl;
    ssl_certificate {certificate.chain};
    ssl_certificate_key {certificate.key};
    ssl_protocols TLSv1.3;
    ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384;
    ssl_buffer_size 16k;
    ssl_session_cache shared:sessions:1m"""
LIST = """<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name>\
<Prefix>{prefix}</Prefix><MaxKeys>1000</MaxKeys><KeyCount>{count}</KeyCount>{more}{objects}\
</ListBucketResult>
"""
LISTED = """<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
<ETag>&quot;{etag}&quot;</ETag><Size>{size}</Size><StorageClass>STANDARD</StorageClass></Contents>
"""


AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


class Certificate:
    """A server's, and the bundle that its clients trust: the machine's own authorities and one
    more, as on a machine of AWS, where a client has some 140 of them to read."""

    def __init__(self, folder):
        self.key, self.chain = f"{folder}/key.pem", f"{folder}/certificate.pem"
        self.bundle = f"{folder}/authorities.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.80,IP:127.0.0.1",
                        "-keyout", self.key, "-out", self.chain], check=True, capture_output=True)
        known = pathlib.Path(AUTHORITIES)
        pathlib.Path(self.bundle).write_text(
            (known.read_text() if known.exists() else "") + pathlib.Path(self.chain).read_text())


def address(tls=False):
    """The AWS CRT of Debian 12 connects to port 80 or 443, whatever is asked: where we may."""
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind(("127.0.0.80", 443 if tls else 80))
        except OSError:
            attempt.bind(("127.0.0.1", 0))
        return "{}:{}".format(*attempt.getsockname())


class Server:
    """What both share: a folder that is a bucket, and a process."""

    keys = ("NONE", "none")  # clients sign, whether anybody looks at it or not

    def __init__(self, folder, tls):
        self.folder = pathlib.Path(folder)
        self.bucket = self.folder / "s3/bucket"
        self.bucket.mkdir(parents=True, exist_ok=True)
        self.certificate = Certificate(folder) if tls else None

    def processes(self):
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [self.process.pid, *map(int, children.read_text().split())]

    def cpu_seconds(self):
        ticks = 0
        for process in self.processes():
            fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1]
            ticks += sum(map(int, fields.split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")

    def fill(self, prefix, size, count):
        """Objects prefix/00000... of noise."""
        folder = self.bucket / prefix
        folder.mkdir(parents=True)
        block = os.urandom(min(size, 64 << 20))
        for i in range(count):
            with open(folder / f"{i:05}", "wb") as file:
                for _ in range(size // len(block)):
                    file.write(block)
        self.filled(prefix)

    def fill_sparse(self, prefix, size, count):
        """As many bytes as one likes: noughts that nobody stores."""
        for i in range(count):
            path = self.bucket / prefix / f"{i // 1000:03}/{i:06}"
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                file.truncate(size)
        self.filled(prefix)

    def filled(self, prefix):
        pass

    def drop(self, prefix):
        shutil.rmtree(self.bucket / prefix)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def keys_of(folder):
    """Those of an emulator, which makes others at each start."""
    lines = (pathlib.Path(folder) / "credentials").read_text().splitlines()
    keys = dict(line.split(" = ") for line in lines[1:])
    return keys["aws_access_key_id"], keys["aws_secret_access_key"]


class Emulator(Server):
    """It reads each object once, for its ETag."""

    def __init__(self, folder, tls=False):
        super().__init__(folder, tls)
        secure = ["--tls-certificate", self.certificate.chain,
                  "--tls-key", self.certificate.key] if tls else []
        self.process = subprocess.Popen(
            [BIN / "spotter-emulator", "serve", "--directory", folder, "--api", address(tls),
             "--metadata", "127.0.0.1:0", "--mode", "user", *secure],
            stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        self.url = dict(word.split("=", 1) for word in words[1:])["api"]
        self.keys = keys_of(folder)
        try:
            self.fault("s3-public", "bucket=bucket", "on=true")  # so that curl need not sign
        except BaseException:
            self.stop()
            raise

    def fault(self, *words):
        # In its folder it finds the certificate that the emulator announces.
        subprocess.run([BIN / "spotter-emulator", "--api", self.url, "fault", *words], check=True,
                       stdout=subprocess.DEVNULL, cwd=self.folder)


class Nginx(Server):
    """Looks at no signature. Its ETags are made of time and size; the listings, which are files
    that we write, have the same ones."""

    def __init__(self, folder, tls=False):
        super().__init__(folder, tls)
        where = address(tls)
        self.url = ("https://" if tls else "http://") + where
        (self.folder / "lists").mkdir(exist_ok=True)
        # s3fs looks whether the bucket is there.
        (self.folder / "lists/page-").write_text(LIST.format(
            prefix="", count=0, more="<IsTruncated>false</IsTruncated>", objects=""))
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, address=where,
                                       tls=TLS.format(certificate=self.certificate) if tls else "",
                                       user="user root;" if os.geteuid() == 0 else ""))
        self.process = subprocess.Popen(
            ["nginx", "-c", config, "-p", folder, "-e", self.folder / "nginx.log"])
        host, port = where.split(":")
        while True:
            if self.process.poll() is not None:
                raise SystemExit((self.folder / "nginx.log").read_text())
            try:
                socket.create_connection((host, int(port))).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.01)

    def filled(self, prefix):
        paths = sorted(path for path in (self.bucket / prefix).rglob("*") if path.is_file())
        keys = [str(path.relative_to(self.bucket)) for path in paths]
        folder = self.folder / "lists" / prefix
        folder.mkdir(parents=True)
        token = ""
        for begin in range(0, len(keys), PAGE):
            page = range(begin, min(begin + PAGE, len(keys)))
            objects = []
            for i in page:
                status = paths[i].stat()
                objects.append(LISTED.format(key=keys[i], size=status.st_size,
                                             etag=f"{int(status.st_mtime):x}-{status.st_size:x}"))
            last = keys[page[-1]]
            more = "<IsTruncated>false</IsTruncated>"
            if page[-1] + 1 < len(keys):
                more = (f"<IsTruncated>true</IsTruncated><NextMarker>{last}</NextMarker>"
                        f"<NextContinuationToken>{last}</NextContinuationToken>")
            (folder / f"page-{token}").write_text(LIST.format(
                prefix=f"{prefix}/", count=len(page), more=more, objects="".join(objects)))
            token = urllib.parse.quote(last, safe="")

    def drop(self, prefix):
        super().drop(prefix)
        shutil.rmtree(self.folder / "lists" / prefix)


def fastest(folder, tls=False):
    return (Nginx if shutil.which("nginx") else Emulator)(folder, tls)
