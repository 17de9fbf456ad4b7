#!/usr/bin/python3
"""Whole machines as instances: a Debian with systemd as process 1 in a container for each.

By hand, as root, to look around in one (scripts/package made what is installed):

    tests/e2e/whole.py [--package spotter.deb] [COMMAND...]     without COMMAND: a shell

boots an instance on an emulator of its own, with a volume for the job "story" (attached by nobody),
runs COMMAND in it and leaves nothing behind. The journal, while it runs: journalctl inside.
"""

import argparse
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import job as jobs
import root as roots
from emulator import ROOT, Emulator, Failed, read_status, wait

# What every image of AWS has, what spotter.deb depends on (there is no mirror where they boot), and
# what the tests' trainers need.
PACKAGES = ("systemd-sysv", "dbus", "udev", "iproute2", "procps", "xfsprogs", "e2fsprogs", "git",
            "ca-certificates", "openssh-server", "sudo", "needrestart", "python3",
            "nftables", "cron", "at",
            "libblkid1", "libcurl4", "libssl3",
            "libsystemd0", "zlib1g", "libxxhash0")
MADE = ROOT / "build/packages"
NAME = "ip-10-0-0-2"

# What cloud-init does with user data: once for each instance, and /var/lib/cloud/scripts/per-boot
# at every boot. https://docs.cloud-init.io/en/latest/explanation/format.html
USER_DATA = r"""#!/usr/bin/python3
import gzip, os, pathlib, subprocess, time, urllib.error, urllib.request
METADATA = "http://169.254.169.254/latest/"

def ask(what, method="GET", **headers):
    request = urllib.request.Request(METADATA + what, method=method, headers=headers)
    while True:
        try:
            return urllib.request.urlopen(request, timeout=5).read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return b""
        except OSError:
            pass
        time.sleep(0.2)

token = ask("api/token", "PUT", **{"X-aws-ec2-metadata-token-ttl-seconds": "60"}).decode()
header = {"X-aws-ec2-metadata-token": token}
cloud = pathlib.Path("/var/lib/cloud")
mine = cloud / "instances" / ask("meta-data/instance-id", **header).decode()
done = mine / "sem/config_scripts_user"
print("user data of", mine.name, flush=True)
scripts = sorted((cloud / "scripts/per-boot").iterdir())
if not done.exists():
    done.parent.mkdir(parents=True, exist_ok=True)
    script = ask("user-data", **header)
    if script.startswith(b"\x1f\x8b"):
        script = gzip.decompress(script)
    (mine / "user-data.txt").write_bytes(script)
    (mine / "user-data.txt").chmod(0o700)
    done.touch()
    if (mine / "user-data.txt").stat().st_size:
        scripts.append(mine / "user-data.txt")
for script in scripts:
    print(f"{script} ended with {subprocess.run([script], check=False).returncode}", flush=True)
"""
USER_DATA_UNIT = """\
[Unit]
Description=User data, as cloud-init would run it
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c "/usr/lib/user-data 2>&1 | tee -a /var/log/cloud-init-output.log"
StandardOutput=journal+console
"""


@functools.cache
def missing():
    """Why no instance can be a whole machine here; empty: it can."""
    for program in ("systemd-nspawn", "ip", "nsenter"):
        if not shutil.which(program):
            return f"{program} is not installed (scripts/setup)"
    if not any(line.split()[2] == "cgroup2" for line in pathlib.Path("/proc/mounts").open()):
        return "no cgroup2 is mounted"
    if roots.release() != "bookworm":
        return "needs Debian 12, whose packages the root is made of"
    return roots.missing()


def parent_of(pid):
    return int(re.search(r"PPid:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def link(layer, unit, target):
    wants = layer / f"etc/systemd/system/{target}.wants"
    wants.mkdir(parents=True, exist_ok=True)
    (wants / unit).symlink_to(f"/usr/lib/systemd/system/{unit}")


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def layer_of_the_cloud(layer):
    """What makes a bare Debian one of EC2: its network and its user data."""
    write(layer / "usr/lib/user-data", USER_DATA, 0o755)
    write(layer / "usr/lib/systemd/system/user-data.service", USER_DATA_UNIT)
    (layer / "var/lib/cloud/scripts/per-boot").mkdir(parents=True)
    link(layer, "user-data.service", "multi-user.target")
    link(layer, "systemd-networkd.service", "multi-user.target")
    link(layer, "systemd-networkd-wait-online.service", "network-online.target")
    write(layer / "etc/hostname", f"{NAME}\n")
    write(layer / "etc/hosts", f"127.0.0.1 localhost\n10.0.0.2 {NAME}.ec2.internal {NAME}\n")
    write(layer / "etc/apt/sources.list", "# no mirror\n")
    write(layer / "etc/resolv.conf", "# no server: every other name is unknown at once\n")


def package(pattern="spotter_*.deb"):
    """What scripts/package has made of this build."""
    found = list(MADE.glob(pattern))
    if len(found) != 1:
        raise Failed(f"there is no {MADE}/{pattern}: run scripts/package")
    return found[0]


def install(layer_place, base, package):
    """The package by apt, which gets what it depends on; the layer."""
    mine = roots.Root(base, layer_place)
    shutil.copy(package, mine.shared / "spotter.deb")
    for words in (["apt-get", "update"],
                  ["apt-get", "install", "-y", "--no-install-recommends", "/srv/spotter.deb"]):
        done = mine.run(*words, environment={"DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode:
            raise Failed(f"{' '.join(words)}: {done.stdout[-2000:]}")
    return mine.place / "upper"


class Machines(Emulator):
    """An emulator whose instances are whole machines, bare or with a package, of this machine's
    Debian or of `suite`. `shared`, below its workplace, is seen by all at the same path."""

    def __init__(self, binaries, package=None, options=(), suite="", **more):
        self.package = package
        self.suite = suite
        self.more = options
        super().__init__(binaries, mode="root", **more)

    def _start(self, arguments):
        base = roots.made(f"{self.suite}boots", PACKAGES, self.suite)
        cloud = self.workplace / "cloud"
        layer_of_the_cloud(cloud)
        layers = [cloud, base]
        if self.package:
            layers[1:1] = [install(self.workplace / "package", base, self.package)]
        self.shared = self.workplace / "shared"
        self.shared.mkdir()
        # It may lie below /var/tmp, of which the trainer has one of its own.
        write(cloud / "etc/systemd/system/spotter-trainer-.service.d/shared.conf",
              f"[Service]\nBindPaths=-{self.shared}\n")
        layers = [word for layer in layers for word in ("--root", str(layer))]
        super()._start([*arguments, "--instances", "container", *layers, "--bind",
                        str(self.shared), *self.more])

    # What an instance shows

    def inside(self, instance):
        """Its process 1, as this machine numbers it; None: there is none now."""
        return next((one.get("pid") for one in self.state()["instances"]
                     if one["id"] == instance), None)

    def status(self, instance):
        leader = self.inside(instance)
        return read_status(pathlib.Path(f"/proc/{leader}/root/run/spotter")) if leader else {}

    def leader(self, instance):
        return wait(f"{instance} to boot", lambda: self.inside(instance))

    def words(self, instance, *command):
        """Those that run a command in the instance."""
        return ["nsenter", "-t", str(self.leader(instance)), "-a", "--", "env", "-i",
                f"PATH={roots.PATH}", "LC_ALL=C.UTF-8", *map(str, command)]

    def run(self, instance, *command, check=True):
        done = subprocess.run(self.words(instance, *command), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False, timeout=120)
        if check and done.returncode:
            raise Failed(f"{' '.join(map(str, command))} in {instance}: {done.returncode}\n"
                         f"{done.stdout}{done.stderr}")
        return done.stdout

    def network(self, instance, how):
        """up or down: the bridge that the instance's cable leads to."""
        launcher = parent_of(self.leader(instance))
        subprocess.run(["nsenter", "-t", str(launcher), "-n", "ip", "link", "set", "br0", how],
                       check=True, timeout=60)

    def number_here(self, instance, pid):
        """What this machine calls a process that is `pid` in the instance."""
        wanted = [str(self.leader(instance)), str(pid)]
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                numbers = re.search(r"NSpid:(.*)", status.read_text()).group(1).split()
            except OSError:
                continue
            same = os.path.samefile  # the pid namespace is that of process 1
            if len(numbers) > 1 and numbers[-1] == wanted[1] and same(
                    f"{status.parent}/ns/pid", f"/proc/{wanted[0]}/ns/pid"):
                return int(numbers[0])
        raise Failed(f"{instance} has no process {pid}")

    def wait_booted(self, instance):
        """Until systemd has reached its target; the user data may still run."""
        wait(f"{instance} to be up", lambda: self.run(
            instance, "systemctl", "is-active", "multi-user.target", check=False).strip()
             == "active")

    def logs(self, lines=25):
        journals = [f"--- journal of {folder.name}\n" + "\n".join(
            [line for line in self.journal(folder.name, "-u", "spotter", "-u", "user-data", "-o",
                                           "short-monotonic").splitlines()
             if "checkpoint of step" not in line][-lines * 3:])
            for folder in sorted((self.directory / "instances").glob("i-*"))]
        return "\n".join([super().logs(lines), *journals])

    def journal(self, instance, *words):
        """What `journalctl` tells of it, now or when it is gone."""
        folder = self.instance(instance) / "journal"
        return subprocess.run(["journalctl", "-D", folder, "--no-pager", "-q", *words],
                              capture_output=True, text=True, check=False, timeout=60).stdout


def make_root():
    """Beforehand, so that no story waits for it. That there can be none is for them to say."""
    try:
        print(missing() or roots.made("boots", PACKAGES))
    except roots.NoPackages as why:
        print(why)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", help="a .deb to install; default: that of scripts/package")
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--root", action="store_true", help="only make the root, if it can be")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.root:
        return make_root()
    if why := missing():
        sys.exit(f"whole.py: {why}")
    world = Machines(arguments.bin, name="shell", package=arguments.package or package())
    try:
        world.ec2.create_volume(world.zones[0], jobs.volume_tags(jobs.TAG, "story"))
        template = world.ec2.create_template("shell", "")
        world.ec2.request_spot_fleet(template, [world.zones[0]])
        instance = wait("an instance to run", lambda: next(
            (one.text("instanceId") for one in world.ec2.instances()
             if one.text("instanceState/name") == "running"), None))
        world.wait_booted(instance)
        print(f"{instance}: {world.instance(instance)}; API {world.api}", file=sys.stderr)
        status = subprocess.run(world.words(instance, *(arguments.command or ["bash", "-l"])),
                                check=False).returncode
    finally:
        remains = world.close()
    for one in remains:
        print(f"left behind: {one}", file=sys.stderr)
    sys.exit(status or bool(remains))


if __name__ == "__main__":
    main()
