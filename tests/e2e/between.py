"""Between a program and the emulator: hands on each request and its answer, and after so many of
them the program gets Ctrl-C, and no answer."""

import http.client
import http.server
import signal
import subprocess
import threading


class Between(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def hand_on(self):
        server = self.server
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = http.client.HTTPConnection(server.api, timeout=60)
        asked.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() != "expect":
                asked.putheader(name, value)
        asked.endheaders(content)
        answer = asked.getresponse()
        body = answer.read()
        asked.close()
        with server.lock:
            server.left -= 1 if server.counts(self.command, content) else 0
            last = server.left == 0 and not server.reached
            server.reached = server.reached or last
        if last:
            server.process.send_signal(signal.SIGINT)
            self.close_connection = True
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                self.send_header(name, value)
        if answer.getheader("Content-Length") is None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = hand_on

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # the program has gone: it was to


def changes(method, content):
    """Whether a request may change something at AWS."""
    action = content.partition(b"Action=")[2]
    if method == "POST" and action:
        return not action.startswith((b"Describe", b"Get"))
    return method in ("PUT", "POST", "DELETE")


def interrupted(api, count, words, environment, counts=lambda *_: True, **more):
    """Its exit status, what it said, and whether it came to that many requests that count."""
    server = Server(("127.0.0.1", 0), Between)
    server.api, server.left, server.counts = api.split("//")[1], count, counts
    server.lock, server.reached = threading.Lock(), False
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        with subprocess.Popen(words, env={**environment, "AWS_ENDPOINT_URL": address}, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, **more) as server.process:
            said, _ = server.process.communicate(timeout=200)
    finally:
        server.shutdown()
        server.server_close()
    return server.process.returncode, said, server.reached
