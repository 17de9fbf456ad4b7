"""A Slurm of this machine: a controller and two nodes of one core each, all below one folder."""

import os
import pathlib
import shutil
import socket
import subprocess

from emulator import wait

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
CONFIGURATION = """
ClusterName=spotter
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A task that was requeued waits for its credential's end: 120 s, unless set otherwise.
AuthInfo=socket={place}/munge.sock,cred_expire=5
CredType=cred/munge
SlurmctldPort={ports[0]}
StateSaveLocation={place}/state
SlurmctldPidFile={place}/slurmctld.pid
SlurmdPidFile={place}/slurmd-%n.pid
SlurmdSpoolDir={place}/spool-%n
SlurmctldLogFile={place}/slurmctld.log
SlurmdLogFile={place}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
MessageTimeout=100
KillWait=300
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 State=UNKNOWN
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 State=UNKNOWN
PartitionName=spot Nodes=n0,n1 Default=YES PriorityTier=1 State=UP
PartitionName=urgent Nodes=n0,n1 PriorityTier=2 State=UP
"""


def missing():
    """What is not installed here, if anything."""
    return [name for name in PROGRAMS if not _path(name)]


def _path(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Slurm:
    def __init__(self, place):
        self.place = pathlib.Path(place)
        for name in ("state", "spool-n0", "spool-n1"):
            (self.place / name).mkdir(parents=True)
        key = self.place / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        configuration = self.place / "slurm.conf"
        configuration.write_text(CONFIGURATION.format(
            place=self.place, host=socket.gethostname().split(".")[0], ports=_free_ports(3)))
        self.environment = {**os.environ, "SLURM_CONF": str(configuration)}
        self.daemons = []
        try:
            self._start("munged", "--foreground", "--force", f"--socket={self.place}/munge.sock",
                        f"--key-file={key}", f"--pid-file={self.place}/munged.pid",
                        f"--log-file={self.place}/munged.log", f"--seed-file={self.place}/seed")
            wait("munged", (self.place / "munge.sock").exists)
            self._start("slurmctld", "-D", "-f", configuration)
            for node in ("n0", "n1"):
                self._start("slurmd", "-D", "-N", node, "-f", configuration)
            wait("both nodes", lambda: self.ask("sinfo", "-h", "-o", "%D %t") == "2 idle")
        except BaseException:
            self.stop()
            raise

    def _start(self, name, *words):
        with open(self.place / "daemons.log", "ab") as output:
            self.daemons.append(subprocess.Popen(
                [_path(name), *map(str, words)], env=self.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True))

    def ask(self, *words, **environment):
        done = subprocess.run([str(word) for word in words], check=False, text=True, timeout=60,
                              capture_output=True, env={**self.environment, **environment},
                              cwd=self.place)
        return (done.stdout + done.stderr).strip()

    def states(self, job):
        """Of the array's tasks: index -> state. Those that are gone are not listed any more."""
        lines = self.ask("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%K %T").splitlines()
        return dict(line.split() for line in lines if len(line.split()) == 2)

    def logs(self):
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(self.place.glob("*.log")))

    def stop(self):
        subprocess.run([_path("scancel"), "--full", "--user", str(os.geteuid())], check=False,
                       env=self.environment, capture_output=True, timeout=30)
        if len(self.daemons) > 1:
            try:
                wait("the jobs' end", lambda: self.ask("squeue", "-h") == "")
            except Exception:  # pylint: disable=broad-except
                pass  # what is left is reported by the caller
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
