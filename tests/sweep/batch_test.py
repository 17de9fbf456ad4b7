"""What `spotter sweep` has for AWS Batch, against that of the emulator: the jobs run."""

import json
import os
import subprocess
import unittest

from farm import FarmTest, boto3
from served import REGION, eventually

SPOTTER = os.environ.get("SPOTTER_PATH", "build/release/bin/spotter")
AWS = "/usr/bin/aws"

JOB = """\
job: {name}
storage: {{ebs: {{tag: {{Name: v}}}}}}
trainer: {{command: 'train --lr {{lr}}'}}
sweep:
  grid: {{lr: [{rates}]}}
  batch:
    image: trainer:1
    vcpus: 2
    memory: {memory}
    max_vcpus: {most}
    subnets: [subnet-1a, subnet-1b]
    security_groups: [sg-1]
    instance_types: [p3.2xlarge]
    environment: {{HELD: "{held}"}}
    command: |
      {script}
"""


class SweepTest(FarmTest):
    @classmethod
    def furnish(cls):
        """Nothing is there yet: submit makes it all."""

    def sweep(self, *words, region=REGION, endpoint=None):
        environment = {
            "PATH": os.environ["PATH"], "HOME": self.served.folder,
            **self.served.environment, "AWS_MAX_ATTEMPTS": "3", "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region, "AWS_PAGER": "",
            "AWS_ENDPOINT_URL_EC2": self.served.api,
            "AWS_ENDPOINT_URL_BATCH": endpoint or self.served.api}
        command = words if words[0] == "sh" else (SPOTTER, "sweep", *words)
        return subprocess.run(command, env=environment, text=True, capture_output=True,
                              timeout=120, check=False)

    def ok(self, *words):
        done = self.sweep(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def job_file(self, name, script, sets=3, **more):
        path = os.path.join(self.served.folder, name + ".yaml")
        values = {"most": 16, "memory": 1000, "held": self.served.folder, **more}
        with open(path, "w", encoding="utf-8") as file:
            file.write(JOB.format(name=name, script=script,
                                  rates=", ".join(f"0.{i + 1}" for i in range(sets)), **values))
        return path

    def states(self, path):
        done = self.sweep("status", "--json", path)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def until(self, path, **counts):
        self.assertTrue(eventually(lambda: self.states(path)["counts"] == counts),
                        f"{self.states(path)} is not {counts}")
        return self.states(path)


@unittest.skipUnless(boto3, "boto3 is not installed for this interpreter (apt: python3-boto3)")
class Life(SweepTest):
    def test_a_set_that_no_type_can_hold_is_refused_before_anything_is_made(self):
        path = self.job_file("large", "true", memory=62464)
        for words in (("submit", "--dry-run", path), ("submit", path)):
            done = self.sweep(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("one set asks for 2 vCPUs, 0 GPUs and 62464 MiB, and of "
                          "sweep.batch.instance_types p3.2xlarge has 8 vCPUs, 1 GPU and 62464 MiB, "
                          "of which Linux and ECS keep some percent", done.stderr)
            self.assertEqual(done.stdout, "")
        path = self.job_file("close", "true", memory=60000)
        done = self.sweep("submit", "--dry-run", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("may wait for ever as RUNNABLE", done.stderr)
        self.assertIn("submit-job", done.stdout)
        self.ok("submit", path)
        self.assertTrue(eventually(lambda: "  waits: 0 (MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
                                   in self.ok("status", path)))
        self.ok("cancel", path)

    def test_what_is_needed_is_made_once_and_failed_sets_are_tried_again_under_their_index(self):
        # Set 1 fails until the file `mended` is there.
        path = self.job_file(
            "life", 'i=${SPOTTER_SWEEP_INDICES:-$AWS_BATCH_JOB_ARRAY_INDEX}; echo index $i; '
            '[ "${i%/*}" != 1 ] || [ -e "$HELD/mended" ] || exit 4')
        job = self.ok("submit", path)
        found = self.until(path, SUCCEEDED=2, FAILED=1)
        self.assertEqual([it["job"] for it in found["indices"]], [f"{job}:{i}" for i in range(3)])
        self.assertEqual(found["indices"][1]["exit_code"], 4)
        attempts = self.batch.describe_jobs(jobs=[f"{job}:1"])["jobs"][0]["attempts"]
        self.assertEqual(len(attempts), 1, "a failed script is not tried again by itself")
        shown = self.sweep("status", path)
        self.assertEqual(shown.returncode, 1)
        self.assertIn("failed: 1 (exit 4, Essential container in task exited)", shown.stdout)

        again = self.sweep("submit", path)
        self.assertEqual((again.returncode, again.stdout.strip()), (0, job))
        self.assertIn("submitted already", again.stderr)
        self.assertIn("retry --failed", again.stderr)

        with open(os.path.join(self.served.folder, "mended"), "w", encoding="utf-8"):
            pass
        retried = self.ok("retry", "--failed", path)
        self.assertNotEqual(retried, job)
        found = self.until(path, SUCCEEDED=3)
        self.assertEqual(found["indices"][1]["job"], retried)
        self.assertEqual(self.log(retried), "index 1/3\n")
        done = self.sweep("retry", "--failed", path)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertIn("no set has failed", done.stderr)
        (definition,) = self.batch.describe_job_definitions(
            jobDefinitionName="spotter-life")["jobDefinitions"]
        self.assertEqual(definition["revision"], 1, "nothing has changed")

    def log(self, job):
        stream = self.batch.describe_jobs(jobs=[job])["jobs"][0]["container"]["logStreamName"]
        with open(os.path.join(self.served.folder, "batch", stream + ".log"),
                  encoding="utf-8") as file:
            return file.read()

    def test_a_changed_job_file_changes_what_is_there(self):
        path = self.job_file("change", "true")
        self.ok("submit", path)
        self.until(path, SUCCEEDED=3)
        path = self.job_file("change", "true # again", sets=2, most=8)
        self.ok("submit", path)
        self.until(path, SUCCEEDED=2)
        environment = self.batch.describe_compute_environments(
            computeEnvironments=["spotter-change"])["computeEnvironments"][0]
        self.assertEqual(environment["computeResources"]["maxvCpus"], 8)
        definitions = self.batch.describe_job_definitions(
            jobDefinitionName="spotter-change")["jobDefinitions"]
        self.assertEqual(sorted(it["revision"] for it in definitions), [1, 2])

    def test_one_set_is_a_plain_job_and_again_means_again(self):
        path = self.job_file("single", "echo $SPOTTER_SWEEP_INDICES", sets=1)
        first = self.ok("submit", path)
        self.until(path, SUCCEEDED=1)
        self.assertEqual(self.log(first), "0/1\n")
        self.assertNotIn("arrayProperties",
                         self.batch.describe_jobs(jobs=[first])["jobs"][0])
        self.assertNotEqual(self.ok("submit", "--again", path), first)

    def test_a_reclaimed_host_and_exit_75_are_tried_again(self):
        path = self.job_file(
            "retried", '[ "$AWS_BATCH_JOB_ATTEMPT" != 1 ] || exit 75', sets=2)
        job = self.ok("submit", path)
        self.until(path, SUCCEEDED=2)
        attempts = self.batch.describe_jobs(jobs=[f"{job}:0"])["jobs"][0]["attempts"]
        self.assertEqual([it["container"]["exitCode"] for it in attempts], [75, 0])

    def test_cancel_stops_what_runs_and_what_waits(self):
        path = self.job_file("cancel", "exec sleep 1000", sets=12)
        job = self.ok("submit", path)
        self.assertTrue(eventually(lambda: self.states(path)["counts"].get("RUNNING") == 8))
        self.assertEqual(self.ok("cancel", "--reason", "enough", path), job)
        found = self.until(path, FAILED=12)
        self.assertEqual({it["reason"] for it in found["indices"]}, {"enough"})
        self.assertIn("nothing of it is under way", self.sweep("cancel", path).stderr)


    def test_a_namesakes_sweep_is_neither_ended_nor_changed(self):
        mine = self.job_file("twin", "exec sleep 1000", sets=2)
        job = self.ok("submit", mine)
        self.assertTrue(eventually(lambda: self.states(mine)["counts"] == {"RUNNING": 2}))
        with open(mine, encoding="utf-8") as file:
            text = file.read().replace("{Name: v}", "{Name: others}")
        others = mine + ".others"
        with open(others, "w", encoding="utf-8") as file:
            file.write(text)
        for words in (["cancel", others], ["submit", "--again", others], ["status", others]):
            done = self.sweep(*words)
            self.assertEqual(done.returncode, 1, words)
            self.assertIn("two jobs are called twin: one on Name=others, and one on Name=v, to "
                          f"which the sweep {job} belongs", done.stderr)
        with open(others, "w", encoding="utf-8") as file:
            file.write(text.replace("0.1, 0.2", "0.1, 0.7").replace("max_vcpus: 16",
                                                                    "max_vcpus: 8"))
        done = self.sweep("submit", others)  # another list is another sweep, in the same queue
        self.assertEqual(done.returncode, 1)
        self.assertIn("Name=v, to which the compute environment spotter-twin belongs", done.stderr)
        environment = self.batch.describe_compute_environments(
            computeEnvironments=["spotter-twin"])["computeEnvironments"][0]
        self.assertEqual(environment["computeResources"]["maxvCpus"], 16)
        self.assertEqual(self.states(mine)["counts"], {"RUNNING": 2})
        self.ok("cancel", mine)
        self.until(mine, FAILED=2)


@unittest.skipUnless(boto3, "boto3 is not installed for this interpreter (apt: python3-boto3)")
class Troubles(SweepTest):
    def test_a_lost_answer_makes_no_second_array(self):
        path = self.job_file("lost", "true", sets=2)
        self.served.command("fault", "fail", "SubmitJob", "1", "timeout-carried-out")
        job = self.ok("submit", path)
        listed = self.batch.list_jobs(jobQueue="spotter-lost", filters=[
            {"name": "JOB_NAME", "values": ["lost-*"]}])["jobSummaryList"]
        self.assertEqual([it["jobId"] for it in listed], [job])

    def test_throttling_is_waited_out(self):
        path = self.job_file("throttled", "true", sets=2)
        self.served.command("fault", "fail", "CreateComputeEnvironment", "1",
                            "RequestLimitExceeded")
        self.ok("submit", path)

    def test_mistakes_are_reported_before_anything_is_made(self):
        path = self.job_file("wrong", "true")
        for words, status, why in (
                (["submit", path + ".none"], 2, "cannot read the job"),
                (["retry", path], 2, "--failed"),
                (["status", path], 1, "was not submitted"),
                (["retry", "--failed", path], 1, "was not submitted")):
            done = self.sweep(*words)
            self.assertEqual(done.returncode, status, words)
            self.assertIn(why, done.stderr)
        for old, new, why in (("grid: {lr: [0.1, 0.2, 0.3]}", "parameters: []", "is empty"),
                              ("--lr {lr}", "--lr {rate}", "rate"),
                              ("    image: trainer:1\n", "", "'image' is missing")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            self.assertIn(old, text)
            other = path + ".other"
            with open(other, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
            done = self.sweep("submit", other)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(why, done.stderr)
        self.assertIn("no region is known", self.sweep("submit", path, region="").stderr)
        self.assertEqual(
            self.batch.describe_compute_environments(
                computeEnvironments=["spotter-wrong"])["computeEnvironments"], [])

    def test_what_aws_refuses_is_reported_in_its_words(self):
        path = self.job_file("refused", "true")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("p3.2xlarge", "p3.2xlarge, x9.huge"))
        done = self.sweep("submit", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("CreateComputeEnvironment: ", done.stderr)
        self.assertIn("'x9.huge' is not known (ClientException)", done.stderr)

    @unittest.skipUnless(os.path.exists(AWS), "the aws command is not installed (apt: awscli)")
    def test_the_printed_requests_work_with_the_aws_command(self):
        path = self.job_file("printed", "true")
        printed = self.ok("submit", "--dry-run", path)
        self.assertEqual(self.batch.describe_compute_environments(
            computeEnvironments=["spotter-printed"])["computeEnvironments"], [])
        commands = ["aws batch" + it for it in printed.split("aws batch")[1:]]
        self.assertEqual([it.split()[2] for it in commands],
                         ["create-compute-environment", "create-job-queue",
                          "register-job-definition", "submit-job"])
        for command in commands:
            done = self.sweep("sh", "-c", command.replace(
                "aws ", f"{AWS} --endpoint-url {self.served.api} ", 1))
            self.assertEqual(done.returncode, 0, done.stderr)
            if "compute-environment" in command.split()[2]:
                self.valid("describe_compute_environments",
                           computeEnvironments=["spotter-printed"])
            if "job-queue" in command.split()[2]:
                self.valid("describe_job_queues", jobQueues=["spotter-printed"])
        self.until(path, SUCCEEDED=3)


if __name__ == "__main__":
    unittest.main()
