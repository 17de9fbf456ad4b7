"""`spotter prepare` on a cheap instance: the job's volume made, filled and free again, before any
other instance is there; broken off, run again, refused while somebody is at work."""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import between
import ec2
import fake_trainer
import life
import shares
import sshd
import volumes
from emulator import wait

# Runs whatever lies in commands/, one after the other, as a person does who is logged in.
SHELL = """#!/bin/sh
cat >job.yaml <<'END'
{job}
END
while :; do
  for each in {commands}/*.sh; do
    [ -e "$each" ] || continue
    mv "$each" "$each.taken"
    bash "$each.taken" >"$each.out" 2>&1
    echo $? >"$each.code.new"
    mv "$each.code.new" "$each.code"
  done
  sleep 0.1
done
"""


SHUTDOWN = """#!/usr/bin/python3
import json, os, sys, urllib.request
sys.path.insert(0, "{e2e}")
import ec2
there = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254") + "/latest/"
ask = lambda what, method, **headers: urllib.request.urlopen(urllib.request.Request(
    there + what, method=method, headers=headers)).read().decode()
token = ask("api/token", "PUT", **{{"X-aws-ec2-metadata-token-ttl-seconds": "60"}})
self = ask("meta-data/instance-id", "GET", **{{"X-aws-ec2-metadata-token": token}})
api = os.environ.get("AWS_ENDPOINT_URL", "{api}")
ec2.Client(api, ec2.secret_of("{world}")).call("TerminateInstances", InstanceId=[self])
"""


class Web(http.server.BaseHTTPRequestHandler):
    """A folder's files, with ETags and ranges; the first answer about each is broken off."""

    begun = set()

    def do_GET(self):
        path = pathlib.Path(self.folder + self.path.split("?")[0])
        if not path.is_file():
            self.send_error(404)
            return
        content = path.read_bytes()
        tag = '"' + hashlib.md5(content).hexdigest() + '"'
        with open(self.folder + "/asked", "a", encoding="utf-8") as log:
            log.write(self.headers.get("Range", "all") + "\n")
        if self.headers.get("If-None-Match") == tag:
            self.send_response(304)
            self.end_headers()
            return
        begin = 0
        if "Range" in self.headers and self.headers.get("If-Range") == tag:
            begin = int(self.headers["Range"].split("=")[1].split("-")[0])
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        end = None if path in self.begun else len(content) // 2
        self.begun.add(path)
        self.wfile.write(content[begin:end])


class Preparing(life.Life):
    steps = 20

    def setUp(self):
        super().setUp()
        self.commands = self.world.workplace / "commands"
        self.commands.mkdir()
        self.local = self.world.workplace / "local"
        (self.local / "deep").mkdir(parents=True)
        (self.local / "deep/labels").write_text("cat dog\n")
        self.put("train/a/1.bin", b"1" * 3_000_000)
        self.put("train/2.bin", b"2" * 10)

    def put(self, key, content):
        path = self.world.directory / "s3/data" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def serve(self, **files):
        """A server of the web, in the network of the cheap instance."""
        self.web = self.world.workplace / "web"
        self.web.mkdir()
        for name, content in files.items():
            (self.web / name).write_bytes(content)
        return self.begin_there(f"setsid /usr/bin/python3 {__file__} --web {self.web} 8093 & "
                                "while ! (: </dev/tcp/127.0.0.1/8093); do sleep 0.1; done")

    def a_job(self, *sources, **more):
        sources = sources or ({"from": "s3://data/train/", "to": "data/train"},
                              {"from": str(self.local), "to": "labels"})
        launch = {"image": "ami-0123456789abcdef0", "instance_types": ["g5.xlarge"],
                  "zones": self.world.zones, "profile": ec2.ROLE,
                  "volume": {"size": 1, "zone": self.zone}}
        journal = self.world.shared / "journal"
        journal.mkdir(exist_ok=True)
        journal.chmod(0o777)
        self.journal = journal
        env = {"STEPS": str(self.steps), "JOURNAL": str(journal), **more.pop("env", {})}
        return self.job(env=env, prepare=list(sources), launch=launch, **more)

    def cheap_instance(self, job, zone=None):
        """An instance of the job's role, and its prompt."""
        text = life.harness.jobs.yaml(job)
        self.world.allow_only(text)
        user_data = SHELL.format(job=text, commands=self.commands)
        answer = self.ec2.call(
            "RunInstances", ImageId="ami-0123456789abcdef0", InstanceType="t3.micro", MinCount=1,
            MaxCount=1, IamInstanceProfile={"Name": ec2.ROLE},
            Placement={"AvailabilityZone": zone or self.zone},
            UserData=base64.b64encode(user_data.encode()).decode())
        self.cheap = answer.items("instancesSet")[0].text("instanceId")
        return self.cheap

    def begin_there(self, command):
        self.asked = getattr(self, "asked", 0) + 1
        file = self.commands / f"{self.asked}.sh"
        file.with_suffix(".new").write_text(command)
        file.with_suffix(".new").rename(file)
        return file

    def end_there(self, file, code=0):
        wait("the command to end", lambda: pathlib.Path(f"{file}.code").exists())
        said = pathlib.Path(f"{file}.out").read_text()
        self.assertEqual(pathlib.Path(f"{file}.code").read_text().strip(), str(code), said)
        return said

    def prepare(self, code=0):
        return self.end_there(self.begin_there(f"{self.world.bin}/spotter prepare job.yaml"), code)

    def the_volume(self):
        found = self.ec2.volumes()
        self.assertEqual(len(found), 1)
        return found[0]

    def assert_free(self):
        self.assertEqual(self.the_volume().text("status"), "available")
        self.end_there(self.begin_there('! grep -q " $SPOTTER_MOUNT " /proc/self/mountinfo'))

    def end_cheap(self):
        self.ec2.call("TerminateInstances", InstanceId=[self.cheap])
        wait("it to be gone", lambda: all(
            it.text("instanceState/name") == "terminated" for it in self.ec2.instances()))


class Prepare(Preparing):
    def test_made_filled_and_trained_on(self):
        content = os.urandom(2_000_000)
        url = "http://127.0.0.1:8093/images?v=1"
        check = ('d=$SPOTTER_STORAGE; [ $(wc -c <$d/data/train/a/1.bin) = 3000000 ] && '
                 '[ -w $d/data/train ] && grep -q cat $d/labels/deep/labels && '
                 '[ $(wc -c <$d/web/images) = 2000000 ] && exec ./train.py')
        job = self.a_job({"from": "s3://data/train/", "to": "data/train"},
                         {"from": str(self.local), "to": "labels"},
                         {"from": url, "to": "web", "sha256": hashlib.sha256(content).hexdigest()},
                         trainer={"command": check})
        self.cheap_instance(job)
        self.end_there(self.serve(images=content))
        said = self.prepare()
        self.assertIn("2 of them fetched now", said)
        volume = self.the_volume()
        tags = volume.tags()
        self.assertEqual(volume.text("availabilityZone"), self.zone)
        self.assertEqual((tags["spotter:job"], tags["spotter:generation"]), ("story", "1"))
        self.assertRegex(tags["spotter:prepared"], r"^[0-9a-f]{16} \d+$")
        self.assert_free()
        # Twice in a row: nothing is brought again; what has come since, is.
        self.put("train/3.bin", b"3")
        said = self.prepare()
        self.assertIn("3 files of s3://data/train/, 1 of them fetched now", said)
        self.assertIn("1 files of " + str(self.local) + ", 0 of them", said)
        self.assertIn(f"1 files of {url}, 0 of them", said)
        self.assertEqual((self.web / "asked").read_text(), "all\nbytes=1000000-\n",
                         "broken off, gone on with, and not asked for again: its sum is known")
        self.assert_free()
        self.end_cheap()
        manifest = json.loads((volumes.copy_out(
            self.world, volume.text("volumeId"), ".spotter") / "prepared.json").read_text())
        self.assertEqual([it["files"] for it in manifest["sources"]][:2], [3, 1])
        self.launch(job)
        self.assert_ended_well()

    def test_stopped_on_the_way_it_lets_go_and_goes_on_the_next_time(self):
        self.put("train/large.bin", os.urandom(40_000_000))
        job = self.a_job({"from": "s3://data/train/", "to": "data"})
        self.cheap_instance(job)
        running = self.begin_there(
            f"exec setsid {self.world.bin}/spotter prepare job.yaml & pid=$!; "
            f"while ! grep -q 'prepared on' {self.commands}/1.sh.out; do sleep 0.05; done; "
            "kill -INT $pid; wait $pid")
        said = self.end_there(running, code=75)
        self.assertIn("run it again", said)
        self.assert_free()
        self.prepare()
        self.assert_free()
        generation = self.the_volume().tags()["spotter:generation"]
        self.assertIn(generation, ("1", "2"), "each time it is claimed again")

    def test_killed_it_is_taken_up_again(self):
        self.put("train/large.bin", os.urandom(40_000_000))
        self.cheap_instance(self.a_job())
        running = self.begin_there(
            f"{self.world.bin}/spotter prepare job.yaml & pid=$!; "
            "while ! ls $SPOTTER_MOUNT/.spotter/volume.json; do sleep 0.05; done; "
            "kill -KILL $pid; wait $pid")
        self.end_there(running, code=137)
        self.assertEqual(self.the_volume().text("status"), "in-use")
        self.prepare()
        self.assert_free()

    def test_it_is_refused_while_the_job_is_at_work(self):
        job = self.a_job(env={"STEPS": "100000"})
        self.volume()
        one = self.launch(job)
        self.wait_training(one, 1)
        self.cheap_instance(job)
        said = self.prepare(code=1)
        self.assertRegex(said, f"{self.fleet} is at work: end it first: `spotter stop story")
        self.ec2.call("CancelSpotFleetRequests", SpotFleetRequestId=[self.fleet],
                      TerminateInstances=False)
        said = self.prepare(code=1)
        self.assertRegex(said, f"(attached to|instance) {one}")
        self.assertGreater(self.step_of(one), 0)
        self.wait_more_steps(one)

    def test_what_has_another_file_system_or_is_elsewhere_is_left_alone(self):
        self.cheap_instance(self.a_job(), zone=self.world.zones[1])
        volume = self.volume()
        self.assertIn("run it on one of that zone", self.prepare(code=1))
        self.ec2.call("DeleteVolume", VolumeId=volume)
        self.wait_volume(volume, "gone")
        volume = self.volume(zone=self.world.zones[1], tags={"Name": life.harness.jobs.TAG})
        self.assertIn("spotter:format=blank", self.prepare(code=1))
        self.assert_free()

    def test_what_is_wrong_at_the_source_is_named(self):
        job = self.a_job({"from": "s3://data/nothing/", "to": "data"})
        self.cheap_instance(job)
        self.assertIn("there is nothing at s3://data/nothing/", self.prepare(code=1))
        self.assert_free()


class PrepareRemotely(Preparing):
    """`spotter prepare` where a person sits: an instance comes, does it, and is gone."""

    def setUp(self):
        super().setUp()
        script = self.world.bin / "shutdown"  # in the place of the machine's own
        e2e = pathlib.Path(__file__).resolve().parents[1]
        script.write_text(SHUTDOWN.format(e2e=e2e, api=self.ec2.endpoint,
                                          world=self.world.directory))
        script.chmod(0o755)

    def remotely(self, job, *options, code=0, before_instance=None, command="prepare"):
        text = life.harness.jobs.yaml(job) + "\n"
        self.world.allow_only(text)
        file = self.world.workplace / "job.yaml"
        file.write_text(text)
        environment = {**self.world.launcher(), "AWS_EC2_METADATA_DISABLED": "true",
                       "SPOTTER_MOUNT": "/mnt/spotter"}
        before = len(self.ec2.instances())
        with subprocess.Popen([self.world.bin / "spotter", command, file, *options],
                              env=environment, text=True, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL) as running:
            self.running = running
            if before_instance:  # what lies here is no instance's: it is gone when one comes
                wait("the instance", lambda: len(self.ec2.instances()) > before, every=0.02)
                before_instance()
            said = running.communicate(timeout=200)[1]
        self.assertEqual(running.returncode, code, said)
        return said

    def assert_nobody_is_left(self):
        self.assertEqual([it for it in self.ec2.instances()
                          if it.text("instanceState/name") != "terminated"], [])
        made = [event["subject"] for event in self.world.state()["events"]
                if event["kind"] == "fleet-submitted" and event["subject"].startswith("fleet-")]
        # They are of type instant: listed only by their ids.
        fleets = self.ec2.call("DescribeFleets", FleetId=made).items("fleetSet")
        self.assertEqual([it for it in fleets
                          if not it.text("fleetState").startswith("deleted")], [])

    def test_an_instance_comes_and_does_it(self):
        (self.world.directory / "s3/way").mkdir(parents=True)
        (self.local / "large").write_bytes(os.urandom(20_000_000))
        os.utime(self.local / "large", (10**9, 10**9))  # what is as new as its copy is sent again
        os.utime(self.local / "deep/labels", (10**9, 10**9))
        own = {"from": str(self.world.workplace / "moved"), "to": "labels", "via": "s3://way/to"}
        self.local.rename(own["from"])
        time.sleep(2)  # the copies are younger by a second that S3 shows
        job = self.a_job({"from": "s3://data/train/", "to": "data"}, own)
        said = self.remotely(
            job, before_instance=lambda: pathlib.Path(own["from"]).rename(self.local))
        self.assertIn(f"2 files of {own['from']} are sent to s3://way/to/", said)
        self.assertIn("is ready, and free", said)
        volume = self.the_volume()
        self.assertEqual(volume.text("status"), "available")
        instance = self.ec2.instances()[0]
        self.assertEqual(instance.text("instanceType"), "t3.micro")
        self.assertEqual(instance.text("placement/availabilityZone"), self.zone)
        self.assertEqual(instance.text("instanceLifecycle"), "", "on demand")
        self.assert_nobody_is_left()
        self.put("train/3.bin", b"3")
        self.local.rename(own["from"])
        said = self.remotely(job, "--instance-type", "g5.xlarge")  # one that the launcher may have
        self.assertIn(f"0 files of {own['from']} are sent", said)
        self.assert_nobody_is_left()
        self.launch(self.a_job(trainer={"command": "cd $SPOTTER_STORAGE && "
                                                   "[ -e data/3.bin -a -e labels/large ] && "
                                                   "[ -e labels/deep/labels ] && cd code && "
                                                   "exec ./train.py"}),
                    besides=[it.text("instanceId") for it in self.ec2.instances()])
        self.assert_ended_well()

    def test_files_are_fetched_from_the_volume(self):
        """While it trains no other machine can; then of a job that stopped, and that finished."""
        (self.world.directory / "s3/seen").mkdir(parents=True)
        out = self.world.workplace / "out"

        def fetch(*paths, **more):
            return self.remotely(job, *paths, out, command="fetch", **more)

        job = self.a_job(env=self.held(12), publish="s3://seen/jobs")
        self.volume()
        one = self.launch(job)
        self.wait_training(one, 12)
        self.assertIn(f"fleet {self.fleet} is at work: end it first", fetch("checkpoints", code=1))
        self.ec2.call("CancelSpotFleetRequests", SpotFleetRequestId=[self.fleet],
                      TerminateInstances=True)
        wait("the volume to be free", lambda: self.the_volume().text("status") == "available")
        self.assertIn("is ended", fetch(
            "checkpoints", code=1,
            before_instance=lambda: self.running.send_signal(signal.SIGINT)))
        wait("the volume to be free", lambda: self.the_volume().text("status") == "available")
        wait("nobody to be left", lambda: all(
            it.text("instanceState/name") == "terminated" for it in self.ec2.instances()))
        self.assertIn("sends the files of vol-", fetch("checkpoints"))
        self.assert_nobody_is_left()
        there = volumes.copy_out(self.world, self.the_volume().text("volumeId"), "checkpoints")
        files = [it.relative_to(there) for it in there.rglob("*") if it.is_file()]
        self.assertTrue(files)
        for each in files:
            self.assertEqual((out / "checkpoints" / each).read_bytes(),
                             (there / each).read_bytes(), each)
        self.gate.touch()
        self.launch(job, besides=[it.text("instanceId") for it in self.ec2.instances()])
        self.wait_end()
        wait("the volume to be free", lambda: self.the_volume().text("status") == "available")
        self.assertNotIn("sends", fetch("result"))
        self.assertEqual((out / "result/weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.assertIn("sends the files of vol-", fetch("log", "result"))
        self.assertIn("step", (out / "log/trainer.log").read_text())
        self.assertIn("none of the files", self.console_of(fetch("none", code=1)))
        self.assert_nobody_is_left()
        self.assert_ended_well()

    @unittest.skipIf(sshd.why_not(), sshd.why_not())
    def test_files_are_fetched_from_a_share(self):
        """Of a job that stopped: by a machine that mounts the share, and is gone then."""
        self.root_only("every instance mounts for itself")
        (self.world.directory / "s3/seen").mkdir(parents=True)
        server = sshd.Sshd(self.world.workplace / "server")
        self.addCleanup(server.close)
        self.addCleanup(shares.forget_mounts, self.world.workplace)
        self.addCleanup(self.world.stop)  # before the server goes
        folder, out = self.world.workplace / "files", self.world.workplace / "out"
        folder.mkdir()
        job = self.a_job(env=self.held(12), publish="s3://seen/jobs",
                         storage=server.storage(folder, "${SPOTTER_MOUNT}"))
        del job["prepare"], job["launch"]["volume"]
        one = self.launch(job)
        self.wait_training(one, 12)
        self.assertIn(f"fleet {self.fleet} is at work: end it first",
                      self.remotely(job, "checkpoints", out, command="fetch", code=1))
        self.ec2.call("CancelSpotFleetRequests", SpotFleetRequestId=[self.fleet],
                      TerminateInstances=True)
        wait("the instance to be gone", lambda: all(
            it.text("instanceState/name") == "terminated" for it in self.ec2.instances()))
        self.assertIn("sends the files of the share",
                      self.remotely(job, "checkpoints", out, command="fetch"))
        self.assert_nobody_is_left()
        there = folder / self.job_name / "checkpoints"
        files = [it.relative_to(there) for it in there.rglob("*") if it.is_file()]
        self.assertTrue(files)
        for each in files:
            self.assertEqual((out / "checkpoints" / each).read_bytes(),
                             (there / each).read_bytes(), each)

    def test_ctrl_c_after_each_change_of_a_fetch_leaves_nothing_that_costs(self):
        """Also where EC2's answer is lost with it. The volume is blank: nothing is to be sent."""
        (self.world.directory / "s3/seen").mkdir(parents=True)
        text = life.harness.jobs.yaml(self.a_job(publish="s3://seen/jobs")) + "\n"
        self.world.allow_only(text)
        self.volume()
        file = self.world.workplace / "job.yaml"
        file.write_text(text)
        out = self.world.workplace / "out"
        count, reached = 0, True
        while reached:
            count += 1
            code, said, reached = between.interrupted(
                self.world.api, count,
                [self.world.bin / "spotter", "fetch", file, "checkpoints", out],
                {**self.world.launcher(), "AWS_EC2_METADATA_DISABLED": "true",
                 "SPOTTER_MOUNT": "/mnt/spotter"}, between.changes)
            self.assertNotEqual(code, 0, said)
            wait("nobody to be left", lambda: all(
                it.text("instanceState/name") == "terminated" for it in self.ec2.instances()))
            wait("the volume to be free", lambda: self.the_volume().text("status") == "available")
            self.assert_nobody_is_left()
            self.assertFalse(out.exists(), said)
        self.assertGreater(count, 3)
        self.assertEqual(self.ec2.snapshots(), [])

    def console_of(self, said):
        self.assertIn("has sent nothing; why, it says here: aws ec2 get-console-output", said)
        return self.world.console(said.split()[-1])

    def test_an_instance_that_ec2_cannot_launch_is_not_waited_for(self):
        for zone in self.world.zones:
            self.world.control("fault", "capacity", zone, "on-demand=0")
        said = self.remotely(self.a_job({"from": "s3://data/train/", "to": "data"}), code=1)
        self.assertIn("EC2 launched no instance of type t3.micro: InsufficientInstanceCapacity",
                      said)
        self.assert_nobody_is_left()

    def test_what_went_wrong_there_is_reported_and_the_machine_ends(self):
        said = self.remotely(self.a_job({"from": "s3://data/nothing/", "to": "data"}), code=1)
        self.assertIn("the volume is not prepared", said)
        console = self.world.console(self.ec2.instances()[0].text("instanceId"))
        self.assertIn("there is nothing at s3://data/nothing/", console)
        self.assert_nobody_is_left()
        said = self.remotely(self.a_job(), code=2)
        self.assertIn(f"by way of which place in S3 {self.local} goes", said)


if __name__ == "__main__":
    if "--web" in sys.argv:
        Web.folder = sys.argv[2]
        http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Web).serve_forever()
    life.harness.main()
