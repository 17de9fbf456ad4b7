"""A real sshd of our own, as one process on a port of this machine, with its own keys and nothing
of the system's configuration; and a switch before it that cuts the network without a word.

The switch is a socket in the file system: instances that have a network of their own reach it."""

import ctypes
import os
import pathlib
import pwd
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

from emulator import wait

MISSING = [name for name in ("sshfs", "sshd", "ssh-keygen", "fusermount3")
           if not (shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin"))]


def why_not():
    """Why sshfs cannot be tried here, or an empty text."""
    if MISSING:
        return f"{', '.join(MISSING)} not installed (scripts/setup)"
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "/dev/fuse cannot be opened"
    if os.geteuid() != 0:
        return "needs root: a mount that another user sees"
    return ""


def own_mounts():
    """From here on the mounts of this process and its children are their own."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(0x00020000):  # CLONE_NEWNS
        raise OSError(ctypes.get_errno(), "cannot unshare the mounts")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


class Sshd:
    """`place`: a folder of ours; the server shows all that its user may see (ourselves, or
    another: root may everything, and is refused nothing)."""

    def __init__(self, place, user=""):
        self.place = pathlib.Path(place)
        self.place.mkdir()
        self.place.chmod(0o711)  # its user reads who is authorized; the keys are ours alone
        self.user = user or pwd.getpwuid(os.geteuid()).pw_name
        for name in ("host", "user", "other"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test",
                            "-f", self.place / name], check=True)
        (self.place / "authorized").write_text((self.place / "user.pub").read_text())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        kind, key, _ = (self.place / "host.pub").read_text().split(maxsplit=2)
        self.known_hosts = self.place / "known_hosts"
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")
        (self.place / "config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.place}/host\n"
            f"PidFile none\nAuthorizedKeysFile {self.place}/authorized\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n"
            "Subsystem sftp internal-sftp\nUseDNS no\nMaxStartups 100\n")
        self.process = None
        self.switch = Switch(self.place / "switch", self.port)
        self.start()

    def start(self):
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on it
        program = shutil.which("sshd") or "/usr/sbin/sshd"
        with open(self.place / "log", "ab") as log:
            self.process = subprocess.Popen([program, "-D", "-e", "-f", self.place / "config"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        def listens():
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0
        wait("sshd to listen", listens)

    def _sessions(self):
        """The processes of its connections: children of ours in sessions of their own."""
        found = []
        for entry in os.listdir("/proc"):
            try:
                words = pathlib.Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            if entry.isdigit() and int(words.rsplit(")", 1)[1].split()[1]) == self.process.pid:
                found.append(int(entry))
        return found

    def kill(self):
        """The server's machine loses its power: no connection is said goodbye to."""
        sessions = self._sessions()
        self.process.kill()
        self.process.wait()
        for pid in sessions:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def close(self):
        self.switch.close()
        if self.process.poll() is None:
            self.kill()

    def proxy(self):
        """A ProxyCommand that goes through the switch."""
        program = self.place / "proxy"
        program.write_text("#!/usr/bin/python3\n" + PROXY.format(switch=self.place / "switch"))
        program.chmod(0o755)
        return f"ProxyCommand={program}"

    def storage(self, path, mount, options=",ServerAliveInterval=2,ConnectTimeout=5"):
        return {"sshfs": {"source": f"{self.user}@127.0.0.1:{path}", "port": self.port,
                          "key": str(self.place / "user"), "known_hosts": str(self.known_hosts),
                          "mount": str(mount), "options": self.proxy() + options}}


PROXY = """
import os, select, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect("{switch}")
while True:
    ready = select.select([0, link], [], [])[0]
    if 0 in ready:
        data = os.read(0, 65536)
        if not data:
            sys.exit(0)
        link.sendall(data)
    if link in ready:
        data = link.recv(65536)
        if not data:
            sys.exit(0)
        os.write(1, data)
"""


class Switch:
    """Passes bytes on until it is cut; then they go nowhere, as on a network that is away."""

    def __init__(self, path, port):
        self.port, self.whole, self.open = port, threading.Event(), True
        self.whole.set()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.threads = []
        self._begin(self._accept)

    def _begin(self, what, *arguments):
        thread = threading.Thread(target=what, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def cut(self):
        self.whole.clear()

    def mend(self):
        self.whole.set()

    def _accept(self):
        while self.open:
            if not select.select([self.listener], [], [], 0.1)[0]:
                continue
            self._begin(self._pass, self.listener.accept()[0])

    def _pass(self, near):
        far = socket.socket()
        with near, far:
            try:
                if not self.whole.is_set():
                    while self.open and not self.whole.is_set():
                        time.sleep(0.05)
                    return
                far.connect(("127.0.0.1", self.port))
                self._relay(near, far)
            except OSError:
                pass

    def _relay(self, near, far):
        while self.open:
            if not self.whole.is_set():
                time.sleep(0.05)
                # Who gives up meanwhile is not waited for.
                ready = select.select([near], [], [], 0)[0]
                if ready and not near.recv(1, socket.MSG_PEEK):
                    return
                continue
            for one in select.select([near, far], [], [], 0.1)[0]:
                data = one.recv(65536)
                if not data:
                    return
                (far if one is near else near).sendall(data)

    def close(self):
        self.open = False
        self.whole.set()
        for thread in self.threads:
            thread.join(5)
        self.listener.close()
