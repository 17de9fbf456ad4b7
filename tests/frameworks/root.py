"""How a test gets into the root of Debian testing that scripts/frameworks makes."""

import pathlib
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "OMP_NUM_THREADS": "1", "HOME": "/tmp",
               "PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1", "LC_ALL": "C.UTF-8",
               "USE_LIBUV": "0"}  # Debian's PyTorch has none


def skip_without(root):
    if not (root / "usr/bin/python3").exists():
        print(f"skipped: no {root}: scripts/frameworks")
        sys.exit(77)


def within(root, mounts, *words):
    """The command that runs these words there, in a namespace of mounts of its own. `mounts`: what
    is to be seen in it, by its path below the root."""
    script = "set -e\n" + "".join(
        f'mkdir -p "$0/{name}"; mount --bind "${{{at}}}" "$0/{name}"\n'
        for at, name in enumerate(mounts, 1))
    script += ('mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"\n'
               f'root=$0; shift {len(mounts)}; exec chroot "$root" "$@"')
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, root,
            *mounts.values(), *words]
