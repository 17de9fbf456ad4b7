"""One spotter-emulator in a temporary directory: started, asked, stopped, without remains."""

import glob
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

import ec2

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = ("spotter", "spotter-emulator", "spotter-train", "spotter-fastfile",
            "spotter-emulator-cold")


# What gives a secret away wherever it stands: the emulator's keys, session and metadata tokens, and
# what makes a URL work without a key.
SECRETS = re.compile(rb"emulator-(secret|[0-9a-f]{40})|wJalrXUtnFEMI|IQoJb3JpZ2luX2Vj"
                     rb"|AQAEA[0-9a-f]{20}|X-Amz-Signature=[0-9a-f]"
                     rb"|AWS_CONTAINER_AUTHORIZATION_TOKEN=.")


# A role without a policy: of its own accord the emulator lets such a one do everything.
NOTHING = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Effect": "Deny", "Action": "*", "Resource": "*"}]})

# Of a world's workplace: what nobody wrote there in its time, such as a package's documents.
INSTALLED = ("bin", "cloud", "own", "package")


class Failed(Exception):
    """A promise that was not kept, in words for a person."""


# Seconds, for whatever is waited for: no test judges how long something takes, and a machine may be
# slow and busy. What never comes ends a test all the same.
LIMIT = 400


def wait(what, condition, seconds=LIMIT, every=0.1):
    """The first true value of condition(); `what` names it when it never came."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited {seconds:g} s in vain for: {what}")
        time.sleep(every)


def tail(path, lines=25):
    try:
        text = pathlib.Path(path).read_text(errors="replace").splitlines()
    except OSError as error:
        return f"({error})"
    # Our own questions to EC2 would push out what happened.
    return "\n".join([line for line in text if "[info] user Describe" not in line][-lines:])


def parsed_status(text):
    try:
        return {key: value for key, value in json.loads(text).items() if value is not None}
    except ValueError:
        return {}


def read_status(folder):
    try:
        return parsed_status((folder / "status.json").read_text())
    except OSError:
        return {}


def free_shells():
    """A login shell that a story killed may have held the lock of this machine's pyenv, for which
    each later one waits a minute. Who holds it needs less than a second."""
    lock = pathlib.Path.home() / ".pyenv/shims/.pyenv-shim"
    try:
        if time.time() - lock.stat().st_mtime > 10:
            lock.unlink()
    except OSError:
        pass  # there is none, or it was removed


class Emulator:
    """`directory` is the emulator's own; `workplace` around it holds what an image would: bin/."""

    def __init__(self, binaries, name="e2e", mode="auto", zones=("us-west-2a", "us-west-2b"),
                 seed=1, options=()):
        parent = os.environ.get("SPOTTER_TEST_DIRECTORY") or "/var/tmp"
        self.workplace = pathlib.Path(tempfile.mkdtemp(prefix=f"spotter-{name[:8]}-", dir=parent))
        self.workplace.chmod(0o755)  # the unprivileged trainer has to reach it
        self.shared = self.workplace  # what instances see of it, at the same path
        self.directory = self.workplace / "world"
        self.zones, self.process, self.mode = list(zones), None, mode
        self.policies = 0
        self.roles_not_made = ()  # of those that `spotter iam roles` makes
        self.more_policies = []  # of the instances: what `spotter iam` prints for another job
        try:
            self.bin = self._install(pathlib.Path(binaries))
            self._start(["--mode", mode, "--zones", ",".join(zones), "--seed", str(seed),
                         *options])
        except BaseException:
            self.close()
            raise

    def _install(self, binaries):
        """Binaries where the unprivileged user may read them, which a build folder may not be."""
        target = self.workplace / "bin"
        target.mkdir()
        for name in BINARIES:
            if (binaries / name).exists():
                shutil.copy(binaries / name, target / name)
        for name in BINARIES[:2]:
            if not (target / name).exists():
                raise Failed(f"{binaries / name} is missing: run scripts/build")
        return target

    def _start(self, arguments):
        self.directory.mkdir()
        self.arguments = arguments
        self.serve()

    def serve(self):
        """Starts it, or starts it again in its folder, which it clears."""
        free_shells()
        self.log = self.workplace / "emulator.out"
        with open(self.log, "wb") as log:
            # Its own session: a Ctrl-C is ours to handle. It ends when its story is killed.
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", self.bin / "spotter-emulator", "serve",
                 "--directory", self.directory, "--api", "127.0.0.1:0",
                 "--metadata", "127.0.0.1:0", *self.launched(), *self.arguments, *recording()],
                # An image's programs are found by name.
                env={**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        facts = self.directory / "emulator.json"

        def ready():
            if self.process.poll() is not None:
                raise Failed(f"spotter-emulator ended with {self.process.returncode}:\n"
                             + tail(self.log))
            try:
                return json.loads(facts.read_text())
            except (OSError, ValueError):
                return None
        found = wait("spotter-emulator to be ready", ready)
        self.api, self.mode = found["api"], found.get("mode", self.mode)
        self.secret = ec2.secret_of(self.directory)
        self.ec2 = ec2.Client(self.api, self.secret)

    def launched(self):
        """What instances that are processes may: an ordinary user's see what our stories share."""
        return [] if os.geteuid() == 0 else ["--bind", self.workplace, "--bind", ROOT]

    # What the emulator is asked to do

    def control(self, *words):
        done = subprocess.run([self.bin / "spotter-emulator", "--api", self.ec2.endpoint, *words],
                              cwd=self.directory,  # where its certificate is named
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT, check=False)
        if done.returncode:
            raise Failed(f"spotter-emulator {' '.join(map(str, words))}: "
                         f"{done.stderr or done.stdout}")
        return done.stdout

    def state(self):
        return json.loads(self.control("state", "--json"))

    def allow_nothing(self):
        """To the instances: at AWS a role may nothing before it has a policy."""
        nothing = self.workplace / "nothing.json"
        nothing.write_text(NOTHING)
        self.control("policy", "instance", nothing)

    def allow_only(self, job_text):
        """From now on each role may do what `spotter iam roles` gives it for this job, and the user
        `launcher` what `spotter iam launcher` prints; nothing else. Gives back the former's
        commands: [("put-role-policy", its input)]. A job that is wrong has no policies, and its
        agent ends before it asks for anything."""
        self.policies += 1
        folder = self.workplace / f"policies-{self.policies}"
        folder.mkdir()
        (folder / "job.yaml").write_text(job_text)
        nothing = folder / "nothing.json"
        nothing.write_text(NOTHING)
        roles = {}
        printed = self._printed("roles", folder)
        for name, value in printed:
            if name == "create-role":
                roles[value["RoleName"]] = []
            elif name == "put-role-policy":
                file = folder / f"{value['RoleName']}.{value['PolicyName']}.json"
                file.write_text(value["PolicyDocument"])
                roles[value["RoleName"]].append(file)
        for role, files in roles.items():
            if role == ec2.ROLE:
                self.control("policy", "instance", *files, *self.more_policies)
            elif role not in self.roles_not_made:
                self.control("policy", f"role/{role}", *(files or [nothing]))
        if roles:
            file = folder / "launcher.json"
            file.write_text(self._iam("launcher", folder, most=1).stdout)
            self.control("policy", "launcher", file)
        return printed

    def _iam(self, document, folder, *options, most=0):
        done = subprocess.run(
            [self.bin / "spotter", "iam", document, folder / "job.yaml", "--account", ec2.ACCOUNT,
             "--region", ec2.REGION, "--role", ec2.ROLE, *options],
            env={**os.environ, "SPOTTER_MOUNT": "/mnt/spotter"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=LIMIT, check=False)
        if done.returncode not in (most, 0, 2):
            raise Failed(f"spotter iam {document}: {done.stderr}")
        return done

    def _printed(self, document, folder):
        words = shlex.split(self._iam(document, folder).stdout, comments=True)
        return [(name, json.loads(value)) for _, _, name, _, value in zip(*[iter(words)] * 5)]

    def launcher(self):
        """The environment of a person who may do what `spotter iam launcher` prints."""
        return {"PATH": os.environ["PATH"], "HOME": str(self.workplace),
                "AWS_ACCESS_KEY_ID": ec2.LAUNCHER, "AWS_SECRET_ACCESS_KEY": self.secret,
                "AWS_REGION": ec2.REGION, "AWS_ENDPOINT_URL": self.ec2.endpoint}

    def interrupt(self, instance, seconds, action="terminate"):
        self.control("interrupt", instance, "--in", f"{seconds}s", "--action", action)

    def kill(self, instance):
        self.control("kill", instance)

    # What an instance shows

    def instance(self, instance):
        return self.directory / "instances" / instance

    def status(self, instance):
        """What the agent says of itself, without what it does not know; {} before it speaks."""
        return read_status(self.instance(instance) / "run")

    def console(self, instance):
        try:
            return (self.instance(instance) / "console.log").read_text(errors="replace")
        except OSError:
            return ""

    def logs(self, lines=25):
        """The last words of everybody, for a failure's report."""
        files = [self.log, self.directory / "emulator.log",
                 *sorted(glob.glob(f"{self.directory}/instances/*/console.log")),
                 *sorted(glob.glob(f"{self.directory}/instances/*/run/trainer.log"))]
        shown = [path for path in files if os.path.exists(path) and os.path.getsize(path)]
        return "\n".join(f"--- {os.path.relpath(path, self.workplace)}\n{tail(path, lines)}"
                         for path in shown)

    # The end

    def stop(self):
        """The world ends: afterwards there are no instances, only the volumes' files."""
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failed(f"spotter-emulator did not stop within {LIMIT} s") from None

    def close(self, keep=False):
        """Stops everything and returns what was left behind: an empty list, or the test fails."""
        try:
            self.stop()
            remains = []
        except Failed as failure:
            remains = [str(failure)]
        remains += leftovers(self.workplace)
        sweep(self.workplace)
        remains += secrets(self.workplace)
        if not keep:
            shutil.rmtree(self.workplace, ignore_errors=True)
            if self.workplace.exists():
                remains.append(f"{self.workplace} could not be removed")
        return remains


def secrets(path):
    """Where something that the product or the emulator wrote shows a secret."""
    found = []
    for file in sorted(path.rglob("*")):
        installed = file.relative_to(path).parts[0] in INSTALLED
        if installed or not file.is_file() or file.is_symlink():
            continue
        if file.stat().st_size > 1 << 24:  # a volume
            continue
        shown = SECRETS.search(file.read_bytes())
        if shown:
            found.append(f"a secret is shown in {file}: {shown[0].decode()}...")
    return found


def processes(path):
    """(pid, words) of the processes that have to do with `path`; ourselves left out."""
    needle, found = os.fsencode(str(path)), []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) in (os.getpid(), os.getppid()):
            continue
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read()
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read()
            folder = os.fsencode(os.readlink(f"/proc/{entry}/cwd"))
        except OSError:
            continue
        if needle in words or needle in environment or folder.startswith(needle):
            found.append((int(entry), words.replace(b"\0", b" ").decode(errors="replace")))
    return found


def mounts(path):
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line.split()[4] for line in file if line.split()[4].startswith(f"{path}/")]


def loops(path):
    found = []
    for file in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(file, encoding="utf-8") as backing:
                if backing.read().startswith(f"{path}/"):
                    found.append("/dev/" + file.split("/")[3])
        except OSError:
            pass
    return found


def groups(path):
    """The emulator's groups of processes (tests/emulator/control_group.hpp)."""
    name = "spotter" + str(path).replace("/", "+")
    return [group for place in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
            for group in glob.glob(f"{place}/{glob.escape(name)}+*")]


def recording():
    """With $SPOTTER_RECORD, a folder, all that is asked is recorded there (scripts/test shapes)."""
    folder = os.environ.get("SPOTTER_RECORD")
    return ["--record", f"{folder}/{time.time_ns()}-{os.getpid()}.jsonl"] if folder else []


def own_place(test, name):
    """A folder for a test without an emulator beside it; nothing of it may be left at its end."""
    place = pathlib.Path(tempfile.mkdtemp(
        prefix=f"spotter-{name}-", dir=os.environ.get("SPOTTER_TEST_DIRECTORY") or "/var/tmp"))

    def end():
        remains = leftovers(place)
        sweep(place)
        shutil.rmtree(place, ignore_errors=True)
        test.assertEqual(remains, [], "left behind")
    test.addCleanup(end)
    return place


def leftovers(path, patience=60, with_groups=True):
    """What still runs, is mounted or looped below `path`. The kernel releases it late."""
    end = time.monotonic() + patience
    while True:
        remains = [f"process {pid}: {words}" for pid, words in processes(path)]
        remains += [f"mount {mount}" for mount in mounts(path)]
        remains += [f"loop device {loop}" for loop in loops(path)]
        remains += [f"group {group}" for group in groups(path) if with_groups]
        if not remains or time.monotonic() > end:
            return remains
        time.sleep(0.1)


def place_beside():
    """A folder beside that of the run of all tests, which removes it, too: below that one the path
    of a socket would be longer than 107 bytes."""
    run = pathlib.Path(os.environ.get("SPOTTER_TEST_DIRECTORY") or "/var/tmp/spotter")
    return tempfile.mkdtemp(prefix=f"{run.name}-", dir=run.parent)


def sweep(path):
    """Removes those remains, each by its own name: a failed test must not disturb the next."""
    for pid, _ in processes(path):
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    for mount in reversed(mounts(path)):
        subprocess.run(["umount", mount], check=False, capture_output=True)
    for loop in loops(path):
        subprocess.run(["losetup", "--detach", loop], check=False, capture_output=True)
    for group in groups(path):
        for folder, _, _ in os.walk(group, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                pass
