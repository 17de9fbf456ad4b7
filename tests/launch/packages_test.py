"""launch.package with a place in S3: `spotter launch` sends the packages that it finds, once, under
their checksum, and never over another object."""

import base64
import hashlib
import pathlib
import shlex
import shutil
import unittest

import boto3

import launching
import served

setUpModule = launching.setUpModule
DEB, RPM, ARCHIVE = ("spotter_1.0_amd64.deb", "spotter-1.0-1.x86_64.rpm",
                     "spotter-1.0-linux-x86_64.tar.gz")


class Packages(launching.LaunchTest):
    def setUp(self):
        super().setUp()
        self.s3 = boto3.client("s3", region_name=served.REGION, endpoint_url=self.served.api,
                               **self.served.keys)
        self.addCleanup(self.s3.close)
        self.bucket = self.name.replace("-", "")[:40]
        (pathlib.Path(self.served.folder) / "s3" / self.bucket).mkdir(parents=True)
        self.package = f"  package: {{s3: s3://{self.bucket}/all/}}\n"

    def put(self, *names, folder="."):
        (self.folder / folder).mkdir(exist_ok=True)
        for name in names:
            (self.folder / folder / name).write_bytes(f"this is {name}".encode())

    def key(self, name):
        return f"all/{hashlib.sha256(f'this is {name}'.encode()).hexdigest()}/{name}"

    def objects(self):
        found = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {it["Key"]: it["ETag"] for it in found}

    def user_data(self):
        return (pathlib.Path(self.served.folder) / "instances" / self.one_instance()
                / "user-data").read_text()

    def test_what_lies_beside_the_job_is_sent_with_its_checksum(self):
        self.put(DEB, RPM, ARCHIVE, "spotter-trainer_1.0_amd64.deb", "libspotter_1.0_amd64.deb")
        self.limit(self.job(self.package))
        said = self.spotter("launch", self.job(self.package)).stderr
        self.served.command("policy", "user")  # the test may look
        # Who launches may not delete: what the check has written stays, under one name.
        self.assertEqual(list(self.objects()),
                         sorted([*map(self.key, (DEB, RPM, ARCHIVE)), "all/doctor"]))
        for name in (DEB, RPM, ARCHIVE):
            self.assertIn(f"{name} is sent to s3://{self.bucket}/{self.key(name)}", said)
            head = self.s3.head_object(Bucket=self.bucket, Key=self.key(name),
                                       ChecksumMode="ENABLED")
            self.assertEqual(head["ChecksumSHA256"], base64.b64encode(
                hashlib.sha256(f"this is {name}".encode()).digest()).decode())
        script = self.user_data()
        for name in (DEB, RPM, ARCHIVE):
            digest = self.key(name).split("/")[1]
            self.assertIn(f"{digest} s3://{self.bucket}/{self.key(name)}", script)

    def test_one_of_each_architecture_is_sent(self):
        arm = DEB.replace("amd64", "arm64")
        self.put(DEB, arm)
        self.launch(self.package)
        self.assertEqual(list(self.objects()), sorted(map(self.key, (DEB, arm))))
        script = self.user_data()
        for name in (DEB, arm):
            self.assertIn(f"/{name}\n", script.replace("'", "\n"))

    def test_launched_again_sends_nothing_and_another_build_beside_it(self):
        self.put(DEB)
        fleet = self.launch(self.package)
        before = self.objects()
        again = self.spotter("launch", self.job(self.package))
        self.assertEqual((again.stdout.strip(), self.objects()), (fleet, before))
        self.assertNotIn("is sent to", again.stderr)
        (self.folder / DEB).write_bytes(b"another build")
        self.assertNotEqual(self.launch(self.package), fleet, "its instances are to have it")
        self.assertEqual(len(self.objects()), 2)

    def test_an_object_that_is_another_one_stays_and_nothing_is_launched(self):
        self.put(DEB)
        for checksum in ({}, {"ChecksumAlgorithm": "SHA256"}):
            self.s3.put_object(Bucket=self.bucket, Key=self.key(DEB), Body=b"damaged", **checksum)
            before = self.objects()
            self.assertIn("is another object than", self.refused(self.package))
            self.assertEqual((self.objects(), self.fleets()), (before, []))
        self.s3.put_object(Bucket=self.bucket, Key=self.key(DEB), Body=f"this is {DEB}".encode())
        before = self.objects()
        self.assertTrue(self.launch(self.package))
        self.assertEqual(self.objects(), before, "what somebody has put there by hand will do")

    def test_a_place_may_have_the_names_of_the_scripts_own(self):
        self.put(DEB)
        self.launch(f"  package: {{s3: s3://{self.bucket}/@WORK@/@FAILING@/}}\n")
        script = self.user_data()
        self.assertIn(f"s3://{self.bucket}/@WORK@/@FAILING@/{self.key(DEB)[4:]}", script)
        self.assertIn("\nwork='serve'", script)

    def test_what_is_printed_sends_the_same(self):
        self.put(DEB)
        printed = self.spotter("launch", "--dry-run", self.job(self.package)).stdout
        line, = (it for it in printed.splitlines() if it.startswith("aws s3api put-object"))
        words = shlex.split(line)
        values = dict(zip(words[3::2], words[4::2]))
        self.assertEqual(self.objects(), {})
        with open(values["--body"], "rb") as body:
            self.s3.put_object(Bucket=values["--bucket"], Key=values["--key"], Body=body,
                               ChecksumSHA256=values["--checksum-sha256"])
        self.assertEqual(list(self.objects()), [self.key(DEB)])
        self.assertNotIn("is sent to", self.spotter("launch", self.job(self.package)).stderr)

    def test_a_file_or_a_folder_is_named(self):
        self.put(DEB)
        self.put(ARCHIVE, "mine.deb", folder="made")
        for file, sent in (("made", ARCHIVE), ("made/mine.deb", "mine.deb")):
            self.launch(self.package.replace("}", f", file: {file}}}"))
            self.assertIn(self.key(sent), self.objects())
        self.assertNotIn(self.key(DEB), self.objects())

    def test_what_cannot_be_sent_is_refused_before_anything_is_made(self):
        elsewhere = shutil.copy(launching.SPOTTER, self.folder / "spotter")  # no checkout's
        said = self.spotter("launch", self.job(self.package), program=elsewhere, code=2).stderr
        self.assertIn("put Spotter's .deb, .rpm or .tar.gz", said)
        self.put("spotter_1.1_amd64.deb", "spotter_1.2_amd64.deb")
        self.assertIn("name one in launch.package.file", self.refused(self.package, code=2))
        self.spotter("stop", self.job(self.package))  # it takes no package to stop
        for file, said in (("none.deb", "No such file"), ("job.yaml", "does not end with .deb"),
                           ("empty", "has no package"), ("none.rpm", "is empty")):
            (self.folder / "empty").mkdir(exist_ok=True)
            (self.folder / "none.rpm").touch()
            more = self.package.replace("}", f", file: {file}}}")
            self.assertIn(said, self.refused(more, code=2))
        self.assertEqual((self.objects(), self.fleets(), self.volumes()), ({}, [], []))

    def test_the_doctor_says_where_nothing_can_be_sent(self):
        self.put(DEB)
        self.spotter("launch", self.job(self.package))
        ok = self.spotter("doctor", self.job(self.package), code=None).stdout
        self.assertRegex(ok, f"ok +bucket +launch.package: s3://{self.bucket}/all/ can be written")
        self.limit(self.job(self.package), drop="SendWhatIsPrepared")
        failed = self.spotter("doctor", self.job(self.package), code=None).stdout
        self.assertRegex(failed, f"fail +bucket +s3://{self.bucket}/all/doctor")
        self.served.command("policy", "user")
        named = self.package.replace("all/", "none.deb").replace("}", f", sha256: {'a' * 64}}}")
        self.assertIn("none.deb", self.refused(named))


if __name__ == "__main__":
    unittest.main()
