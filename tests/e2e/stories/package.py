"""The packages on a bare Debian: apt install ./spotter.deb, upgrade, remove, purge."""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import emulator
import harness
import packages
import root
from emulator import ROOT

VERSION = re.search(r"spotter VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
MADE = ROOT / "build/packages"
EXAMPLE = "/usr/share/doc/spotter/examples/job.yaml"
JOB = "job: mine\n"


def output(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=300,
                          **more).stdout


class Packages(unittest.TestCase):
    def setUp(self):
        if not any(MADE.glob("*.deb")):
            self.fail("there are no packages: run scripts/package")
        self.place = emulator.own_place(self, "package")

    def package(self, name):
        (file,) = MADE.glob(f"{name}_{VERSION}_*.deb")
        return file

    def test_deb_rpm_and_tar_carry_the_same_files_under_the_same_version(self):
        (rpm,) = MADE.glob(f"spotter-{VERSION}-1.*.rpm")
        (tar,) = MADE.glob(f"spotter-{VERSION}-linux-*.tar.gz")
        in_tar = {f"/{name}" for name in output("tar", "-tf", tar).split() if name[-1] != "/"}
        self.assertIn("/usr/bin/spotter", in_tar)
        self.assertIn("/usr/lib/systemd/system/spotter.service", in_tar)
        in_deb = {line.split(maxsplit=5)[5].removeprefix(".").split(" -> ")[0] for line in
                  output("dpkg-deb", "-c", self.package("spotter")).splitlines()}
        self.assertEqual({name for name in in_deb if name[-1] != "/"}, in_tar)
        in_rpm = set(output("rpm", "-qpl", rpm).split())
        self.assertEqual(in_tar - in_rpm, set())
        self.assertTrue(all(any(name.startswith(folder) for name in in_tar)
                            for folder in in_rpm - in_tar))
        needs = output("rpm", "-qpR", rpm)
        self.assertIn("libcurl.so.4()(64bit)", needs)
        self.assertNotIn("CURL_OPENSSL", needs, "only Debian's libcurl has versioned symbols")
        for name in ("git-core", "iproute", "xfsprogs"):  # dnf installs no suggestion
            self.assertIn(f"\n{name}\n", needs)
        self.assertNotIn("pkg-config", needs, "only who builds a trainer in C needs it")

    def test_the_emulators_archive_has_what_its_package_has(self):
        (tar,) = MADE.glob(f"spotter-emulator-{VERSION}-linux-*.tar.gz")
        listed = output("dpkg-deb", "-c", self.package("spotter-emulator")).splitlines()
        in_deb = {line.split(maxsplit=5)[5].removeprefix(".") for line in listed}
        self.assertEqual({f"/{name}" for name in output("tar", "-tf", tar).split()
                          if name[-1] != "/"}, {name for name in in_deb if name[-1] != "/"})
        self.assertIn("/usr/share/man/man1/spotter-emulator.1", in_deb)
        text = output("dpkg-deb", "-f", self.package("spotter-emulator"), "Description")
        self.assertTrue(text.startswith("EC2, spot interruptions, "), "apt search finds it by that")

    # In a root of its own

    def make_root(self):
        if why := root.missing():
            self.skipTest(why)
        try:
            self.root = root.Root(root.made(), self.place / "root")
            self.apt("update")
        except root.NoPackages as why:
            self.skipTest(f"Debian's packages were not to be had: {why}")
        for file in MADE.glob("*.deb"):
            shutil.copy(file, self.root.shared)

    def do(self, *words, status=0, **environment):
        done = self.root.run(*words, environment=environment)
        self.assertEqual(done.returncode, status, f"{words}:\n{done.stdout[-4000:]}")
        return done.stdout

    def apt(self, *words):
        done = self.root.run("apt-get", "-qy", *words,
                             environment={"DEBIAN_FRONTEND": "noninteractive"})
        if done.returncode and root.NO_PACKAGES.search(done.stdout):
            raise root.NoPackages(done.stdout[-2000:])
        self.assertEqual(done.returncode, 0, f"{words}:\n{done.stdout[-4000:]}")
        return done.stdout

    def install(self, *packages):
        files = [f"/srv/{self.package(name).name}" for name in packages]
        return self.apt("install", "--no-install-recommends", *files)

    def install_older(self):
        """The same package, as a version that comes before every other."""
        packages.older(self.package("spotter"), self.root.shared / "older.deb")
        self.apt("install", "--no-install-recommends", "/srv/older.deb")
        self.assertEqual(self.version(), "0.0~older")

    def version(self):
        return self.do("dpkg-query", "-W", "-f", "${Version}", "spotter")

    def is_enabled(self):
        return self.root.run("systemctl", "is-enabled", "spotter").stdout.strip()

    def write(self, path, text):
        self.do("/bin/sh", "-c", 'printf %s "$2" >"$1"', "write", path, text)

    def ours(self):
        """Whatever is named after us."""
        found = self.do("find", "/", "-xdev", "(", "-path", "/proc", "-o", "-path", "/srv", ")",
                        "-prune", "-o", "-iname", "*spotter*", "-print")
        return sorted(found.split())

    def test_apt_installs_upgrades_removes_and_purges_it(self):
        self.make_root()
        self.assertEqual(self.ours(), [])
        self.install_older()
        self.check_what_is_there()
        self.assertEqual(self.is_enabled(), "enabled")
        self.write("/etc/spotter/job.yaml", JOB)
        self.do("systemctl", "disable", "spotter")

        self.install("spotter")
        self.assertEqual(self.version(), VERSION)
        self.check_what_is_there()
        self.assertEqual(self.is_enabled(), "disabled", "an upgrade leaves it as the user did")
        self.do("systemctl", "enable", "spotter")
        self.install("spotter")
        self.assertEqual(self.do("cat", "/etc/spotter/job.yaml"), JOB)

        self.apt("remove", "spotter")
        self.do("test", "!", "-e", "/usr/bin/spotter")
        self.assertEqual(self.do("cat", "/etc/spotter/job.yaml"), JOB, "a removal is no purge")
        self.install("spotter")
        self.assertEqual(self.is_enabled(), "enabled")

        self.write("/var/lib/spotter/checkpoint", "a week's work")
        self.apt("purge", "spotter")
        self.assertEqual(self.ours(), ["/var/lib/spotter"], "what holds a checkpoint stays")
        self.assertEqual(self.do("ls", "/var/lib/spotter"), "checkpoint\n")
        self.do("rm", "/var/lib/spotter/checkpoint")
        self.install("spotter")
        self.apt("purge", "spotter")
        self.assertEqual(self.ours(), [])

    def check_what_is_there(self):
        self.assertEqual(self.do("spotter", "--version"), f"spotter {VERSION}\n")
        self.assertIn("spotter", self.do("spotter", "status", status=1))
        self.assertIn("is well described", self.do("spotter", "agent", "--check", "--job", EXAMPLE))
        for path, expected in (("/etc/spotter", "root 700"), ("/var/lib/spotter", "spotter 750"),
                               ("/mnt/spotter", "root 755"), ("/usr/bin/spotter", "root 755")):
            self.assertEqual(self.do("stat", "-c", "%U %a", path), f"{expected}\n", path)
        self.assertEqual(self.do("getent", "passwd", "spotter").split(":")[5:],
                         ["/nonexistent", "/usr/sbin/nologin\n"])
        verified = self.root.run("systemd-analyze", "verify", "--man=no", "spotter.service")
        self.assertNotIn("spotter.service", verified.stdout)
        self.assertEqual(verified.returncode, 0, verified.stdout)
        for path in ("man/man1/spotter.1", "man/man5/job.yaml.5", "man/man7/spotter-events.7",
                     "man/man7/spotter-assumptions.7", "man/man8/spotter.service.8",
                     "bash-completion/completions/spotter"):
            self.do("test", "-s", f"/usr/share/{path}")
        for program in ("spotter", "spotter-fastfile"):
            self.assertNotIn("not found", self.do("ldd", f"/usr/bin/{program}"))

    def test_three_commands_as_any_user_lead_to_a_notice(self):
        """What the emulator's README says, typed as it stands, and what its table promises."""
        self.make_root()
        self.install("spotter-emulator")
        self.apt("install", "--no-install-recommends", "curl", "iproute2")
        guide = self.do("cat", "/usr/share/doc/spotter-emulator/README.md")
        three, curl = re.findall(r"(?:^    .+\n)+", guide, re.M)[:2]
        self.assertEqual(len(three.splitlines()), 3)
        (health,) = re.findall(r"`(curl [^`]+/_spotter/health)`", guide)
        (self.root.shared / "typed").write_text(
            f"{three}{curl}echo; {health}\n"
            'eval "$(spotter-emulator env)"; echo "$AWS_ENDPOINT_URL $AWS_SECRET_ACCESS_KEY"\n'
            "spotter-emulator reset; spotter-emulator state; spotter-emulator stop; wait\n")
        self.do("useradd", "--create-home", "somebody")
        # Its own network: the ports are those that everybody's have by default.
        said = self.do("unshare", "--net", "/bin/sh", "-c", "ip link set lo up && "
                       "exec su - somebody -c '/bin/bash -e /srv/typed'")
        self.assertRegex(said, r"\ni-[0-9a-f]+ http://127.0.0.1:1338\n")
        self.assertRegex(said, r'\n\{"action": ?"terminate", ?"time": ?"20[-0-9]+T[0-9:]+Z"\}\n')
        self.assertRegex(said, rf'\n\{{.*"status":"running","version":"{VERSION}"\}}\n')
        self.assertRegex(said, r"\nhttp://127.0.0.1:4566 emulator-[0-9a-f]{40}\n")
        self.assertIn("\ninstances: 0\n", said)

    def test_the_other_packages_have_all_that_they_need(self):
        self.make_root()
        self.install("libspotter", "spotter-emulator")
        self.assertIn("serve", self.do("spotter-emulator", "--help"))
        self.apt("install", "--no-install-recommends", "python3-minimal", "python3")
        script = "import spotter; spotter.open('/root/saved').save(1, x=b'y')"
        self.do("python3", "-c", script)
        self.assertIn("step-", self.do("ls", "/root/saved"))
        self.assertNotIn("not found", self.do("ldd", "/usr/lib/libspotter_s3.so"))
        # libtorch is large: that it could be installed is enough.
        self.apt("install", "--simulate", f"/srv/{self.package('spotter-trainer').name}")
        self.apt("purge", "libspotter", "spotter-emulator")
        self.do("rm", "-r", "/root/saved")
        self.assertEqual(self.ours(), [])


if __name__ == "__main__":
    harness.main()
