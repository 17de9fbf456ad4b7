#!/usr/bin/python3
"""bash completes spotter's command lines: its own function is run, on the real program."""

import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARIES = os.environ.get("SPOTTER_BIN") or str(ROOT / "build/release/bin")
SCRIPT = """
source scripts/packaging/completion/spotter
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_spotter
((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
exit 0
"""


def run(*words):
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600,
                          env={"PATH": f"{BINARIES}:/usr/bin:/bin"}).stdout


def complete(*words):
    """What bash would offer for the last word."""
    return run("bash", "--norc", "-c", SCRIPT, "bash", *words).split()


def helped(*command):
    """The commands and options that --help tells of."""
    text = run("spotter", *command, "--help")
    options = re.findall(r"^  (?:-[a-z],)?(--[a-z-]+)", text, re.M)
    commands = re.findall(r"^  ([a-z][a-z-]*) ", text.partition("\nSubcommands:\n")[2], re.M)
    return options, commands


class Bash(unittest.TestCase):
    def test_offers_just_what_help_tells_of_at_every_level(self):
        def look(*command):
            options, commands = helped(*command)
            self.assertIn("--help", options)
            self.assertEqual(sorted(complete("spotter", *command, "--")), sorted(options), command)
            self.assertLessEqual(set(commands), set(complete("spotter", *command, "")))
            for each in commands:
                look(*command, each)
            return commands
        self.assertIn("agent", look())

    def test_completes_the_word_that_is_typed(self):
        self.assertEqual(complete("spotter", "sta"), ["status"])
        self.assertEqual(complete("spotter", "sweep", "e"), ["expand"])
        self.assertEqual(complete("spotter", "agent", "--once", "--jo"), ["--job"])
        self.assertEqual(complete("spotter", "agent", "--nothing"), [])

    def test_leaves_files_and_the_command_behind_dashes_to_the_shell(self):
        self.assertEqual(complete("spotter", "agent", "--job", ""), [])
        self.assertEqual(complete("spotter", "agent", "--job", "a.yaml", "--ch"), ["--check"])
        self.assertEqual(complete("spotter", "run", "--name", "x", "--", "--he"), [])
        self.assertIn("-o default", run("bash", "--norc", "-c",
                                        "source scripts/packaging/completion/spotter; complete -p"))


class Mistyped(unittest.TestCase):
    def refused(self, *words):
        ended = subprocess.run([f"{BINARIES}/spotter", *words], capture_output=True, text=True,
                               timeout=600)
        self.assertEqual((ended.returncode, ended.stdout), (2, ""))
        return ended.stderr

    def test_a_command_that_is_none_is_named_with_the_one_that_was_meant(self):
        self.assertEqual(self.refused("stauts", "--watch"),
                         "spotter: there is no command 'stauts'; did you mean 'status'? "
                         "(`spotter --help` lists all)\n")
        self.assertEqual(self.refused("sweep", "expnd"),
                         "spotter: there is no command 'sweep expnd'; did you mean 'sweep expand'? "
                         "(`spotter sweep --help` lists all)\n")
        self.assertNotIn("did you mean", self.refused("frobnicate"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
