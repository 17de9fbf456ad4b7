"""`import spotter` in every Python that the agent starts: $PYTHONPATH ends with this folder.

What $PYTHONPATH names comes before an environment's own packages, so this module gives way to any
other `spotter` that is found: the user's own copy, of whichever version. Else it loads the one that
came with the agent, which lies beside this folder.
"""

import importlib.machinery
import importlib.util
import pathlib
import sys


def _find():
    here = pathlib.Path(__file__).resolve().parent
    others = [each for each in sys.path if pathlib.Path(each or ".").resolve() != here]
    finder = importlib.machinery.PathFinder
    for each in sys.meta_path:
        if not hasattr(each, "find_spec"):
            continue
        found = each.find_spec("spotter", others if each is finder else None)
        if found and found.origin:  # else a folder of that name, without a module in it
            return found
    return finder.find_spec("spotter", [str(here.parent / "python")])


_spec = _find()
_module = importlib.util.module_from_spec(_spec)
sys.modules["spotter"] = _module
_spec.loader.exec_module(_module)
