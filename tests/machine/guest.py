#!/usr/bin/python3
"""The first process of a virtual machine: makes it a machine, then does what it is asked.

Orders come over the second serial port, a line of JSON each: {"id": 1, "command": "..."} for sh.
The answer, when it has ended: {"id": 1, "status": 0, "output": "..."}; orders may overlap, so that
one that hangs hangs alone. The machine's own address is the kernel's word `address=...`.
With --obey it only does what it is asked.
"""

import json
import os
import subprocess
import sys
import threading

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt"
FILE_SYSTEMS = (("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/run"),
                ("tmpfs", "/tmp"))
MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "ext4", "nfs", "nfsv4", "nfsd")


def sh(command):
    return subprocess.run(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)


def word(name):
    with open("/proc/cmdline", encoding="ascii") as words:
        found = [each.split("=", 1)[1] for each in words.read().split()
                 if each.startswith(f"{name}=")]
    return found[0] if found else ""


def furnish():
    os.environ.update(PATH=PATH, HOME="/root")
    for kind, place in FILE_SYSTEMS:
        sh(f"/bin/busybox mount -t {kind} {kind} {place}")
    os.chmod("/tmp", 0o1777)
    sh("/bin/busybox --install -s /bin")  # what the packages brought stays
    for module in MODULES:
        sh(f"modprobe {module}")
    sh("mount -t tmpfs tmpfs /dev/shm; mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs")
    sh(f"ip link set lo up; ip addr add {word('address')}/24 dev eth0; ip link set eth0 up")


def carry_out(line, port, lock):
    try:
        order = json.loads(line)
    except ValueError:
        return  # the end of one that was sent before there was somebody to hear it
    done = sh(order["command"])
    answer = {"id": order["id"], "status": done.returncode,
              "output": done.stdout.decode(errors="replace")}
    with lock:
        port.write(json.dumps(answer).encode() + b"\n")
        port.flush()


def obey():
    sh("stty -F /dev/ttyS1 raw -echo")
    lock = threading.Lock()
    with open("/dev/ttyS1", "rb", buffering=0) as orders, open("/dev/ttyS1", "wb") as port:
        port.write(b'{"id": 0, "status": 0, "output": "ready"}\n')
        port.flush()
        rest = b""
        while piece := orders.read(4096):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                threading.Thread(target=carry_out, args=(line, port, lock),
                                 daemon=True).start()


if __name__ == "__main__":
    if sys.argv[1:] != ["--obey"]:  # else somebody has made it one
        furnish()
    obey()
