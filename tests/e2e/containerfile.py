"""Carries out a container file where no container engine runs: the steps of its last stage in a
root made by mmdebstrap. Small and strict: what it does not know is an error, not a guess.
https://docs.docker.com/reference/dockerfile/
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess

import root as roots
from root import ALONE, PATH, PATIENCE, NoPackages

# What stands for these images: roots of the distribution that they are made of.
BASES = {"debian:12-slim": roots.made,
         "nvidia/cuda:12.8.0-runtime-ubuntu22.04": lambda: roots.ubuntu("jammy")}
# What it runs is process 1, as in a container. Words: root, folder, where that is seen, user,
# command.
ENTER = ('set -e; mount -t proc proc "$1/proc"; '
         '[ -z "$2" ] || { mkdir -p "$1$3"; mount --bind "$2" "$1$3"; }; '
         'root=$1 user=$4; shift 4; exec chroot ${user:+--userspec="$user"} "$root" "$@"')


class Unknown(Exception):
    """A step that is not understood, or that cannot be carried out as it stands."""


class Stage:
    def __init__(self, base, name):
        self.base, self.name, self.steps = base, name, []

    def words(self, keyword):
        """The last step of this name, a JSON list; none: an empty one."""
        found = [json.loads(text) for what, text in self.steps if what == keyword]
        return found[-1] if found else []


def parse(text, **arguments):
    """Its stages; comments and continued lines are dealt with. `arguments`: those of --build-arg,
    for FROM alone."""
    stages, defaults = [], {}
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    while lines:
        step = lines.pop(0)
        while step.endswith("\\"):
            step = step[:-1] + lines.pop(0).strip()
        keyword, _, rest = step.partition(" ")
        if keyword == "ARG" and not stages and re.fullmatch(r"\w+=\S+", rest):
            defaults.update([rest.split("=", 1)])
        elif keyword == "FROM":
            words = rest.split()
            if argument := re.fullmatch(r"\$\{(\w+)\}", words[0]):
                words[0] = {**defaults, **arguments}[argument[1]]
            if words[1:2] not in ([], ["AS"]) or len(words) not in (1, 3):
                raise Unknown(step)
            stages.append(Stage(words[0], words[-1] if len(words) == 3 else ""))
        elif keyword not in ("RUN", "COPY", "ENV", "ENTRYPOINT", "CMD") or not stages:
            raise Unknown(step)
        else:
            stages[-1].steps.append((keyword, rest))
    return stages


def enter(root, command, folder="", at="/data", user="", environment=None):
    """The words of subprocess that run a command as process 1 in the root."""
    given = [f"{name}={value}" for name, value in {"PATH": PATH, **(environment or {})}.items()]
    return [*ALONE, "/bin/sh", "-c", ENTER, "enter", str(root), str(folder), at, user,
            "/usr/bin/env", "-i", *given, *command]


class Image:
    """A root in which the steps of stages are carried out; `log` gets what they say."""

    def __init__(self, root, log):
        self.root, self.log, self.environment = pathlib.Path(root), log, {}
        self.entrypoint, self.command = [], []

    def _do(self, words):
        try:
            with open(self.log, "ab") as log:
                done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                      check=False, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise NoPackages(f"not done within {PATIENCE} s: {words}") from None
        said = pathlib.Path(self.log).read_text(errors="replace")[-3000:]
        if done.returncode and roots.NO_PACKAGES.search(said):
            raise NoPackages(said)
        if done.returncode:
            raise Unknown(f"{shlex.join(map(str, words))}: {done.returncode}\n{said}")

    def begin(self, base):
        if base not in BASES:
            raise Unknown(f"FROM {base}")
        self._do(["cp", "--archive", BASES[base](), self.root])

    def carry_out(self, stage, sources):
        """`sources`: stage name (the context: "") -> function of a path there, its path here."""
        for keyword, text in stage.steps:
            getattr(self, f"_{keyword.lower()}")(text, sources)
        self.entrypoint = stage.words("ENTRYPOINT") or self.entrypoint
        self.command = stage.words("CMD")

    def _run(self, text, _sources):
        self._do(enter(self.root, ["/bin/sh", "-c", text],
                       environment={**self.environment, "DEBIAN_FRONTEND": "noninteractive"}))

    def _copy(self, text, sources):
        words = text.split()
        stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
        *origins, target = words
        if target[0] != "/" or (len(origins) > 1 and target[-1] != "/"):
            raise Unknown(f"COPY {text}")
        for origin in origins:
            here = pathlib.Path(sources[stage](origin))
            there = pathlib.Path(f"{self.root}{target}")
            if target.endswith("/"):
                there /= here.name
            there.parent.mkdir(parents=True, exist_ok=True)
            if here.is_dir():
                shutil.copytree(here, there, dirs_exist_ok=True,
                                ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(os.path.realpath(here), there)

    def _env(self, text, _sources):
        for word in shlex.split(text):
            name, equals, value = word.partition("=")
            if not equals or "$" in value:
                raise Unknown(f"ENV {text}")
            self.environment[name] = value

    def _entrypoint(self, _text, _sources):
        """Its words are taken at the end."""

    _cmd = _entrypoint

    def run(self, command=None, environment=None, **more):
        """What `docker run IMAGE COMMAND` would be, as words of subprocess."""
        words = self.entrypoint + (self.command if command is None else command)
        return enter(self.root, words, environment={**self.environment, **(environment or {})},
                     **more)
