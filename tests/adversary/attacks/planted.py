"""What a trainer leaves in its storage, its code and its home for root to come upon."""

import fcntl
import json
import os
import pathlib
import shutil
import stat
import subprocess
import threading
import time

from common import LOOT, OWN, STORAGE, VICTIM, each

# Names that root, or the guard, opens or makes below the storage.
OURS = ("kept", "torn", "checkpoints.json", "volume.json", "ledger.json", "account.json", "history",
        "history.jsonl", "agent.log", "metrics.jsonl", "formats.json")
RACES = 4000


def clear(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    elif path.is_symlink() or path.exists():
        path.unlink()


def names_of_ours():
    there = [path.name for path in OWN.iterdir()]
    return [OWN / name for name in sorted({*OURS, *there})]


def links_in_the_place_of_our_files():
    def plant(path):
        clear(path)
        path.symlink_to(VICTIM if path.suffix == "" else VICTIM / "secret")
    planted = each(plant, [*names_of_ours(), STORAGE / "DONE"])
    return OWN.stat().st_uid == 0 and planted.replace(str(STORAGE / "DONE"), "").strip()


def our_folder_moved_away():
    if OWN.stat().st_uid != 0:
        return ""  # on a share all of it is the trainer's
    os.rename(OWN, STORAGE / "moved")
    OWN.mkdir()
    return "moved"


def a_record_that_names_root():
    (OWN / "volume.json").unlink(missing_ok=True)
    (OWN / "volume.json").write_text(json.dumps(
        {"volume": "vol-1", "user": "root", "uid": 0, "gid": 0}))
    return OWN.stat().st_uid == 0 and "written"


def links_in_the_place_of_folders():
    for name in ("checkpoints", "log", "result"):
        clear(STORAGE / name)
        (STORAGE / name).symlink_to(VICTIM)


def the_log_is_roots_file():
    folder = STORAGE / "log"
    clear(folder)
    folder.mkdir()
    (folder / "trainer.log").symlink_to(VICTIM / "secret")


def setuid_checkpoints():
    """Copies of them must not be executables that act as somebody else."""
    clear(STORAGE / "checkpoints")
    (STORAGE / "checkpoints").mkdir()
    for name in ("one.bin", "two.bin"):
        path = STORAGE / "checkpoints" / name
        shutil.copy("/usr/bin/id", path)
        path.chmod(0o6755)


def second_names_of_others_files():
    """With fs.protected_hardlinks=0 these are made, and must be left as they are."""
    def plant(target):
        os.link(target, STORAGE / "checkpoints" / f"{target.name}.bin")
    each(plant, [VICTIM / "secret", VICTIM / "readable", pathlib.Path("/etc/shadow")])


def fifos_in_the_place_of_files():
    def plant(path):
        clear(path)
        os.mkfifo(path)
    each(plant, [OWN / "checkpoints.json", OWN / "agent.log", STORAGE / "DONE",
                 STORAGE / "checkpoints" / "fifo.bin", STORAGE / "checkpoints" / "sock.bin"])


def four_terabytes_of_nothing():
    folder = STORAGE / "checkpoints" / "step-000000000999"
    folder.mkdir(parents=True, exist_ok=True)
    for path in (folder / "manifest.json", STORAGE / "checkpoints" / "sparse.safetensors"):
        with open(path, "wb") as file:
            file.truncate(4 << 40)


def a_header_of_many_megabytes():
    header = b"[" * (24 << 20)
    path = STORAGE / "checkpoints" / "header.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)


def names_that_terminals_obey():
    for name in (b"new\nline.bin", b"\x1b]0;owned\x07.bin", b"\xff\xfe.bin", b"\x1b[2J.bin"):
        with open(os.path.join(os.fsencode(STORAGE / "checkpoints"), name), "wb") as file:
            file.write(b"x")


def names_that_change_while_root_works():
    """A real folder and a link to somebody else's change places, for a bounded number of times."""
    def race(name):
        real, link = STORAGE / f"{name}.real", STORAGE / f"{name}.link"
        clear(real)
        clear(link)
        real.mkdir()
        (real / "readable").write_text("mine, of a name that the other has, too")
        link.symlink_to(VICTIM)
        for turn in range(RACES):
            time.sleep(0.001)  # the guard works beside it
            try:
                os.rename(*(((real, STORAGE / name), (STORAGE / name, real)) if turn % 2 else
                            ((link, STORAGE / name), (STORAGE / name, link)))[turn // 2 % 2])
            except OSError:
                pass
    clear(STORAGE / "checkpoints")
    threads = [threading.Thread(target=race, args=(name,)) for name in ("checkpoints", "result")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def leases_and_locks_on_the_storage():
    """Who opens a leased file waits for its holder; the holders here end with the trainer."""
    def hold(path):
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    each(hold, [path for path in STORAGE.rglob("*") if path.is_file()][:50])


def programs_in_the_home_and_the_code():
    """Whoever runs one of them writes down who it is."""
    ran = LOOT / "ran"
    ran.mkdir(exist_ok=True)
    ran.chmod(0o777)
    program = LOOT / "program"
    program.write_text(f"#!/bin/sh\n: >{ran}/$(/usr/bin/id -u)\n")
    program.chmod(0o755)
    home = pathlib.Path(os.path.expanduser("~"))
    for name in (".profile", ".bashrc", ".bash_profile", ".ssh/rc", ".netrc"):
        each(lambda path: path.write_text(f". {program}\n"), [home / name])
    config = (f"[core]\n\tfsmonitor = {program}\n\thooksPath = {LOOT}\n\tsshCommand = {program}\n"
              f"[credential]\n\thelper = {program}\n[safe]\n\tdirectory = *\n")
    for path in (home / ".gitconfig", home / ".config/git/config", pathlib.Path(".git/config")):
        each(lambda path: path.write_text(config), [path])
    for name in ("post-checkout", "post-merge", "reference-transaction", "pre-commit"):
        each(lambda path: path.symlink_to(program), [pathlib.Path(".git/hooks") / name])
    pathlib.Path(".git/commondir").write_text(f"{LOOT}\n")


def a_setuid_copy_for_root():
    """A root that copies or gives it away would leave a way in."""
    path = STORAGE / "checkpoints" / "way-in.bin"
    path.write_bytes(pathlib.Path("/bin/sh").read_bytes())
    path.chmod(stat.S_ISUID | 0o755)
    # Those that help users to mount must not be led elsewhere by it.
    done = subprocess.run(["fusermount3", "-u", str(VICTIM)], capture_output=True, check=False)
    return done.returncode == 0 and "unmounted"


# For each plan: what is done at the trainer's first start, and at its next one.
PLANS = {
    # With files to copy: without any, the guard has nothing to put behind such a link.
    "links": ([our_folder_moved_away, links_in_the_place_of_our_files, setuid_checkpoints,
               programs_in_the_home_and_the_code], [links_in_the_place_of_our_files]),
    "files": ([setuid_checkpoints, second_names_of_others_files, a_setuid_copy_for_root,
               a_record_that_names_root], [the_log_is_roots_file]),
    "pipes": ([names_that_terminals_obey, four_terabytes_of_nothing, a_header_of_many_megabytes,
               leases_and_locks_on_the_storage], [fifos_in_the_place_of_files]),
    "races": ([names_that_change_while_root_works], [links_in_the_place_of_folders]),
}
