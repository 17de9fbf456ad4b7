#!/usr/bin/python3
"""Makes the wheel: Spotter for a laptop, which pip installs, of the tarball that CPack has made.

    wheel.py OUTPUT TARBALL PACKAGE... [--system ROOT]

It holds the programs with Python's part of them, the shared libraries of this Debian (or of the one
at ROOT) that they need, and the PACKAGEs for the machines, which `spotter launch` sends. Its tag
names the oldest glibc that has all symbols they ask for. What glibc and the C++ library's runtime
are, every manylinux system has: https://peps.python.org/pep-0600/
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import time
import zipfile

SYSTEM = re.compile(r"(libc|libm|libdl|librt|libpthread|libresolv|libutil|libgcc_s|libstdc\+\+"
                    r"|ld-linux[-\w]*)\.so\.\d+$")
# Of the tarball: where it goes in the wheel. The rest is a machine's.
PLACES = {"usr/bin/": "scripts/", "usr/lib/spotter/": "data/lib/spotter/",
          **{f"usr/share/man/man{section}/": "data/lib/spotter/manual/" for section in (1, 5, 7)}}
LIBRARIES = "data/lib/spotter/libraries/"  # the programs' RPATH (agent/CMakeLists.txt)


def output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


def needed(file):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output("readelf", "-dW", file))


class System:
    """The Debian whose libraries the programs were linked with."""

    def __init__(self, root, machine):
        self.root, self.triplet = pathlib.Path(root), f"{machine}-linux-gnu"

    def library(self, name):
        for folder in ("usr/lib", "lib"):
            path = self.root / folder / self.triplet / name
            if path.exists():
                return path
        raise SystemExit(f"wheel.py: {name} is not in {self.root}")

    def licence(self, library):
        """The package that it is of, and that package's copyright."""
        real = pathlib.Path(os.path.realpath(library))
        name = "/" + str(real.relative_to(os.path.realpath(self.root)))
        done = output("dpkg-query", f"--admindir={self.root}/var/lib/dpkg", "-S",
                      f"*{name.removeprefix('/usr')}")
        package = done.split(":")[0]
        return package, self.root / "usr/share/doc" / package / "copyright"


def with_all(programs, system):
    """The libraries that these need, and those need in turn, by name."""
    found, open_ones = {}, list(programs)
    while open_ones:
        for name in needed(open_ones.pop()):
            if name not in found and not SYSTEM.match(name):
                found[name] = system.library(name)
                open_ones.append(found[name])
    return found


def tag_of(files, machine):
    versions = {tuple(map(int, one.split("."))) for file in files
                for one in re.findall(r"Name: GLIBC_([\d.]+)", output("readelf", "-VW", file))}
    major, minor = max(versions)[:2]
    return f"py3-none-manylinux_{major}_{minor}_{machine}"


class Wheel:
    def __init__(self, path, version, moment):
        self.file = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.information, self.moment = f"spotter-{version}.dist-info/", moment
        self.data, self.record = f"spotter-{version}.data/", []

    def add(self, name, content, executable=False):
        entry = zipfile.ZipInfo(name, time.gmtime(self.moment)[:6])
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        self.file.writestr(entry, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        self.record.append(f"{name},sha256={digest},{len(content)}\n")

    def close(self):
        name = self.information + "RECORD"
        self.record.append(f"{name},,\n")
        self.file.writestr(zipfile.ZipInfo(name, time.gmtime(self.moment)[:6]),
                           "".join(self.record))
        self.file.close()


def fill(wheel, folder, libraries, system):
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        for start, place in PLACES.items():
            if name.startswith(start) and path.is_file():
                wheel.add(wheel.data + place + name.removeprefix(start), path.read_bytes(),
                          os.access(path, os.X_OK))
    licences = {}
    for name, path in sorted(libraries.items()):
        wheel.add(wheel.data + LIBRARIES + name, path.read_bytes(), True)
        package, copyright_file = system.licence(path)
        licences[package] = copyright_file
    for package, copyright_file in sorted(licences.items()):
        wheel.add(f"{wheel.information}licenses/{package}", copyright_file.read_bytes())
    wheel.add(f"{wheel.information}licenses/spotter",
              (folder / "usr/share/doc/spotter/copyright").read_bytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=pathlib.Path, help="the folder")
    parser.add_argument("tarball", type=pathlib.Path)
    parser.add_argument("packages", nargs="*", type=pathlib.Path)
    parser.add_argument("--system", default="/")
    given = parser.parse_args()
    version, machine = re.fullmatch(r"spotter-([\d.]+)-linux-(\w+)\.tar\.gz",
                                    given.tarball.name).groups()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        with tarfile.open(given.tarball) as tar:
            tar.extractall(folder)
        system = System(given.system, machine)
        programs = sorted((folder / "usr/bin").iterdir())
        libraries = with_all(programs, system)
        tag = tag_of([*programs, *libraries.values()], machine)
        path = given.output / f"spotter-{version}-{tag}.whl"
        wheel = Wheel(path, version, int(os.environ["SOURCE_DATE_EPOCH"]))
        fill(wheel, folder, libraries, system)
        for package in given.packages:
            wheel.add(f"{wheel.data}data/lib/spotter/packages/{package.name}",
                      package.read_bytes())
        wheel.add(wheel.information + "WHEEL", (
            f"Wheel-Version: 1.0\nGenerator: spotter\nRoot-Is-Purelib: false\nTag: {tag}\n"
            ).encode())
        wheel.add(wheel.information + "METADATA", (
            f"Metadata-Version: 2.1\nName: spotter\nVersion: {version}\n"
            "Summary: Carries a deep-learning training job across spot instances\n"
            "License: MIT, and those of the libraries in it\n").encode())
        wheel.close()
    print(path)


if __name__ == "__main__":
    main()
