"""Is what one place is for done there alone?"""

import re

from checks.files import ROOT, name, sources

# The code that does it, and exactly the files (or, with a last "/", the folders) that do.
MECHANISMS = {
    "tags of ours are named": (r'"spotter:\w', ["agent/aws/formats/tags.hpp"]),
    # The second starts programs for coroutines: posix_spawn, which forks without copying memory.
    "processes are started": (
        r"\b(v?fork|exec(l|le|lp|v|ve|vp|vpe)|fexecve|posix_spawnp?|popen|system)\(",
        # The third has the credentials of whoever has no coroutines, in a trainer's process, too.
        ["agent/io/child.cpp", "agent/io/process.cpp", "agent/aws/s3/keys.cpp"]),
    "libcurl is spoken to": (r"\bcurl_(easy|multi|share|global)_\w+\(", ["agent/curl/"]),
    "TLS gets the roots to trust": (r"CURLOPT_CA(INFO|PATH)|_CA_BUNDLE\"|\"SSL_CERT_FILE\"", [
        "agent/curl/easy.cpp", "agent/host/git.cpp",  # git has variables of its own
        "agent/service/act/trainer.cpp"]),  # hands them on
}

PRECOMPILED = re.compile(r"^spotter_precompiled\(.*<((?:agent|trainer|tests)/[^>]+)>", re.M)


def precompiled():
    """CMakeLists.txt says why a header that is precompiled has a guard and includes none of ours."""
    for script in sorted(ROOT.glob("**/CMakeLists.txt")):
        if "build" in script.relative_to(ROOT).parts:
            continue
        for header in PRECOMPILED.findall(script.read_text()):
            text = (ROOT / header).read_text()
            if re.search(r"^#pragma once", text, re.M):
                yield f"{header}: it is precompiled: give it a guard instead of #pragma once"
            if included := re.search(r'^#include "(.+)"', text, re.M):
                yield f"{header}: it is precompiled, but includes {included[1]}"


def check_mechanisms():
    yield from precompiled()
    done = {what: set() for what in MECHANISMS}
    for path in sources(".cpp", ".hpp", ".h"):
        file = name(path)
        if file.startswith(("tests/", "bench/")):
            continue  # a judge says what it expects in words of its own
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for what, (words, places) in MECHANISMS.items():
                if not re.search(words, line.split("// ")[0]):
                    continue
                place = next((each for each in places if file == each or each.endswith("/")
                              and file.startswith(each)), None)
                done[what].add(place)
                if place is None:
                    yield f"{file}:{number}: {what} only in {', '.join(places)}"
    for what, (_, places) in MECHANISMS.items():
        for place in sorted(set(places) - done[what]):
            yield f"scripts/checks/mechanisms.py: {what} nowhere in {place}: take it from the list"
