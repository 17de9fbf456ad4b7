"""A "dumb" git server of 127.0.0.1: prints its port, and ends when its standard input does.

It cannot serve a commit by its id. It writes each request into `seen`: what stood in Authorization,
whether a process of the user "nobody", whom root's server becomes, can read the token in somebody's
environment, and which user asked. Arguments: the folder, `seen`, and pairs: token WORD (the
password that it wants), user NAME (beside it), moved URL (it redirects who has the token), lures
URL (it redirects everybody), tls FILE (its key and certificate), port NUMBER.
"""

import base64
import functools
import glob
import http.server
import os
import ssl
import sys
import threading

folder, seen, *pairs = sys.argv[1:]
given = dict(zip(pairs[::2], pairs[1::2]))
token = given.get("token", "s3cret")
EXPECTED = "Basic " + base64.b64encode(
    f"{given.get('user', 'x-access-token')}:{token}".encode()).decode()


def decoded(header):
    try:
        return base64.b64decode(header.split()[1]).decode()
    except (IndexError, ValueError):
        return header


def readable():
    """Whose environment has the token, of those that this user may look into."""
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                if b"SPOTTER_GIT_TOKEN=" + token.encode() in file.read():
                    return "readable"
        except OSError:
            pass
    return "hidden"


def user_of(port):
    """Whose socket of this machine has that port, by proc_net(5)."""
    with open("/proc/net/tcp", encoding="ascii") as lines:
        return next((words[7] for words in map(str.split, lines)
                     if words[1].endswith(f":{port:04X}") and words[3] == "01"), "nobody known")


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        header = self.headers.get("Authorization", "")
        log.write(f"{decoded(header) or 'nothing'} {readable()} as "
                  f"{user_of(self.client_address[1])}\n")
        log.flush()
        may = header == EXPECTED
        if "lures" in given or ("moved" in given and may):
            self.answer(302, "Location", given.get("lures") or given["moved"])
        elif may:
            super().do_GET()
        else:
            self.answer(401, "WWW-Authenticate", 'Basic realm="x"')

    def answer(self, status, name, value):
        self.send_response(status)
        self.send_header(name, value + self.path if name == "Location" else value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


log = open(seen, "a", encoding="utf-8")
handler = functools.partial(Handler, directory=folder)
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(given.get("port", 0))), handler)
if "tls" in given:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(given["tls"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
