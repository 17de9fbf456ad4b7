"""A world whose instances are virtual machines of qemu's: a kernel of their own, disks that are
plugged in, power that can be cut. See whole.py, of which this is the same with other machines."""

import functools
import pathlib
import shlex
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import orders
import root as roots
import whole
from emulator import Emulator, Failed, parsed_status, wait

PACKAGES = (*whole.PACKAGES, "linux-image-cloud-amd64", "kmod")
NETWORK = "[Match]\nName=eth0\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n"
OBEY = ("[Unit]\nDefaultDependencies=no\nAfter=local-fs.target\n[Service]\n"
        "ExecStart=/usr/bin/python3 /usr/lib/guest.py --obey\n")
# Words: layers, image, where to see them together.
PACK = ('set -e; mount --make-rprivate /; mount -t overlay -o "lowerdir=$1" overlay "$3"; '
        'mke2fs -q -t ext4 -m 0 -O ^has_journal -d "$3" "$2" 1500m')


@functools.cache
def missing():
    if not shutil.which("qemu-system-x86_64"):
        return "qemu-system-x86_64 is not installed (scripts/setup --machine)"
    return whole.missing()


def make_root():
    return roots.made("machine", PACKAGES)


class Virtual(whole.Machines):
    """`files`: what the image has besides, path -> text."""

    def __init__(self, binaries, files=(), **more):
        self.files = dict(files)
        super().__init__(binaries, **more)

    def _start(self, arguments):
        base = make_root()
        cloud = self.workplace / "cloud"
        whole.layer_of_the_cloud(cloud)
        whole.write(cloud / "etc/systemd/network/10-ec2.network", NETWORK)
        whole.write(cloud / "etc/fstab", "")
        whole.write(cloud / "usr/lib/guest.py", (HERE / "guest.py").read_text())
        whole.write(cloud / "usr/lib/systemd/system/orders.service", OBEY)
        whole.link(cloud, "orders.service", "multi-user.target")
        for path, text in self.files.items():
            whole.write(cloud / path, text, 0o755)
        image, together = self.workplace / "image", self.workplace / "together"
        together.mkdir()
        subprocess.run(["unshare", "--mount", "sh", "-c", PACK, "pack", f"{cloud}:{base}", image,
                        together], check=True, timeout=300)
        self.shared = self.workplace / "shared"
        self.shared.mkdir()
        kernel, = (base / "boot").glob("vmlinuz-*")
        boot = [word for each in (HERE / "boot.py", kernel, image)
                for word in ("--boot", str(each))]
        Emulator._start(self, [*arguments, "--instances", "machine", *boot, *self.more])

    # What an instance shows

    def orders(self, instance):
        return orders.Orders(self.instance(instance) / "orders")

    def leader(self, instance):
        """Waits until it is up; it is a machine of its own, and has no process here."""
        wait(f"{instance} to obey", lambda: self.orders(instance).obeys())

    def run(self, instance, *command, check=True):
        self.leader(instance)
        status, output = self.orders(instance).run(shlex.join(map(str, command)))
        if check and status:
            raise Failed(f"{' '.join(map(str, command))} in {instance}: {status}\n{output}")
        return output

    def status(self, instance):
        try:
            status, text = self.orders(instance).run("cat /run/spotter/status.json", 10)
        except Failed:
            return {}
        return parsed_status(text) if status == 0 else {}

    def journal(self, instance, *words):
        """All that its console showed: the journal is written there, too."""
        return self.console(instance)
