#!/usr/bin/python3
"""A kernel and a root for virtual machines, from Debian's packages and files of this machine.

    image.py DIRECTORY [FILE...]

makes DIRECTORY/kernel and DIRECTORY/root.cpio: a root that lives in memory, with busybox, Python,
NFS (client and server), guest.py as its first process, and each FILE in /opt with the libraries
that it is linked with. Takes about half a minute; needs mmdebstrap, kmod and a mirror of Debian.
"""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile

PACKAGES = ("linux-image-cloud-amd64", "busybox-static", "mount", "python3", "nfs-common",
            "nfs-kernel-server", "libxxhash0")
# Of the kernel's modules those that somebody loads, and what they stand on.
MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "ext4", "nfs", "nfsv4", "nfsd",
           "nfs_layout_nfsv41_files")
# A root in memory: what nobody reads there is left out.
WITHOUT = ("boot", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/perl",
           "usr/share/perl5", "usr/lib/x86_64-linux-gnu/perl", "usr/lib/x86_64-linux-gnu/perl-base",
           "usr/lib/x86_64-linux-gnu/gconv", "usr/share/zoneinfo", "usr/share/bash-completion",
           "usr/share/initramfs-tools", "usr/share/i18n", "usr/share/info", "usr/share/lintian",
           "usr/share/doc-base", "var/cache", "var/lib/apt", "usr/bin/perl", "usr/lib/systemd",
           "lib/systemd", "lib/udev")
USERS = "root:x:0:0:root:/root:/bin/sh\nworker:x:1000:1000:worker:/tmp:/bin/sh\n" \
        "nobody:x:65534:65534:nobody:/:/bin/false\nstatd:x:102:65534::/var/lib/nfs:/bin/false\n"
GROUPS = "root:x:0:\nworker:x:1000:\nnogroup:x:65534:\n"
HERE = pathlib.Path(__file__).parent


def run(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr or done.stdout}")
    return done.stdout


def unpack(root):
    release = re.search(r"VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text())
    run("mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(PACKAGES)}",
        release.group(1) if release else "stable", root, "http://deb.debian.org/debian")


def keep_modules(root):
    """Only what is loaded, with the lists that modprobe reads."""
    version = next((root / "lib/modules").iterdir()).name
    run("depmod", "-b", root, version)
    kept = set()
    for module in MODULES:
        for line in run("modprobe", "-d", root, "-S", version, "--show-depends",
                        module).splitlines():
            if line.startswith("insmod "):
                kept.add(pathlib.Path(os.path.realpath(line.split()[1])))
    for path in (root / "lib/modules" / version / "kernel").rglob("*.ko*"):
        if pathlib.Path(os.path.realpath(path)) not in kept:
            path.unlink()
    run("depmod", "-b", root, version)


def libraries(program):
    """What the loader would open for it: absolute paths on this machine."""
    return sorted({word for line in run("ldd", program).splitlines()
                   for word in line.split() if word.startswith("/")})


def add_files(root, files):
    target = root / "opt"
    for file in map(pathlib.Path, files):
        shutil.copy(file, target / file.name)
        with open(file, "rb") as opened:
            is_program = opened.read(4) == b"\x7fELF"
        for library in libraries(file) if is_program else ():
            if not (root / library.lstrip("/")).exists():
                shutil.copy(library, target / "lib")


def furnish(root, files):
    for path in WITHOUT:
        gone = root / path
        if gone.is_dir() and not gone.is_symlink():
            shutil.rmtree(gone)
        elif gone.exists():
            gone.unlink()
    for folder in ("proc", "sys", "dev", "run", "tmp", "root", "mnt", "opt/lib", "var/lib/nfs/sm",
                   "var/lib/nfs/v4recovery", "var/lib/nfs/rpc_pipefs"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text(USERS)
    (root / "etc/group").write_text(GROUPS)
    (root / "etc/netconfig").touch()
    (root / "etc/ld.so.conf").write_text("/lib/x86_64-linux-gnu\n/usr/lib/x86_64-linux-gnu\n"
                                         "/opt/lib\n/opt\n")
    if not (root / "bin/sh").exists():
        (root / "bin/sh").symlink_to("busybox")
    shutil.copy(HERE / "guest.py", root / "init")
    (root / "init").chmod(0o755)
    add_files(root, files)
    run("ldconfig", "-r", root)


def entries(root):
    """(name, status) of everything below, each folder before what is in it."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(folders + names):
            path = os.path.join(folder, name)
            yield os.path.relpath(path, root), os.lstat(path)


def archive(root, target):
    """The kernel's own format: Documentation/driver-api/early-userspace/buffer-format.rst. All is
    root's, whoever made it."""
    def put(name, mode, data=b"", device=(0, 0)):
        nonlocal number
        number += 1
        text = name.encode() + b"\0"
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(text), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + text
        out.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    number = 0
    with open(target, "wb") as out:
        put("dev", stat.S_IFDIR | 0o755)
        put("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))  # the kernel opens it for init
        put("dev/null", stat.S_IFCHR | 0o666, device=(1, 3))
        for name, status in entries(root):
            path = os.path.join(root, name)
            if stat.S_ISLNK(status.st_mode):
                put(name, status.st_mode, os.readlink(path).encode())
            elif stat.S_ISREG(status.st_mode):
                put(name, status.st_mode, pathlib.Path(path).read_bytes())
            elif stat.S_ISDIR(status.st_mode) and name != "dev":
                put(name, status.st_mode)
        put("TRAILER!!!", 0)


def build(directory, files):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    place = pathlib.Path(tempfile.mkdtemp(dir=directory))
    place.chmod(0o755)
    try:
        root = place / "root"
        unpack(root)
        kernel = next((root / "boot").glob("vmlinuz-*"))
        shutil.copy(kernel, directory / "kernel")
        keep_modules(root)
        furnish(root, files)
        archive(root, place / "root.cpio")
        (place / "root.cpio").rename(directory / "root.cpio")  # whoever sees it sees all of it
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stdout if "--help" in sys.argv else sys.stderr)
        sys.exit(0 if "--help" in sys.argv else 2)
    build(sys.argv[1], sys.argv[2:])
