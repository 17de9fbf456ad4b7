"""What is on a volume, read from outside, once nothing in the world has it any more."""

import hashlib
import subprocess

from emulator import Failed

# In a mount namespace of its own: nothing to unmount afterwards, however this ends. `norecovery`
# writes nothing; a volume that was let go properly needs no recovery.
READ = """
set -e
mount --make-rprivate /
mount -o "ro,loop$3" "$1" "$4"
cp -a "$4/$2" "$5"
"""


def copy_out(emulator, volume, path):
    """A copy of a directory on the volume; gives back where it is."""
    target = emulator.workplace / f"copy-of-{path.replace('/', '-')}"
    backing = next((found for found in (emulator.directory / "volumes").glob(f"{volume}*")), None)
    if backing is None:
        raise Failed(f"{volume} has no file below {emulator.directory}/volumes")
    if backing.is_dir():
        subprocess.run(["cp", "-a", backing / path, target], check=True)
        return target
    point = emulator.workplace / "look"
    point.mkdir(exist_ok=True)
    options = ",norecovery,nouuid"
    done = subprocess.run(["unshare", "-m", "sh", "-c", READ, "sh", backing, path, options, point,
                           target], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"cannot read {volume}: {done.stderr}")
    return target


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
