#!/usr/bin/python3
"""An instance of the emulator's that is a virtual machine: spotter-emulator serve --instances
machine --boot boot.py --boot KERNEL --boot DISK. Runs in its folder until the machine is off.

Volumes come and go as NVMe disks below PCI Express ports, as on Nitro: each link that appears in
devices/disk/by-id is plugged in, each that vanishes is taken out. SIGTERM presses the power button.
Beside it: console.log, `orders` (tests/machine/orders.py), `qmp`.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

PORTS = 8
LINKS = pathlib.Path("devices/disk/by-id")
WORDS = ("root=/dev/nvme0n1 rw console=ttyS0 net.ifnames=0 panic=-1 random.trust_cpu=on "
         "systemd.setenv=AWS_ENDPOINT_URL=http://10.0.2.2:4566 systemd.journald.forward_to_console=1 "
         "systemd.journald.max_level_console=info")


class Refused(Exception):
    """By qemu, in its words."""


class Monitor:
    """qemu's: https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html"""

    def __init__(self, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        self.talk = connection.makefile("rw", encoding="utf-8")
        self.talk.readline()
        self.ask("qmp_capabilities")

    def ask(self, what, **arguments):
        self.talk.write(json.dumps({"execute": what, "arguments": arguments}) + "\n")
        self.talk.flush()
        while line := self.talk.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise Refused(answer["error"]["desc"])
        raise Refused("qemu is gone")


class Disks:
    def __init__(self, monitor):
        self.monitor, self.ports, self.asked = monitor, {}, {}  # port -> serial; serial -> when

    def plugged(self):
        found = self.monitor.ask("qom-list", path="/machine/peripheral")
        return {one["name"] for one in found if one["name"].startswith("vol")}

    def follow(self):
        wanted = {link.name.rpartition("_")[2]: os.path.realpath(link) for link in LINKS.iterdir()
                  if link.is_symlink()}
        there = self.plugged()
        for port, serial in list(self.ports.items()):
            if serial not in there:  # the guest has let it go
                self.monitor.ask("blockdev-del", **{"node-name": f"node-{serial}"})
                del self.ports[port]
        for serial in there - wanted.keys():
            if time.monotonic() - self.asked.get(serial, -10) > 2:
                self.asked[serial] = time.monotonic()
                self.monitor.ask("device_del", id=serial)
        for serial in wanted.keys() - set(self.ports.values()):
            self.plug(serial, wanted[serial])

    def plug(self, serial, path):
        node, port = f"node-{serial}", next(port for port in range(PORTS) if port not in self.ports)
        # Refused as long as another machine has the file: it is tried again.
        self.monitor.ask("blockdev-add", driver="raw", **{"node-name": node},
                         file={"driver": "file", "filename": path, "locking": "on"})
        self.monitor.ask("device_add", driver="nvme", id=serial, serial=serial, drive=node,
                         bus=f"port{port}")
        self.ports[port] = serial


def command(kernel, disk):
    ports = [word for port in range(PORTS) for word in (
        "-device", f"pcie-root-port,id=port{port},chassis={port + 1},slot={port + 1}")]
    return [
        "qemu-system-x86_64", "-nodefaults", "-display", "none", "-machine", "q35",
        "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "768", "-kernel", kernel,
        "-append", WORDS,
        "-drive", f"file={disk},format=raw,if=none,id=root,snapshot=on",
        "-device", "nvme,drive=root,serial=root",
        "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net", *ports,
        "-serial", "file:console.log",
        "-chardev", "socket,id=orders,path=orders,server=on,wait=off", "-serial", "chardev:orders",
        "-qmp", "unix:qmp,server=on,wait=off"]


def main():
    for name in ("orders", "qmp"):
        pathlib.Path(name).unlink(missing_ok=True)
    # A session of its own: only its power button is pressed, never the emulator's signal felt.
    with subprocess.Popen(command(*sys.argv[1:3]), stdin=subprocess.DEVNULL,
                          start_new_session=True) as qemu:
        while qemu.poll() is None and not pathlib.Path("qmp").exists():
            time.sleep(0.05)
        monitor = Monitor("qmp")
        pressed = []
        signal.signal(signal.SIGTERM, lambda *_: pressed.append(True))
        disks, said = Disks(monitor), ""
        while qemu.poll() is None:
            try:
                if pressed:
                    pressed.clear()
                    monitor.ask("system_powerdown")
                disks.follow()
            except Refused as why:
                if str(why) != said:
                    said = str(why)
                    print(f"boot.py: {said}", file=sys.stderr, flush=True)
            except OSError:
                pass  # it is going down
            time.sleep(0.1)
        return qemu.returncode


if __name__ == "__main__":
    sys.exit(main())
