"""Is all that the client's build compiles to be had on macOS, as far as names tell?

It follows the includes of its sources, which CMake names, as a Mac's compiler would.
What other headers and functions macOS has is not known here: a header is named below, or refused.
"""

import json
import re
import subprocess

from checks.files import INCLUDED, ROOT, name

# Of C and POSIX, and of macOS alone; of C++ each without a dot in its name; of libraries.
HEADERS = set("""arpa/inet.h dirent.h errno.h fcntl.h fnmatch.h glob.h grp.h mach-o/dyld.h
    netinet/in.h poll.h pthread.h pwd.h signal.h spawn.h stdio.h stdlib.h string.h strings.h
    sys/file.h sys/ioctl.h sys/mman.h sys/random.h sys/resource.h sys/socket.h sys/stat.h sys/statvfs.h
    sys/time.h sys/types.h
    sys/uio.h sys/un.h sys/wait.h sysexits.h termios.h time.h unistd.h""".split())
LIBRARIES = re.compile(r"(boost|CLI|curl|fmt|nlohmann|openssl|spdlog|tl|yaml-cpp)/"
                       r"|(pugixml\.hpp|xxhash\.h|zlib\.h|(imm|nmm)intrin\.h)$")
# Functions and names that Linux or its C library has alone.
LINUX = re.compile(r"\b(accept4|close_range|copy_file_range|dup3|execvpe|fallocate|fdatasync"
                   r"|getauxval|getrandom|gettid|malloc_trim|memfd_create|openat2|pipe2|ppoll"
                   r"|posix_fallocate|prctl|program_invocation_\w+|renameat2|secure_getenv|sendfile"
                   r"|sigtimedwait|sigwaitinfo"
                   r"|splice|statx|syncfs|syscall|(epoll|eventfd|inotify|pidfd|sd|signalfd|timerfd)"
                   r"_\w+|(AT_EMPTY_PATH|CLOCK_BOOTTIME|SO_PEERCRED|SOCK_(CLOEXEC|NONBLOCK)"
                   r"|O_(DIRECT|PATH|TMPFILE)|RENAME_\w+|SYS_\w+)|st_[acm]tim)\b|/proc/")
HERE = re.compile(r"\b(SPOTTER_CLIENT|__APPLE__)\b")  # both are defined
DIRECTIVE = re.compile(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b(.*)")
INCLUDE = re.compile(r'\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')


def is_out(word, condition):
    """Does the client's build on a Mac leave out what stands behind this?"""
    if not HERE.search(condition):
        return False
    return word == "ifndef" or "!defined(SPOTTER_CLIENT)" in condition


def compiled(text):
    """(number, line) of what is compiled, without comments: other conditions are not judged."""
    branches = []  # (is it left out, is that decided by HERE alone)
    for number, line in enumerate(text.splitlines(), 1):
        if found := DIRECTIVE.match(line):
            word, condition = found.groups()
            if word.startswith("if"):
                branches.append((is_out(word, condition), HERE.search(condition)
                                 and "&&" not in condition))
            elif word == "endif":
                branches.pop()
            elif word == "elif":
                branches[-1] = (is_out(word, condition), False)
            else:
                out, decided = branches[-1]
                branches[-1] = (decided and not out, False)
        elif not any(out for out, _ in branches):
            yield number, line.split("// ")[0]


def findings_in(file, text):
    """What is wrong with a source, and the sources of ours that it includes."""
    wrong, ours = [], []
    for number, line in compiled(text):
        if found := INCLUDE.match(line):
            mine, header = found.groups()
            if mine:
                ours.append(mine)
            elif "." in header and header not in HEADERS and not LIBRARIES.match(header):
                wrong.append(f"{file}:{number}: the client's build includes <{header}>")
        elif found := LINUX.search(line):
            wrong.append(f"{file}:{number}: the client's build uses {found[0]}, which macOS lacks")
    return wrong, ours


def client_sources():
    """As CMake has them, those of the unified ones in their place."""
    done = subprocess.run(["scripts/build", "client", "help"], cwd=ROOT, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise OSError(done.stdout)
    entries = json.loads((ROOT / "build/client/compile_commands.json").read_text())
    for file in [entry["file"] for entry in entries]:
        path = ROOT / file
        for each in INCLUDED.findall(path.read_text()) if path.parent.name == "Unity" else [file]:
            if not (ROOT / each).is_relative_to(ROOT / "build"):
                yield name(ROOT / each)


def check_client():
    try:
        todo = list(client_sources())
    except OSError as why:
        return [f"the client's build cannot be configured: {why}"]
    if "agent/client.cpp" not in todo:
        return ["build/client has no agent/client.cpp: its sources are not known"]
    findings, seen = [], set()
    while todo:
        file = todo.pop()
        if file in seen or not (ROOT / file).is_file():  # what CMake makes is of text alone
            continue
        seen.add(file)
        wrong, ours = findings_in(file, (ROOT / file).read_text())
        findings += wrong
        todo += ours
    return sorted(findings)
