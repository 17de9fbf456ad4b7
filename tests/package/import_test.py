#!/usr/bin/python3
"""`import spotter`, and C, from the files of the agent's package alone, as cmake installs them."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["SPOTTER_BIN"]).parent
SAVES = """
import sys, spotter
run = spotter.open(sys.argv[1])
old = run.restore()
step = old.step + 1 if old else 1
run.save(step, seen=["state", step])
run.flush()
print(spotter.__file__, step)
"""
PROGRAM = """
#include <spotter.h>
#include <stdio.h>
#include <string.h>
int main(int count, char** words) {
  spotter_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.directory = words[count - 1];
  spotter_run* run = spotter_open(&options);
  if (run == NULL) return fprintf(stderr, "%s\\n", spotter_error()), 1;
  spotter_close(run);
  return 0;
}
"""


class Import(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory(prefix="spotter-import-")
        cls.addClassCleanup(cls.place.cleanup)
        cls.root = pathlib.Path(cls.place.name)
        cls.usr = cls.root / "usr"
        done = subprocess.run(["cmake", "--install", BUILD, "--component", "agent", "--prefix",
                               cls.usr], capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
        cls.path = str(cls.usr / "lib/spotter/path")
        cls.ours = str(cls.usr / "lib/spotter/python/spotter/__init__.py")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir=self.root)
        self.addCleanup(folder.cleanup)
        self.here = pathlib.Path(folder.name)

    def run_python(self, python, *words, path=None):
        done = subprocess.run([python, *words], cwd=self.here, capture_output=True, text=True,
                              check=False, timeout=600,
                              env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1",
                                   "PYTHONPATH": path or self.path})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def environment(self):
        """A virtual one: its python, and where its packages are."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.here / "venv"],
                       check=True, timeout=120)
        packages, = (self.here / "venv").glob("lib/python3*/site-packages")
        return self.here / "venv/bin/python", packages

    def test_the_systems_python_and_a_virtual_environment_save_and_restore(self):
        python, _ = self.environment()
        kept = str(self.here / "checkpoints")
        self.assertEqual(self.run_python(sys.executable, "-c", SAVES, kept), f"{self.ours} 1")
        self.assertEqual(self.run_python(python, "-c", SAVES, kept), f"{self.ours} 2")

    def test_the_users_own_has_precedence(self):
        python, packages = self.environment()
        own = packages / "spotter"
        own.mkdir()
        (own / "__init__.py").write_text("from .part import WHOSE\n")
        (own / "part.py").write_text("WHOSE = 'mine'\n")
        words = "import spotter, spotter.part; print(spotter.WHOSE, spotter.part.__name__)"
        self.assertEqual(self.run_python(python, "-c", words), "mine spotter.part")
        before = self.here / "before"
        before.mkdir()
        (before / "spotter.py").write_text("WHOSE = 'before'\n")
        self.assertEqual(self.run_python(python, "-c", "import spotter; print(spotter.WHOSE)",
                                         path=f"{before}:{self.path}"), "before")

    def test_one_that_another_finder_brings_has_precedence_as_of_pip_install_e(self):
        python, packages = self.environment()
        (self.here / "spotter_source.py").write_text("WHOSE = 'editable'\n")
        (packages / "own.pth").write_text("import own_finder\n")
        (packages / "own_finder.py").write_text(
            "import importlib.util, sys\n"
            "class Finder:\n"
            "    @staticmethod\n"
            "    def find_spec(name, path, target=None):\n"
            "        if name == 'spotter':\n"
            "            return importlib.util.spec_from_file_location(\n"
            f"                name, {str(self.here / 'spotter_source.py')!r})\n"
            "sys.meta_path.append(Finder)\n")
        self.assertEqual(self.run_python(python, "-c", "import spotter; print(spotter.WHOSE)"),
                         "editable")

    def test_a_mere_folder_of_that_name_hides_nothing(self):
        (self.here / "spotter").mkdir()  # as of a checkout
        words = "import spotter; print(spotter.__file__)"
        self.assertEqual(self.run_python(sys.executable, "-c", words), self.ours)

    def test_its_modules_are_found(self):
        words = ("import spotter.accelerate, sys; from spotter import Run; "
                 "print(sys.modules['spotter'].accelerate.__name__)")
        self.assertEqual(self.run_python(sys.executable, "-c", words), "spotter.accelerate")

    def test_a_c_program_is_built_with_pkg_config_and_runs(self):
        (self.here / "train.c").write_text(PROGRAM)
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "spotter"], capture_output=True, text=True,
            check=True, timeout=600,
            env={**os.environ, "PKG_CONFIG_PATH": str(self.usr / "share/pkgconfig")}).stdout
        rpath, = (it for it in flags.split() if it.startswith("-Wl,-rpath,"))
        found = pathlib.Path(rpath.removeprefix("-Wl,-rpath,")).resolve()
        self.assertEqual(found, (self.usr / "lib/spotter").resolve())
        subprocess.run(["cc", "-o", "train", "train.c", *flags.split()], cwd=self.here, check=True,
                       timeout=600)
        done = subprocess.run([self.here / "train", self.here / "checkpoints"], check=False,
                              capture_output=True, text=True, timeout=600, env={})
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
