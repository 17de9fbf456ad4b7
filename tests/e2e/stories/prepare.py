"""`spotter prepare` on a cheap instance: the job's volume made, filled and free again, before any
other instance is there; broken off, run again, refused while somebody is at work."""

import base64
import hashlib
import http.server
import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import life
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
        self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        end = None if path in self.begun else len(content) // 2
        self.begun.add(path)
        self.wfile.write(content[begin:end])


class Prepare(life.Life):
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

    def end_there(self, file, code=0, seconds=90):
        wait("the command to end", lambda: pathlib.Path(f"{file}.code").exists(), seconds)
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
            it.text("instanceState/name") == "terminated" for it in self.ec2.instances()), 60)

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
        self.assertEqual(len(tags["spotter:prepared"]), 16)
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
        self.assertIn(generation, ("1", "2"), "each time it is claimed anew")

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


if __name__ == "__main__":
    if "--web" in sys.argv:
        Web.folder = sys.argv[2]
        http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), Web).serve_forever()
    life.harness.main()
