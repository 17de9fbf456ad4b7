"""Packages of other versions, made of the one that scripts/package has made."""

import pathlib
import subprocess
import tempfile


def of_version(package, target, change):
    """The same files and scripts under the version that change() makes of the present one."""
    with tempfile.TemporaryDirectory(dir=pathlib.Path(target).parent) as tree:
        subprocess.run(["dpkg-deb", "-R", package, tree], check=True, timeout=60)
        control = pathlib.Path(tree) / "DEBIAN/control"
        lines = [f"Version: {change(line.split()[1])}" if line.startswith("Version: ") else line
                 for line in control.read_text().splitlines()]
        control.write_text("\n".join(lines) + "\n")
        subprocess.run(["dpkg-deb", "--root-owner-group", "-z1", "-b", tree, target], check=True,
                       capture_output=True, timeout=60)


def newer(package, target):
    """A version that comes after every other."""
    of_version(package, target, lambda version: f"1000:{version}")


def older(package, target):
    """One that comes before every other."""
    of_version(package, target, lambda _: "0.0~older")
