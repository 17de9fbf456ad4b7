#!/usr/bin/python3
"""Our programs with a libcurl whose symbols have no versions, as Amazon Linux and Fedora have it:
the loader prints nothing. A program that asks for Debian's versions shows that it would."""

import os
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["SPOTTER_BIN"])
PROGRAM = "#include <curl/curl.h>\nint main(void) { return curl_version() == 0; }\n"
# Entries of an ELF file's dynamic section, and one that the loader passes over.
VERDEF, VERDEFNUM, PASSED_OVER = 0x6ffffffc, 0x6ffffffd, 0x6000000d


def without_versions(library):
    """The bytes of a library that defines no version of its symbols any more."""
    data = bytearray(library.read_bytes())
    headers, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(headers, headers + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
        if kind != 2:  # PT_DYNAMIC
            continue
        for entry in range(offset, offset + length, 16):
            if struct.unpack_from("<Q", data, entry)[0] in (VERDEF, VERDEFNUM):
                struct.pack_into("<Q", data, entry, PASSED_OVER)
    return bytes(data)


class Loader(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="spotter-loader-"))
        self.addCleanup(shutil.rmtree, self.place)
        linked = subprocess.run(["ldd", BIN / "spotter"], capture_output=True, text=True,
                                check=True)
        found = re.search(r"libcurl\.so\.4 => (\S+)", linked.stdout)
        self.library = pathlib.Path(found[1])
        (self.place / "libcurl.so.4").write_bytes(without_versions(self.library))

    def run_with_it(self, *words):
        done = subprocess.run(words, capture_output=True, text=True, check=False,
                              env={"LD_LIBRARY_PATH": str(self.place), "PATH": os.environ["PATH"]})
        self.assertNotEqual(done.returncode, 127, done.stderr)  # it was loaded
        return done.stderr

    def test_a_program_that_asks_for_versions_is_warned_of(self):
        (self.place / "program.c").write_text(PROGRAM)
        subprocess.run(["cc", self.place / "program.c", "-o", self.place / "program", "-lcurl"],
                       check=True)
        self.assertIn("no version information available", self.run_with_it(self.place / "program"))

    def test_ours_ask_for_none(self):
        for name in ("spotter", "spotter-fastfile", "spotter-emulator"):
            self.assertNotIn("no version", self.run_with_it(BIN / name, "--version"))

    def test_nor_do_our_libraries(self):
        for library in (BIN.parent / "lib").glob("*.so"):
            shown = subprocess.run(["readelf", "--version-info", library], capture_output=True,
                                   text=True, check=True).stdout
            self.assertEqual(re.findall(r"CURL_\w+", shown), [], library)


if __name__ == "__main__":
    unittest.main()
