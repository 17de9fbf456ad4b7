"""A server between a client that does not sign and the emulator's S3, which says when an answer
comes."""

import http.client
import http.server
import threading
import urllib.parse


class Between(http.server.ThreadingHTTPServer):
    """`pass_on(method, path)` is asked before each request, in a thread of its own: it may wait, at
    the longest for `over`. False: there is no answer; (status, body): this one. `change(body)` is
    what a GET answers."""

    daemon_threads = True

    def __init__(self, served, pass_on, change=lambda body: body):
        super().__init__(("127.0.0.1", 0), Between.Handler)
        self.behind, self.pass_on = urllib.parse.urlsplit(served.api).netloc, pass_on
        self.over, self.change = threading.Event(), change
        self.api = f"http://127.0.0.1:{self.server_address[1]}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    def stop(self):
        self.over.set()
        self.shutdown()
        self.server_close()
        self.thread.join()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            said = self.server.pass_on(self.command, urllib.parse.unquote(self.path))
            if not said:
                self.close_connection = True
                return
            if said is not True:
                self.send_response(said[0])
                self.send_header("Content-Length", len(said[1]))
                self.end_headers()
                self.wfile.write(said[1])
                return
            behind = http.client.HTTPConnection(self.server.behind, timeout=30)
            try:
                behind.request(self.command, self.path, headers=dict(self.headers))
                answer = behind.getresponse()
                body = answer.read()
            finally:
                behind.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length",
                                        "server", "date"):
                    self.send_header(name, value)
            if self.command == "GET":
                body = self.server.change(body)
            self.send_header("Content-Length", len(body) if self.command == "GET" else
                             answer.getheader("content-length"))
            self.end_headers()
            self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass
