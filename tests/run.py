#!/usr/bin/python3
"""Sets up, builds and tests; scripts/test is its front. See HELP."""

import argparse
import collections
import ctypes
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import emulator  # noqa: E402

HELP = """\
Usage: scripts/test [--repeat N] [--load N] [--json FILE] [all | NAME...]
Sets up, builds and tests; a test is one entry of CTest. Without a NAME: the gate, which looks at
every promise of README once, in at most 20 minutes on two quiet cores without a compiler cache:
the parts check, gate and unit, seeds.
  all    all that there is, some hours: each part, in this order. NAME is one of them,
{parts}
  NAME   or else a pattern: of the entries those whose name has it (e2e_notice, ^fuzz_s3)
  --repeat N   N times; what fails once has failed, and is named with how often it did
  --load N     beside N processes that do nothing but compute
  --json FILE  the figures of the table at the end
Ends with the time of each part, the ten slowest entries and "N passed, N failed, N skipped". Exit
status 0 only when none failed. Ctrl-C and SIGTERM end all that it started, and leave nothing."""

CORES = len(os.sched_getaffinity(0))
# A part: what it is, its flavour and the targets built for it; what selects its entries; how many
# of them run side by side. What it needs beside scripts/setup, and where that is made.
Part = collections.namedtuple("Part", "text select flavour targets jobs needs", defaults=(
    "release", (), 2 * CORES, ()))
STORIES = 6 * CORES  # they mostly wait
LABELS = "e2e|adversary|page|machine|frameworks|laptop|check|seeds|fuzz|long|made"
PARTS = {
    "check": Part("what the compiler does not: layers, words, tidy, ... (scripts/check)",
                  ["-L", "^check$"], jobs=CORES),
    "unit": Part("GoogleTests, transcripts, programs asked one thing at a time",
                 ["-LE", f"^({LABELS})$"]),
    "long": Part("more of these, which the gate leaves out: tests/README.md says why each",
                 ["-L", "^long$"], targets=("all", "extra")),
    "seeds": Part("5,000 fresh lives of each kind in the simulators; a broken promise names its "
                  "seed", ["-L", "^seeds$"], jobs=1),
    "gate": Part("the stories of the gate, which tests/gate.txt names", ["-L", "^gate$"],
                 jobs=STORIES, needs=(["scripts/setup", "--page"],)),
    "e2e": Part("all stories of the real binaries against spotter-emulator, recorded",
                ["-L", "^e2e$"], jobs=STORIES),
    "shapes": Part("what they asked of the emulator and its answers, by botocore's models", []),
    "adversary": Part("trainers that attack the machine they run on", ["-L", "^adversary$"],
                      jobs=3),
    "page": Part("the live page and a report's document in headless Chromium", ["-L", "^page$"],
                 jobs=2, needs=(["scripts/setup", "--page"],)),
    "laptop": Part("an empty account, and the README's commands as they stand",
                   ["-L", "^laptop$"]),
    "asan": Part("GoogleTests and simulators under AddressSanitizer and UndefinedBehaviorSanitizer",
                 ["-L", "^sanitized$"], "asan", ["sanitized"]),
    "asan-e2e": Part("the stories under these", ["-L", "^e2e$"], "asan", ["all"], 4),
    "fuzz": Part("each fuzzer's 20,000 inputs; others by hand: scripts/fuzz NAME SECONDS",
                 ["-L", "^fuzz$"], "fuzz", ["fuzz"]),
    "machine": Part("virtual machines that qemu emulates: NFS, want of memory, and instances",
                    ["-L", "^machine$"], jobs=2, needs=(["scripts/setup", "--machine"],)),
    "frameworks": Part("today's frameworks and PyTorch 2.6, killed as they save, and gangs",
                       ["-L", "^frameworks$"], jobs=2, needs=(["scripts/frameworks"],)),
}
GATE = ("check", "gate", "unit", "seeds")
ALL = tuple(name for name in PARTS if name != "gate")


class Interrupted(BaseException):
    pass


def interrupt(number, _):
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted(signal.Signals(number).name)


def descendants(depth=None):
    """Of this process, orphans among them: it is their reaper. With a depth those near to it."""
    children = collections.defaultdict(list)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            state, parent = stat.rpartition(") ")[2].split()[:2]
            if state != "Z":
                children[int(parent)].append(int(entry))
    found, level = [], [os.getpid()]
    while level and depth != 0:
        level = [child for parent in level for child in children[parent]]
        found += level
        depth = depth and depth - 1
    return found


def reap(*processes):
    """What has ended, orphans too. `processes` are waited for: each has its returncode then, when
    it `ended`, and its and its children's CPU seconds, `cpu`."""
    waiting = {process.pid: process for process in processes}
    try:
        while True:
            pid, status, used = os.wait4(-1, 0 if waiting else os.WNOHANG)
            if process := waiting.pop(pid, None):
                process.returncode = os.waitstatus_to_exitcode(status)
                process.ended = time.monotonic()
                process.cpu = used.ru_utime + used.ru_stime
            if not pid or (processes and not waiting):
                return
    except ChildProcessError:
        return


def end_all(seconds=30):
    """Ends all that was started. Those that we started, and their children, are asked to: a build
    removes what is half done, and an emulator ends its world once its story has ended. Then the
    others are killed."""
    for depth, number in ((2, signal.SIGTERM), (None, signal.SIGKILL)):
        for pid in descendants(depth):
            try:
                os.kill(pid, number)
            except OSError:
                pass
        end = time.monotonic() + seconds
        while descendants() and time.monotonic() < end:
            reap()
            time.sleep(0.1)
    reap()


def trainers_groups():
    """Groups of processes that agents without systemd make for their trainers."""
    return {group for place in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")
            for group in glob.glob(f"{place}/spotter-trainer-*")}


def remove_traces(place, groups):
    """What killed worlds below `place`, and beside it, could not remove. `groups`: those that were
    there before."""
    places = [place, *glob.glob(f"{place}-*")]
    for each in places:
        emulator.sweep(each)
    for group in trainers_groups() - groups:
        try:
            os.rmdir(group)
        except OSError:
            pass  # somebody else's, at work
    for use in glob.glob("/run/spotter-mounts/" + str(place).replace("/", "%2F") + "%2F*"):
        shutil.rmtree(use, ignore_errors=True)
    for each in places:
        shutil.rmtree(each, ignore_errors=True)


class Run:
    """Its parts one after the other, and what became of their entries."""

    def __init__(self, options, place):
        self.options, self.place, self.begun = options, place, time.monotonic()
        self.table, self.entries = [], []  # (part, minutes, CPU minutes, passed, failed, skipped)
        self.failures = collections.Counter()
        self.made = []  # once what stories share is made: not again
        self.recorded = place / "recorded"
        self.recorded.mkdir()
        self.environment = {
            # Trainers of the stories run in an environment of their own, what they are compared
            # with in ours: other kernels of OpenBLAS compute other last bits.
            **{name: value for name, value in os.environ.items() if "OPENBLAS_" not in name},
            "SPOTTER_TEST_DIRECTORY": str(place), "TMPDIR": str(place / "tmp")}

    def start(self, *words, output=None, **more):
        """In a session of its own: a Ctrl-C is ours to handle."""
        process = subprocess.Popen(words, cwd=ROOT, start_new_session=True, stdout=output,
                                   stderr=output and subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env={**self.environment, **more})
        process.began = time.monotonic()
        return process

    def call(self, *words):
        process = self.start(*words)
        reap(process)
        return process

    def count(self, name, process, counts):
        """A row of the table."""
        self.table.append((name, (process.ended - process.began) / 60, process.cpu / 60, *counts))

    def succeeds(self, name, failure, *words):
        """Runs a part that is one program."""
        print(f"== {name}", flush=True)
        process = self.call(*words)
        failed = int(process.returncode != 0)
        if failed:
            self.failures[failure] += 1
        is_test = int(not name.startswith("build"))
        self.count(name, process, [is_test * (1 - failed), failed, 0])
        return not failed

    def ctest(self, name, part, output):
        """Starts a part. CTest keeps notes: each run has its own place for them."""
        place = self.place / name.replace(":", "")
        place.mkdir(exist_ok=True)
        (place / "CTestTestfile.cmake").write_text(f'subdirs("{ROOT}/build/{part.flavour}")\n')
        (place / "report.xml").unlink(missing_ok=True)
        more = {"SPOTTER_RECORD": str(self.recorded)} if name == "e2e" else {}
        # An hour ends what hangs; how slow a machine may be is no test's business.
        return self.start("ctest", "--test-dir", str(place), "--output-on-failure",
                          "--timeout", "3600",
                          "-j", str(part.jobs), "--no-tests=error",
                          "--output-junit", str(place / "report.xml"),
                          *part.select, *self.made, output=output, **more)

    def side_by_side(self, parts):
        """Runs parts, name -> part. The first is seen while it runs, the others at the end."""
        print("==", " and ".join(parts), flush=True)
        for words in [words for part in parts.values() for words in part.needs]:
            self.call(*words)  # what is missing is a test's reason to be skipped
        running = []
        for name, part in parts.items():
            output = (self.place / f"{name}.log").open("w+b") if running else None
            running.append((name, self.ctest(name, part, output), output))
        reap(*(process for _, process, _ in running))
        for name, process, output in running:
            if output:
                output.seek(0)
                print(output.read().decode(errors="replace"), flush=True)
                output.close()
            counts = self.tally(self.place / name.replace(":", "") / "report.xml")
            if process.returncode and not counts[1]:
                self.failures[f"CTest, of {name}"] += 1
                counts[1] = 1
            self.count(name, process, counts)
        if remains := self.remains():
            print("left behind:", *remains, sep="\n  ")
            self.failures["left behind by " + ", ".join(parts)] += 1
            self.table.append(("left behind", 0, 0, 0, 1, 0))
        if "e2e" in parts or "gate" in parts:
            self.made = ["--fixture-exclude-setup", "mnist|packages|root"]

    def tally(self, report):
        counts = [0, 0, 0]
        try:
            cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
        except (OSError, xml.etree.ElementTree.ParseError):
            cases = []
        if not cases:
            self.failures["no report of CTest"] += 1
            return [0, 1, 0]
        for case in cases:
            name, status = case.get("name"), case.get("status")
            self.entries.append((float(case.get("time") or 0), name))
            if status == "fail":
                self.failures[name] += 1
            elif status != "run":
                text = (case.findtext("system-out") or "").strip().splitlines()
                reason = next((line for line in text if "skip" in line.lower()), status)
                print(f"skipped: {name}: {reason}")
            counts[("run", "fail").index(status) if status in ("run", "fail") else 2] += 1
        return counts

    def remains(self):
        """Of what has run; the load beside it does not count."""
        end = time.monotonic() + 10
        while True:
            reap()
            found = [f"process {pid}: {words_of(pid)}" for pid in descendants()
                     if pid not in self.options.busy]
            found += emulator.leftovers(self.place, patience=0)
            if not found or time.monotonic() > end:
                return found
            time.sleep(0.2)

    def all_of(self, names):
        """The parts and patterns of this run, each after the build that it needs. GoogleTests
        compute while stories wait."""
        built, groups = set(), []
        for name, part in chosen(names).items():
            if name == "unit" and groups and "gate" in groups[-1]:
                groups[-1][name] = part
            else:
                groups.append({name: part})
        for parts in groups:
            name, part = next(iter(parts.items()))
            if name == "shapes":
                records = [str(file) for file in self.recorded.glob("*.jsonl")]
                self.succeeds(name, "shapes, which come after e2e", "/usr/bin/python3",
                              "tests/shapes/judge.py", *(records or ["none"]))
                continue
            key = (part.flavour, *part.targets)
            if key not in built:
                built.add(key)
                if not self.succeeds(f"build {part.flavour}", f"the {part.flavour} build",
                                     "scripts/build", part.flavour, *part.targets):
                    continue
            self.side_by_side(parts)

    def report(self):
        print(f"\n{'part':15} {'minutes':>7} {'CPU':>6} {'passed':>7} {'failed':>7} {'skipped':>8}")
        for name, minutes, cpu, passed, failed, skipped in self.table:
            row = f"{name:15} {minutes:7.1f} {cpu:6.1f}"
            print(row if name.startswith("build") else
                  f"{row} {passed:7} {failed:7} {skipped:8}")
        # Parts run side by side: their minutes are more than have passed.
        minutes, cpu = (time.monotonic() - self.begun) / 60, sum(row[2] for row in self.table)
        print(f"{'together':15} {minutes:7.1f} {cpu:6.1f}")
        slowest = sorted(self.entries, reverse=True)[:10]
        print("the slowest entries:", *(f"{seconds:7.1f} s  {name}" for seconds, name in slowest),
              sep="\n")
        for name, times in self.failures.items():
            print(f"FAILED: {name}" + (f" ({times} times)" if times > 1 else ""))
        passed, failed, skipped = (sum(row[column] for row in self.table) for column in (3, 4, 5))
        if self.options.json:
            columns = ("part", "minutes", "cpu_minutes", "passed", "failed", "skipped")
            self.options.json.write_text(json.dumps(
                {"minutes": minutes, "parts": [dict(zip(columns, row)) for row in self.table],
                 "slowest": slowest,
                 "failures": self.failures}, indent=2) + "\n")
        print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
        return 1 if failed else 0


def chosen(names):
    """name -> part: those that are named, then all patterns together. Fuzzers have a build of their
    own."""
    parts = {name: PARTS[name] for name in names if name in PARTS}
    for name, flavour, targets, is_its in (
            ("by name", "release", (), lambda pattern: "fuzz_" not in pattern),
            ("by name: fuzz", "fuzz", ("fuzz",), lambda pattern: "fuzz_" in pattern)):
        if patterns := [each for each in names if each not in PARTS and is_its(each)]:
            parts[name] = Part("", ["-R", "|".join(patterns)], flavour, targets, STORIES)
    return parts


def words_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(
            errors="replace")
    except OSError:
        return "(ended)"


def run(options, place):
    tests = Run(options, place)
    if tests.call("scripts/setup").returncode:
        return 1
    names = ALL if options.names == ["all"] else options.names or GATE
    busy = [subprocess.Popen(["/usr/bin/python3", "-c", "while True: pass"])
            for _ in range(options.load)]
    options.busy = {process.pid for process in busy}
    for _ in range(options.repeat):
        tests.all_of(names)
    for process in busy:
        process.kill()
        process.wait()
    return tests.report()


def main():
    parts = "\n".join(f"    {name:10} {part.text}" for name, part in PARTS.items())
    parser = argparse.ArgumentParser(add_help=False, usage=HELP.format(parts=parts)[7:])
    parser.add_argument("names", nargs="*")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--load", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    if options.help:
        print(HELP.format(parts=parts))
        return 0
    if "all" in options.names and len(options.names) > 1:
        parser.error("all: by itself")
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    # Short: sockets lie deep below it. The unprivileged trainer has to reach it.
    place = pathlib.Path(tempfile.mkdtemp(prefix="st-", dir="/var/tmp"))
    groups = trainers_groups()
    try:
        place.chmod(0o755)
        (place / "tmp").mkdir()
        (place / "tmp").chmod(0o1777)
        return run(options, place)
    except Interrupted as signal_name:
        print(f"\n{signal_name}: ends what runs", flush=True)
        return 130
    finally:
        end_all()
        remove_traces(place, groups)


if __name__ == "__main__":
    sys.exit(main())
