"""One virtual machine of qemu's, emulated (no KVM): started, given commands, cut off, killed. It
dies with whoever started it."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402
from emulator import Failed, tail, wait  # noqa: E402

QEMU = "qemu-system-x86_64"
LIBRARY = ctypes.CDLL(None)


def dies_with_us():
    LIBRARY.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.nice(5)


def why_not():
    """Why there can be no machines here, or an empty text."""
    missing = [name for name in (QEMU, "mmdebstrap", "depmod", "mke2fs")
               if not (shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin"))]
    return f"{', '.join(missing)} not installed (scripts/test machine)" if missing else ""


def broken_off(*_):
    raise SystemExit("broken off")  # unlike KeyboardInterrupt, unittest cleans up after it


def main(without, make_image):
    """Of a file of stories: --image makes what they boot from, unless `without` says why not."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, broken_off)
    if sys.argv[1:] != ["--image"]:
        harness.main()
    elif why := without():
        print(f"skipped: {why}")
        sys.exit(77)
    else:
        make_image()


class Machine:
    """`place`: its folder; `image`: of image.py. Machines of one `wire` (a folder) see one another;
    there are two of them, `number` 1 and 2, at 10.0.0.NUMBER. `disk`: a raw file, its /dev/vda."""

    def __init__(self, place, image, wire, number, disk=None, memory=512):
        self.place, self.number = pathlib.Path(place), number
        self.place.mkdir(exist_ok=True)
        self.log = self.place / "console"
        self.address = f"10.0.0.{number}"
        self.answers, self.next, self.news = {}, 1, threading.Condition()
        other = 3 - number
        self.command = [
            QEMU, "-nodefaults", "-display", "none", "-machine", "q35,accel=tcg", "-cpu", "max",
            "-m", str(memory), "-kernel", f"{image}/kernel", "-initrd", f"{image}/root.cpio",
            "-append", f"console=ttyS0 quiet panic=-1 rdinit=/init address={self.address} "
                       "net.ifnames=0 random.trust_cpu=on",
            "-no-reboot", "-serial", f"file:{self.log}",
            "-chardev", f"socket,id=orders,path={self.place}/orders,server=on,wait=off",
            "-serial", "chardev:orders",
            "-qmp", f"unix:{self.place}/qmp,server=on,wait=off",
            "-netdev", f"dgram,id=lan,local.type=unix,local.path={wire}/{number},"
                       f"remote.type=unix,remote.path={wire}/{other}",
            "-device", f"virtio-net-pci,netdev=lan,mac=52:54:00:00:00:0{number}",
            *(["-drive", f"file={disk},format=raw,if=virtio,cache=writeback"] if disk else [])]
        self.wire = pathlib.Path(wire) / str(number)
        self.process = None

    def start(self):
        for name in (self.place / "orders", self.place / "qmp", self.wire):
            name.unlink(missing_ok=True)
        with open(self.place / "qemu", "ab") as words:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=words,
                                            stderr=words, start_new_session=True,
                                            preexec_fn=dies_with_us)
        self.answers.clear()
        wait(f"qemu to begin: {self.place}", lambda: self._alive() and
             (self.place / "orders").exists())
        self.orders = socket.socket(socket.AF_UNIX)
        self.orders.connect(str(self.place / "orders"))
        threading.Thread(target=self._listen, args=(self.orders,), daemon=True).start()

    def _alive(self):
        if self.process.poll() is not None:
            raise Failed(f"qemu ended with {self.process.returncode}: "
                         + tail(self.place / "qemu") + tail(self.log))
        return True

    def _listen(self, orders):
        rest = b""
        try:
            while piece := orders.recv(65536):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    answer = json.loads(line)
                    with self.news:
                        self.answers[answer["id"]] = answer
                        self.news.notify_all()
        except OSError:
            pass  # it was killed

    def _await(self, number, seconds, what):
        with self.news:
            if not self.news.wait_for(lambda: number in self.answers, seconds):
                raise Failed(f"machine {self.number} said nothing within {seconds} s: {what}\n"
                             + tail(self.log))
            return self.answers.pop(number)

    def wait_ready(self, seconds=300):
        self._await(0, seconds, "its start")

    def begin(self, command):
        """Gives back what ended() and result() take."""
        number, self.next = self.next, self.next + 1
        self.orders.sendall(json.dumps({"id": number, "command": command}).encode() + b"\n")
        return number

    def ended(self, number):
        return number in self.answers

    def result(self, number, seconds=120):
        """(status, output) of what was begun."""
        answer = self._await(number, seconds, f"the end of order {number}")
        return answer["status"], answer["output"]

    def sh(self, command, seconds=120):
        """The output of a command that must succeed."""
        status, output = self.result(self.begin(command), seconds)
        if status:
            raise Failed(f"machine {self.number}: `{command}` ended with {status}: {output}")
        return output

    def link(self, up):
        """Its network cable, pulled out or put back; the other machine does not notice."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.place / "qmp"))
            talk = control.makefile("rw", encoding="utf-8")
            talk.readline()
            for order in ({"execute": "qmp_capabilities"},
                          {"execute": "set_link", "arguments": {"name": "lan", "up": up}}):
                talk.write(json.dumps(order) + "\n")
                talk.flush()
                while "return" not in (answer := json.loads(talk.readline())):
                    if "error" in answer:
                        raise Failed(f"qemu: {answer['error']}")

    def kill(self):
        """It loses its power."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if hasattr(self, "orders"):
            self.orders.close()
