"""Each attack of the table is a function, and systemd/SECURITY.md says what stops it; no other
stands there."""

import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "attacks"))
import table

SECURITY = HERE.parents[1] / "systemd/SECURITY.md"
ATTACKS = {name for plan in table.LEFT.values() for start in plan for name in start} | {
    *table.REACHED}


class Attacks(unittest.TestCase):
    maxDiff = None

    def test_are_listed_with_what_stops_them(self):
        listed = set(re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", SECURITY.read_text()))
        self.assertEqual(listed, ATTACKS)

    def test_are_functions(self):
        source = "".join((HERE / f"attacks/{name}.py").read_text()
                         for name in ("left", "asked", "reached"))
        self.assertLessEqual(ATTACKS, set(re.findall(r"(?m)^def (\w+)\(\):", source)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
