#!/usr/bin/python3
"""Sets up, builds and tests; scripts/test is its front. See HELP."""

import argparse
import collections
import ctypes
import glob
import json
import os
import pathlib
import resource
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
the parts check, unit, seeds, and of the stories those that tests/gate.txt names.
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
LABELS = "e2e|adversary|page|machine|frameworks|dayone|check|seeds|fuzz"
PARTS = {
    "check": Part("what the compiler does not: layers, words, tidy, ... (scripts/check)",
                  ["-L", "^check$"], jobs=CORES),
    "unit": Part("GoogleTests, transcripts, programs asked one thing at a time, and what the "
                 "stories share", ["-LE", f"^({LABELS}|long)$"], jobs=STORIES),
    "long": Part("more of these, which the gate leaves out: tests/README.md says why each",
                 ["-L", "^long$"], targets=("all", "extra")),
    "seeds": Part("5,000 fresh lives of each kind in the simulators; a broken promise names its "
                  "seed", ["-L", "^seeds$"], jobs=1),
    "gate": Part("the stories of the gate", ["-L", "^gate$"], jobs=STORIES,
                 needs=(["scripts/setup", "--page"],)),
    "e2e": Part("all stories of the real binaries against spotter-emulator, recorded",
                ["-L", "^e2e$"], jobs=STORIES),
    "shapes": Part("what they asked of the emulator and its answers, by botocore's models", []),
    "adversary": Part("trainers that attack the machine they run on", ["-L", "^adversary$"],
                      jobs=3),
    "page": Part("the live page and a report's document in headless Chromium", ["-L", "^page$"],
                 jobs=2, needs=(["scripts/setup", "--page"],)),
    "dayone": Part("an empty account, and the README's commands as they stand",
                   ["-L", "^dayone$"]),
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
GATE = ("check", "unit", "seeds", "gate")
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


def reap(until=None):
    """Those of our children, and orphans, that have ended; `until` is waited for: its status."""
    try:
        while True:
            pid, status = os.waitpid(-1, 0 if until else os.WNOHANG)
            if until and pid == until.pid:
                until.returncode = os.waitstatus_to_exitcode(status)
                return until.returncode
            if not pid:
                return None
    except ChildProcessError:
        return None


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
    """What killed worlds below `place` could not remove. `groups`: those that were there before."""
    emulator.sweep(place)
    for group in trainers_groups() - groups:
        try:
            os.rmdir(group)
        except OSError:
            pass  # somebody else's, at work
    for use in glob.glob("/run/spotter-mounts/" + str(place).replace("/", "%2F") + "%2F*"):
        shutil.rmtree(use, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)


class Run:
    """Its parts one after the other, and what became of their entries."""

    def __init__(self, options, place):
        self.options, self.place = options, place
        self.table, self.entries = [], []  # (part, minutes, CPU minutes, passed, failed, skipped)
        self.failures = collections.Counter()
        self.made = []  # then no fixture is made again
        self.environment = {
            # Trainers of the stories run in an environment of their own, what they are compared
            # with in ours: other kernels of OpenBLAS compute other last bits.
            **{name: value for name, value in os.environ.items() if "OPENBLAS_" not in name},
            "SPOTTER_TEST_DIRECTORY": str(place), "TMPDIR": str(place / "tmp")}

    def call(self, *words, **more):
        """Its exit status. In a session of its own: a Ctrl-C is ours to handle."""
        return reap(subprocess.Popen(words, cwd=ROOT, start_new_session=True,
                                     stdin=subprocess.DEVNULL, env={**self.environment, **more}))

    def timed(self, name, function, *words):
        """Runs one part, which gives back its [passed, failed, skipped]."""
        print(f"== {name}", flush=True)
        began, cpu = time.monotonic(), cpu_seconds()
        counts = function(*words)
        self.table.append((name, (time.monotonic() - began) / 60, (cpu_seconds() - cpu) / 60,
                           *counts))
        return counts[1] == 0

    def build(self, flavour, targets):
        done = self.call("scripts/build", flavour, *targets)
        if done:
            self.failures[f"the {flavour} build"] += 1
        return [0, int(done != 0), 0]

    def ctest(self, flavour, select, jobs, **more):
        report = self.place / "report.xml"
        report.unlink(missing_ok=True)
        self.call("ctest", "--test-dir", f"build/{flavour}", "--output-on-failure", "-j", str(jobs),
                  "--no-tests=error", "--output-junit", str(report), *select, *self.made, **more)
        counts, remains = self.tally(report), self.remains()
        if remains:
            print("left behind:", *remains, sep="\n  ")
            self.failures["left behind"] += 1
            counts[1] += 1
        return counts

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

    def part(self, name, part):
        if name == "shapes":
            self.timed(name, self.judge)
            return
        for words in part.needs:
            self.call(*words)  # what is missing is a test's reason to be skipped
        more = {}
        if name == "e2e":
            (self.place / "recorded").mkdir(exist_ok=True)
            more = {"SPOTTER_RECORD": str(self.place / "recorded")}
        self.timed(name, lambda: self.ctest(part.flavour, part.select, part.jobs, **more))
        if name == "unit":
            self.made = ["--fixture-exclude-setup", "mnist|packages|root"]

    def judge(self):
        records = [str(file) for file in (self.place / "recorded").glob("*.jsonl")]
        done = self.call("/usr/bin/python3", "tests/shapes/judge.py", *records) if records else 1
        if done:
            self.failures["shapes" if records else "shapes, which come after e2e"] += 1
        return [int(done == 0), int(done != 0), 0]

    def all_of(self, names):
        """The parts and patterns of this run, each after the build that it needs."""
        built = set()
        for name, part in chosen(names).items():
            key = (part.flavour, *part.targets)
            if name != "shapes" and key not in built:
                built.add(key)
                if not self.timed(f"build {part.flavour}", self.build, part.flavour, part.targets):
                    continue
            self.part(name, part)

    def report(self):
        print(f"\n{'part':15} {'minutes':>7} {'CPU':>6} {'passed':>7} {'failed':>7} {'skipped':>8}")
        for name, minutes, cpu, passed, failed, skipped in self.table:
            row = f"{name:15} {minutes:7.1f} {cpu:6.1f}"
            print(row if name.startswith("build") else
                  f"{row} {passed:7} {failed:7} {skipped:8}")
        minutes, cpu = (sum(row[column] for row in self.table) for column in (1, 2))
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
                {"parts": [dict(zip(columns, row)) for row in self.table], "slowest": slowest,
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


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def words_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(
            errors="replace")
    except OSError:
        return "(ended)"


def run(options, place):
    tests = Run(options, place)
    if tests.call("scripts/setup"):
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
