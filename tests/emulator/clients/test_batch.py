"""The `aws batch` command and boto3 against the emulator's AWS Batch, with jobs that run."""

import json
import os
import shutil
import subprocess
import unittest

from farm import FarmTest, boto3
from served import REGION, eventually

AWS = "/usr/bin/aws" if os.path.exists("/usr/bin/aws") else shutil.which("aws")


def processes(text):
    """Processes whose environment or command line holds the text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read()
            with open(f"/proc/{pid}/environ", "rb") as file:
                line += file.read()
        except OSError:
            continue
        if text.encode() in line and int(pid) != os.getpid():
            found.append(int(pid))
    return found


@unittest.skipUnless(boto3, "boto3 is not installed for this interpreter (apt: python3-boto3)")
class Jobs(FarmTest):
    def test_a_job_runs_with_batchs_environment_and_its_parameters(self):
        self.define("hello", "env; echo said $0", parameters={"word": "nothing"},
                    container={"command": ["/bin/sh", "-c", "env; echo said $0", "Ref::word"],
                               "environment": [{"name": "A", "value": "1"}]})
        job = self.submit("hello", parameters={"word": "hi"}, containerOverrides={
            "environment": [{"name": "B", "value": "2 3"}]})
        done = self.until(job, "SUCCEEDED", "FAILED")
        self.assertEqual((done["status"], done["container"]["exitCode"]), ("SUCCEEDED", 0), done)
        lines = self.log(job).splitlines()
        for line in ("A=1", "B=2 3", "said hi", f"AWS_BATCH_JOB_ID={job}",
                     "AWS_BATCH_JOB_ATTEMPT=1", "AWS_BATCH_JQ_NAME=queue",
                     "AWS_BATCH_CE_NAME=spot"):
            self.assertIn(line, lines)
        self.assertNotIn("AWS_BATCH_JOB_ARRAY_INDEX", self.log(job))

    def test_an_array_gives_each_child_its_index(self):
        self.define("array", "echo $AWS_BATCH_JOB_ARRAY_INDEX of $AWS_BATCH_JOB_ARRAY_SIZE; "
                    "test $AWS_BATCH_JOB_ARRAY_INDEX != 1", vcpus=2)
        job = self.submit("array", arrayProperties={"size": 3})
        done = self.until(job, "FAILED")
        summary = done["arrayProperties"]["statusSummary"]
        self.assertEqual((summary["SUCCEEDED"], summary["FAILED"]), (2, 1))
        self.assertEqual(self.log(f"{job}:2"), "2 of 3\n")
        failed = self.batch.list_jobs(arrayJobId=job, jobStatus="FAILED")["jobSummaryList"]
        self.assertEqual([it["jobId"] for it in failed], [f"{job}:1"])
        self.assertEqual(failed[0]["container"]["exitCode"], 1)
        self.assertEqual(failed[0]["statusReason"], "Essential container in task exited")

    def test_a_reclaimed_hosts_job_is_stopped_and_tried_again_and_a_failed_script_is_not(self):
        # It notes the signal, and would not have ended by itself.
        script = ("trap 'echo stopped; exit 75' TERM; echo attempt $AWS_BATCH_JOB_ATTEMPT; "
                  "test $AWS_BATCH_JOB_ATTEMPT = 2 && exit 3; "
                  "while :; do sleep 0.05; done")
        retry = {"attempts": 5, "evaluateOnExit": [
            {"onStatusReason": "Host EC2*", "action": "RETRY"},
            {"onReason": "*", "action": "exit"}]}
        self.define("reclaimed", script, retryStrategy=retry)
        # On a busy machine a shell takes its time.
        self.served.command("fault", "batch-stop-timeout", "of=600s")
        self.addCleanup(self.served.command, "fault", "batch-stop-timeout", "of=30s")
        self.served.command("fault", "batch-drain", "on=true")  # as a launch template may say
        job = self.submit("reclaimed")
        self.until(job, "RUNNING")
        host = self.host(job)
        self.wait_for_log(job, "attempt 1")
        self.assertEqual(self.served.command("interrupt", host, "--in", "600s").returncode, 0)
        done = self.until(job, "FAILED", "SUCCEEDED")
        self.assertEqual([it["statusReason"] for it in done["attempts"]],
                         [f"Host EC2 (instance {host}) terminated.",
                          "Essential container in task exited"])
        self.assertEqual([it["container"]["exitCode"] for it in done["attempts"]], [75, 3])
        self.assertEqual(self.log(job, 0), "attempt 1\nstopped\n")

    def wait_for_log(self, job, text):
        stream = self.job(job)["container"]["logStreamName"]
        path = os.path.join(self.served.folder, "batch", stream + ".log")

        def written():
            if not os.path.exists(path):
                return False
            with open(path, encoding="utf-8") as file:
                return text in file.read()
        self.assertTrue(eventually(written), f"{path} never says {text!r}")

    def test_a_host_killed_without_a_notice_leaves_no_exit_code_and_no_process(self):
        self.define("killed", "sleep 1000 & (setsid sleep 1000 &); echo up; sleep 1000")
        job = self.submit("killed")
        self.until(job, "RUNNING")
        self.wait_for_log(job, "up")
        host = self.host(job)
        self.assertEqual(self.served.command("kill", host).returncode, 0)
        done = self.until(job, "FAILED")
        self.assertEqual(done["statusReason"], f"Host EC2 (instance {host}) terminated.")
        self.assertNotIn("exitCode", done["container"])
        self.assertTrue(eventually(lambda: not processes(f"AWS_BATCH_JOB_ID={job}")))

    def test_terminate_stops_what_runs_and_kills_what_does_not_listen(self):
        self.define("deaf", "trap '' TERM; (setsid sh -c 'trap \"\" TERM; sleep 1000' &); "
                    "echo up; while :; do sleep 0.05; done", retryStrategy={"attempts": 3})
        job = self.submit("deaf")
        self.until(job, "RUNNING")
        self.wait_for_log(job, "up")
        self.batch.cancel_job(jobId=job, reason="no use")
        self.assertEqual(self.job(job)["status"], "RUNNING")
        self.batch.terminate_job(jobId=job, reason="no more")
        done = self.until(job, "FAILED")
        self.assertEqual(done["statusReason"], "no more")
        self.assertEqual(done["container"]["exitCode"], 137)
        self.assertEqual(len(done["attempts"]), 1)
        self.assertTrue(eventually(lambda: not processes(f"AWS_BATCH_JOB_ID={job}")))

    def test_a_command_that_is_nowhere_cannot_start(self):
        self.define("nowhere", "", container={"command": ["no-such-program"]})
        done = self.until(self.submit("nowhere"), "FAILED")
        self.assertTrue(done["container"]["reason"].startswith("CannotStartContainerError"), done)
        self.assertNotIn("exitCode", done["container"])

    def test_a_job_waits_for_another(self):
        self.define("first", "exit 1")
        self.define("second", "true")
        first = self.submit("first")
        second = self.submit("second", dependsOn=[{"jobId": first}])
        self.assertEqual(self.until(second, "FAILED")["statusReason"], "Dependent Job failed")

    def test_lists_are_filtered_and_paged(self):
        self.define("listed", "true", vcpus=1)
        jobs = {self.submit("listed", jobName=f"Listed-{number}") for number in range(3)}
        pages = list(self.batch.get_paginator("list_jobs").paginate(
            jobQueue="queue", filters=[{"name": "JOB_NAME", "values": ["listed-*"]}],
            PaginationConfig={"PageSize": 2}))
        self.assertEqual([len(page["jobSummaryList"]) for page in pages], [2, 1])
        self.assertEqual({it["jobId"] for page in pages for it in page["jobSummaryList"]}, jobs)
        for job in jobs:
            self.until(job, "SUCCEEDED")


@unittest.skipUnless(boto3, "boto3 is not installed for this interpreter (apt: python3-boto3)")
class Refusals(FarmTest):
    def test_what_is_refused_says_why(self):
        guessing = self.client(aws_secret_access_key="guess")
        self.assertEqual(self.refused(guessing.describe_job_queues)[0],
                         "InvalidSignatureException")
        code, message = self.refused(self.batch.submit_job, jobName="a", jobQueue="none",
                                     jobDefinition="none")
        self.assertEqual(code, "ClientException")
        self.assertIn("Job queue none does not exist", message)
        self.define("refused", "true")
        for more in ({"arrayProperties": {"size": 1}}, {"arrayProperties": {"size": 10001}},
                     {"jobName": "a b"}, {"retryStrategy": {"attempts": 11}},
                     {"timeout": {"attemptDurationSeconds": 59}}, {"jobDefinition": "refused:7"},
                     {"dependsOn": [{"jobId": "nobody"}]},
                     {"containerOverrides": {"environment": [
                         {"name": "AWS_BATCH_JOB_ID", "value": "x"}]}}):
            arguments = {"jobName": "a", "jobQueue": "queue", "jobDefinition": "refused", **more}
            self.assertEqual(self.refused(self.batch.submit_job, **arguments)[0],
                             "ClientException", more)
        self.served.command("fault", "fail", "SubmitJob", "1", "InternalError")
        self.assertEqual(self.refused(self.batch.submit_job, jobName="a", jobQueue="queue",
                                      jobDefinition="refused")[0], "ServerException")

    def test_tags_are_kept(self):
        arn = self.define("tagged", "true", tags={"a": "1"})
        self.batch.tag_resource(resourceArn=arn, tags={"b": "2"})
        self.batch.untag_resource(resourceArn=arn, tagKeys=["a"])
        self.assertEqual(self.batch.list_tags_for_resource(resourceArn=arn)["tags"], {"b": "2"})
        self.batch.deregister_job_definition(jobDefinition=arn)
        found = self.batch.describe_job_definitions(jobDefinitionName="tagged")["jobDefinitions"]
        self.assertEqual([it["status"] for it in found], ["INACTIVE"])


@unittest.skipUnless(AWS and boto3, "the aws command is not installed (apt: awscli)")
class AwsCommand(FarmTest):
    def aws(self, *words):
        environment = {
            "PATH": os.environ["PATH"], "HOME": self.served.folder, "AWS_PAGER": "",
            **self.served.environment, "AWS_MAX_ATTEMPTS": "1", "AWS_DEFAULT_REGION": REGION}
        done = subprocess.run([AWS, "--endpoint-url", self.served.api, "--output", "json", "batch",
                               *words], env=environment, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def test_a_job_from_its_definition_to_its_end_and_everything_deleted(self):
        definition = {"jobDefinitionName": "by-hand", "type": "container", "containerProperties": {
            "image": "busybox", "vcpus": 1, "memory": 64, "command": ["echo", "Ref::what"]}}
        self.aws("register-job-definition", "--cli-input-json", json.dumps(definition))
        job = self.aws("submit-job", "--job-name", "one", "--job-queue", "queue",
                       "--job-definition", "by-hand", "--parameters", "what=hello")["jobId"]
        self.until(job, "SUCCEEDED")
        self.assertEqual(self.aws("describe-jobs", "--jobs", job)["jobs"][0]["container"][
            "command"], ["echo", "hello"])
        self.assertEqual(self.log(job), "hello\n")
        self.aws("update-job-queue", "--job-queue", "queue", "--state", "DISABLED")
        self.valid("describe_job_queues", jobQueues=["queue"])
        self.aws("delete-job-queue", "--job-queue", "queue")
        self.assertTrue(eventually(
            lambda: not self.batch.describe_job_queues(jobQueues=["queue"])["jobQueues"]))
        self.aws("update-compute-environment", "--compute-environment", "spot", "--state",
                 "DISABLED")
        self.valid("describe_compute_environments", computeEnvironments=["spot"])
        self.aws("delete-compute-environment", "--compute-environment", "spot")
        self.assertTrue(eventually(
            lambda: not self.aws("describe-compute-environments")["computeEnvironments"]))
        self.assertTrue(eventually(lambda: not self.served.control("state")["batch"]["hosts"]))


if __name__ == "__main__":
    unittest.main()
