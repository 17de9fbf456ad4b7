"""What is on a volume, read from outside, once nothing in the world has it any more."""

import hashlib
import subprocess

from emulator import Failed

# In a mount namespace of its own: nothing to unmount afterwards, however this ends. `norecovery`
# writes nothing; a volume that was released properly needs no recovery.
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


CHANGE = """
set -e
mount --make-rprivate /
mount -o "loop$2" "$1" "$3"
sh -c "cd \"\$1\"; $4" sh "$3"
"""


def change(emulator, volume, command):
    """A shell command in the folder of a volume that nothing in the world has."""
    backing = next((emulator.directory / "volumes").glob(f"{volume}*"))
    if backing.is_dir():
        subprocess.run(["sh", "-ec", command], cwd=backing, check=True)
        return
    point = emulator.workplace / "change"
    point.mkdir(exist_ok=True)
    done = subprocess.run(["unshare", "-m", "sh", "-c", CHANGE, "sh", backing, ",nouuid", point,
                           command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"cannot change {volume}: {done.stderr}")


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
