"""What a user brings: a job.yaml, a git repository with the trainer's code, the user data."""

import json
import os
import pathlib
import pwd
import subprocess

TAG = "mnist-volume"
# Somebody without rights who is on every machine. Not root: a trainer runs whatever it was given.
UNPRIVILEGED = "nobody"


def trainer_user():
    return UNPRIVILEGED if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def give_to_trainer(path):
    """Root's files are given to the trainer's user: git refuses a repository of somebody else."""
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", f"{UNPRIVILEGED}:", str(path)], check=True)


def repository(directory, files):
    """A new git repository with one commit of these files; gives back the commit's id."""
    directory = pathlib.Path(directory)
    directory.mkdir()
    for name, text in files.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "GIT_CONFIG_NOSYSTEM": "1",
                   **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                      for what, value in (("NAME", "a user"), ("EMAIL", "user@example.com"),
                                          ("DATE", "2026-01-01T00:00:00Z"))}}

    def git(*words):
        return subprocess.run(["git", "-C", directory, *words], env=environment, check=True,
                              capture_output=True, text=True).stdout.strip()
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "The trainer")
    commit = git("rev-parse", "HEAD")
    give_to_trainer(directory)
    return commit


def document(name, repository_path, revision, command, trainer=None, ebs=None, **more):
    """A job as a dictionary; `trainer` and `ebs` add to or replace what stands there."""
    return {
        "job": name,
        "storage": {"ebs": {"tag": {"Name": TAG}, "mount": "${SPOTTER_MOUNT}",
                            "filesystem": "xfs", **(ebs or {})}},
        "code": {"repository": str(repository_path), "revision": revision},
        "trainer": {"command": command, "user": trainer_user(), **(trainer or {})},
        "checkpoints": {"directory": "checkpoints"},
        **more}


def yaml(value, indent=0):
    """Block YAML of dictionaries and scalars; a JSON string is a YAML string."""
    lines = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            lines += [" " * indent + f"{key}:", yaml(item, indent + 2)]
        else:
            lines.append(" " * indent + f"{key}: {json.dumps(item)}")
    return "\n".join(lines)


def user_data(binaries, job_text, restart=False, before=""):
    """The script that a launch template carries: it writes the job down and becomes the agent.

    `restart` is what systemd's Restart=always with RestartPreventExitStatus=2 would do; `before`:
    what an image has done already."""
    agent = f"{binaries}/spotter agent --job job.yaml"
    last = f"exec {agent}"
    if restart:
        last = f"while :; do {agent}; code=$?; [ $code = 2 ] && exit 2; sleep 0.5; done"
    return f"#!/bin/sh\n{before}\ncat >job.yaml <<'END'\n{job_text}\nEND\n{last}\n"


def volume_tags(name, job_name):
    """What a user puts on a new volume: found by its Name, ours to format while blank."""
    return {"Name": name, "spotter:job": job_name, "spotter:role": "state",
            "spotter:format": "blank"}
