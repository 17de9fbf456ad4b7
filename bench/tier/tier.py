#!/usr/bin/python3
"""A checkpoint folder of 1 GiB to S3 and back, over TLS: `spotter tier`, which the guard and the
supervisor call, beside what people use, from and to the same folders in memory.

  upload   spotter, with each file's sum looked at, against `curl -T` of one file after the other
           (presigned) and `aws s3 cp --recursive`
  restore  into an empty storage, each file's sum compared, against `aws s3 cp --recursive`
  training on a processor that it takes whole, and on which the guard's copy (`spotter guard
           --copies`) goes up meanwhile, against the half seconds in which the copy stands still;
           S3 has another processor

One emulated S3 for all of them on this machine. Interleaved rounds, medians of the wall time; the
figures of CPU are those of the whole process. Exit status 1: a target is missed.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pipe"))
import peers  # noqa: E402
import pipe  # noqa: E402
import server as servers  # noqa: E402

FILES, BYTES = 4, 256 << 20
PARTS = ("copies", "training")
SLOWED = 0.98  # of the steps a second that it makes alone
TRAINING = """
import mmap, sys
with open(sys.argv[1], "r+b") as file:
    steps = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")
while True:
    sum(range(3000))
    steps[0] += 1
"""
WINDOW = 0.5  # seconds that the copy runs, then stands still: the machine's own pace changes slowly
WINDOWS = 81  # of each round
TARGETS = {"upload": ("curl -T", 1.1), "restore": ("aws s3 cp", 1 / 1.5)}  # of the peer's time
NAME = "checkpoint-1"


def storage(folder):
    for each in ("ckpt", ".spotter"):
        (folder / each).mkdir(parents=True)
    return folder


def guarding(mount):
    return [peers.BIN / "spotter", "guard", "--mount", mount, "--directory", "ckpt", "--folders",
            "checkpoint-*", "--socket", mount / "agent"]


def recorded(mount):
    """Writes a checkpoint there as a trainer would, and has the guard record it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(str(mount / "agent"))
        guard = subprocess.Popen(guarding(mount), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True, start_new_session=True)
        try:
            guard.stdout.readline()
            (mount / "ckpt" / NAME).mkdir()
            for i in range(FILES):
                with open(mount / "ckpt" / NAME / f"part-{i}", "wb") as file:
                    for _ in range(BYTES >> 26):
                        file.write(os.urandom(1 << 26))
            agent.settimeout(600)
            while "X_SPOTTER_CHECKPOINT_STEP=1" not in agent.recv(65536).decode():
                pass
        finally:
            guard.communicate("end\n")
            (mount / "agent").unlink()


def tier(verb, mount, prefix, *more):
    return [peers.BIN / "spotter", "tier", verb, "--mount", mount, "--directory", "ckpt",
            "--folders", "checkpoint-*", "--to", f"s3://bucket/{prefix}/", "--job", "bench", *more]


def aws(*words):
    return ["aws", "--endpoint-url", os.environ["AWS_ENDPOINT_URL"], "s3", "cp", "--quiet",
            "--recursive", *words]


def presigned(key):
    import boto3
    from botocore.config import Config
    s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                      config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))
    return s3.generate_presigned_url("put_object", Params={"Bucket": "bucket", "Key": key})


def uploads(mount, number):
    """name -> command, each to a place of this round's own."""
    files = sorted((mount / "ckpt" / NAME).iterdir())
    curls = [word for file in files
             for word in ("-T", file, presigned(f"curl{number}/{file.name}"))]
    found = {"spotter": tier("copy", mount, f"spotter{number}", "--as", "root"),
             "curl -T": ["curl", "-sf", *curls]}
    if shutil.which("aws"):
        found["aws s3 cp"] = aws(mount / "ckpt" / NAME, f"s3://bucket/aws{number}/")
    return found


def restores(scratch, bucket, number):
    source = next((bucket / "spotter0" / NAME).iterdir())
    found = {"spotter": tier("fetch", storage(scratch / f"spotter{number}"), "spotter0", "--",
                             "true")}
    if shutil.which("aws"):
        found["aws s3 cp"] = aws(f"s3://bucket/{source.relative_to(bucket)}/",
                                 scratch / f"aws{number}")
    return found


def beneath(process):
    """It and all its descendants."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, rest = stat.read_text().split(" ", 1)
            children.setdefault(int(rest.rsplit(")", 1)[1].split()[1]), []).append(int(pid))
    found = [process]
    for each in found:
        found += children.get(each, [])
    return found


@contextlib.contextmanager
def trainer(scratch):
    """A training; what it yields are the steps that it has made."""
    (scratch / "steps").write_bytes(bytes(8))
    training = subprocess.Popen([sys.executable, "-c", TRAINING, scratch / "steps"])
    try:
        with open(scratch / "steps", "rb") as file:
            yield lambda: int.from_bytes(os.pread(file.fileno(), 8, 0), sys.byteorder)
    finally:
        training.kill()
        training.wait()


def paces(guard, steps, count):
    """Steps a second of each window, in turn with the copy and without."""
    found = []
    for number in range(count):
        for process in beneath(guard):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP if number % 2 else signal.SIGCONT)
        at, begun = steps(), time.monotonic()
        time.sleep(WINDOW)
        found.append((steps() - at) / (time.monotonic() - begun))
    return found


def slowed(server, mount, rounds):
    """What the training makes in a window beside the copy, of what it makes in the windows before
    and after that."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not others:
        print("training: left out, there is one processor")
        return {}, []
    for process in server.processes():
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), others)
    os.sched_setaffinity(0, [first])
    ratios = []
    with trainer(mount.parent) as steps, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent:
        agent.bind(str(mount / "agent"))
        for number in range(rounds):
            guard = subprocess.Popen(
                [*guarding(mount), "--copies", f"s3://bucket/slow{number}/", "--job", "bench",
                 "--user", "root"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            try:
                guard.stdout.readline()
                found = paces(guard.pid, steps, WINDOWS)
                if len(beneath(guard.pid)) == 1:
                    raise RuntimeError("the copy ended before the last window")
            finally:
                for process in reversed(beneath(guard.pid)):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)
                guard.wait()
            ratios += [2 * found[here] / (found[here - 1] + found[here + 1])
                       for here in range(2, len(found) - 1, 2)]
    ratio = statistics.mean(ratios)
    error = statistics.stdev(ratios) / len(ratios) ** 0.5
    print(f"training  makes {ratio:.3f} of its steps beside an upload (standard error {error:.3f}, "
          f"{len(ratios)} windows of {WINDOW} s)")
    missed = ratio < SLOWED
    return {"ratio": ratio, "error": error, "windows": len(ratios)}, (
        [f"training: {ratio:.3f} of its steps; target {SLOWED}"] if missed else [])


def compare(what, commands_of, clear, rounds):
    taken = {}
    for number in range(rounds):
        for name, command in commands_of(number).items():
            taken.setdefault(name, []).append(pipe.measure(command, os.environ))
            clear(number)
    figures = {name: {"seconds": statistics.median(each[0] for each in times),
                      "CPU s/GB": statistics.median(each[1] for each in times)
                      / (FILES * BYTES / 1e9),
                      "MiB": max(each[2] for each in times)} for name, times in taken.items()}
    ours = figures["spotter"]["seconds"]
    for name, each in figures.items():
        print(f"{what:>8}  {name:10} {each['seconds']:6.2f} s {each['CPU s/GB']:6.2f} CPU s/GB "
              f"{each['MiB']:5.0f} MiB  {ours / each['seconds']:5.2f} of its time", flush=True)
    peer, target = TARGETS[what]
    if peer in figures and ours > target * figures[peer]["seconds"]:
        return figures, [f"{what}: {ours / figures[peer]['seconds']:.2f} x the time of {peer}; "
                         f"target {target:.2f}"]
    return figures, []


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder and the server go, too
    figures, missed = {}, []
    with tempfile.TemporaryDirectory(prefix="spotter-tier-", dir="/dev/shm") as folder:
        scratch = pathlib.Path(folder) / "scratch"
        mount = storage(scratch / "mount")
        recorded(mount)
        with pipe.serving(lambda where: servers.Emulator(where, True), folder) as server:
            os.environ.update(peers.environment(server, scratch))

            def clear(number, kept=0):
                """All but the first copy of ours, which is what is restored."""
                for name in (f"curl{number}", f"aws{number}", f"spotter{number}"):
                    if name != f"spotter{kept}":
                        shutil.rmtree(server.bucket / name, ignore_errors=True)
                    shutil.rmtree(scratch / name, ignore_errors=True)

            for what, commands in (
                    ("upload", lambda number: uploads(mount, number)),
                    ("restore", lambda number: restores(scratch, server.bucket, number))):
                if "copies" in arguments.only:
                    figures[what], misses = compare(what, commands, clear, arguments.rounds)
                    missed += misses
            if "training" in arguments.only:
                figures["training"], misses = slowed(server, mount, arguments.rounds)
                missed += misses
    return pipe.conclude(figures, missed, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
