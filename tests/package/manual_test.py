#!/usr/bin/python3
"""job.yaml(5) describes each key that agent/config reads, and no other, table by table;
spotter-emulator(1) each command and option that the program tells of."""

import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "scripts/packaging/manual/job.yaml.5"
FUNCTION = re.compile(r"^\S.*?\b(\w+)\((?:Reader& reader|$)")
KEY = re.compile(r'\{"(\w+)", (?:Reader::)?(?:required|optional),')
NAMES = re.compile(r"for \(const auto\* name : \{([^}]*)\}\)", re.S)


def tables_of_the_code():
    """Function of agent/config -> the keys of its table."""
    tables = {}
    for path in sorted((ROOT / "agent/config").glob("*.cpp")):
        function, text = "", path.read_text()
        for line in text.splitlines():
            if found := FUNCTION.match(line):
                function = found.group(1)
            for key in KEY.findall(line):
                tables.setdefault(function, set()).add(key)
        for names in NAMES.findall(text):  # the settings of a channel
            tables["read_map"].update(re.findall(r'"(\w+)"', names))
    return tables


def tables_of_the_page():
    tables = {}
    for line in PAGE.read_text().splitlines():
        if found := re.match(r'\.\\" table: (\w+)$', line):
            keys = tables.setdefault(found.group(1), set())
        elif found := re.match(r"\.It Cm (\w+)$", line):
            keys.add(found.group(1))
    return tables


class JobYaml(unittest.TestCase):
    def test_describes_all_that_is_read(self):
        code, page = tables_of_the_code(), tables_of_the_page()
        self.assertIn("trainer", code["job_fields"])
        self.assertIn("shuffle_seed", code["read_map"])
        for table, keys in code.items():
            where = f'{PAGE.relative_to(ROOT)}, below `.\\" table: {table}`'
            self.assertIn(table, page, f"{where}: describe {sorted(keys)}")
            self.assertEqual(sorted(keys), sorted(page[table]), where)
        self.assertEqual(set(page) - set(code), set(), "no such tables in agent/config")


class Emulator(unittest.TestCase):
    PROGRAM = (os.environ.get("SPOTTER_BIN") or f"{ROOT}/build/release/bin") + "/spotter-emulator"

    def helped(self, *command):
        """(command, what it takes) of all below `command`, as --help tells."""
        text = subprocess.run([self.PROGRAM, *command, "--help"], check=True, capture_output=True,
                              text=True, timeout=30).stdout
        taken = re.findall(r"^  (?:-[a-z],)?(--[a-z-]+|[a-z]+)(?: |$)", text.partition(
            "\nSubcommands:\n")[0], re.M)
        commands = re.findall(r"^  ([a-z]+) ", text.partition("\nSubcommands:\n")[2], re.M)
        if not commands:
            yield " ".join(command), sorted(set(taken) - {"--help"})
        for each in commands:
            yield from self.helped(*command, each)

    def test_describes_all_that_help_tells_of(self):
        page = (ROOT / "scripts/packaging/manual/spotter-emulator.1").read_text()
        commands = page.partition(".Sh COMMANDS\n")[2].partition(".Sh CONTROL\n")[0]
        described = {}
        for section in commands.split(".Ss ")[1:]:
            name, _, text = section.partition("\n")
            described[name] = sorted(re.sub("^Fl -", "--", each) for each in
                                     re.findall(r"^\.It (?:Ar )?((?:Fl -)?[a-z-]+)", text, re.M))
        self.assertIn("--zone", described["instance add"])
        self.assertEqual(described, dict(self.helped()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
