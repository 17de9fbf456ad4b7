"""Which files scripts/check reads."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("agent", "trainer", "tests", "bench")
# In a source that CMake makes of several.
INCLUDED = re.compile(r'^#include "([^"]+\.cpp)"$', re.M)


def sources(*suffixes):
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
                  if path.suffix in suffixes and "__pycache__" not in path.parts)


def name(path):
    return str(path.relative_to(ROOT))
