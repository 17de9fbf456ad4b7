"""AWS Batch as boto3 sees it, every answer judged against botocore's service model."""

import json
import os
import warnings

from served import REGION, ServedTest, eventually

try:
    import boto3
    import botocore.config
    import botocore.exceptions
except ImportError:
    boto3 = None

TYPES = {"string": str, "integer": int, "long": int, "boolean": bool, "float": float,
         "double": float}


def strangers(value, shape, path):
    """What of an answer the model has no place for."""
    kind = shape.type_name
    if kind == "structure":
        if not isinstance(value, dict):
            yield f"{path}: no object"
            return
        for name, member in value.items():
            if name not in shape.members:
                if name not in ("isCancelled", "isTerminated"):  # newer than Debian's model
                    yield f"{path}.{name}"
            else:
                yield from strangers(member, shape.members[name], f"{path}.{name}")
        for name in shape.required_members:
            if name not in value and (shape.name, name) != ("JobDetail", "startedAt"):
                yield f"{path}.{name}: missing"
    elif kind == "list":
        for number, member in enumerate(value):
            yield from strangers(member, shape.member, f"{path}[{number}]")
    elif kind == "map":
        for name, member in value.items():
            yield from strangers(member, shape.value, f"{path}.{name}")
    elif not isinstance(value, TYPES[kind]) or (kind != "boolean" and isinstance(value, bool)):
        yield f"{path}: {value!r} is no {kind}"
    elif getattr(shape, "enum", None) and value not in shape.enum:
        if value != "SPOT_PRICE_CAPACITY_OPTIMIZED":  # newer than Debian's model
            yield f"{path}: {value!r} is none of {shape.enum}"


class FarmTest(ServedTest):
    """One emulator, and on it a compute environment of two machines of 8 vCPUs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        warnings.simplefilter("ignore", ResourceWarning)
        cls.found = []
        cls.batch = cls.client()
        cls.batch.meta.events.register("response-received.batch.*", cls.judge)
        cls.served.command("fault", "batch-entry", "of=100ms")
        cls.furnish()

    @classmethod
    def client(cls, **keys):
        return boto3.client(
            "batch", region_name=REGION, endpoint_url=cls.served.api,
            **{**cls.served.keys, **keys},
            config=botocore.config.Config(retries={"max_attempts": 0}))

    @classmethod
    def judge(cls, response_dict, event_name, **_more):
        if response_dict["status_code"] != 200:
            return
        action = event_name.rpartition(".")[2]
        shape = cls.batch.meta.service_model.operation_model(action).output_shape
        cls.found += strangers(json.loads(response_dict["body"]), shape, action)

    def tearDown(self):
        self.assertEqual(self.found, [])

    @classmethod
    def furnish(cls):
        cls.batch.create_compute_environment(
            computeEnvironmentName="spot", type="MANAGED", computeResources={
                "type": "SPOT", "allocationStrategy": "SPOT_CAPACITY_OPTIMIZED", "minvCpus": 0,
                "maxvCpus": 16, "instanceTypes": ["p3.2xlarge"],
                "subnets": ["subnet-1a", "subnet-1b"], "securityGroupIds": ["sg-1a"],
                "instanceRole": "ecsInstanceRole"})
        cls.valid("describe_compute_environments", computeEnvironments=["spot"])
        cls.batch.create_job_queue(
            jobQueueName="queue", priority=1,
            computeEnvironmentOrder=[{"order": 1, "computeEnvironment": "spot"}])
        cls.valid("describe_job_queues", jobQueues=["queue"])

    @classmethod
    def valid(cls, question, **names):
        def is_valid():
            answer = getattr(cls.batch, question)(**names)
            answer.pop("ResponseMetadata")
            (rows,) = answer.values()
            return rows and rows[0]["status"] == "VALID"
        if not eventually(is_valid):
            raise RuntimeError(f"{question} {names}: not VALID")

    def define(self, name, script, vcpus=8, **more):
        return self.batch.register_job_definition(
            jobDefinitionName=name, type="container", containerProperties={
                "image": "trainer:1", "command": ["/bin/sh", "-c", script],
                "resourceRequirements": [{"type": "VCPU", "value": str(vcpus)},
                                         {"type": "MEMORY", "value": "1024"}],
                **more.pop("container", {})}, **more)["jobDefinitionArn"]

    def submit(self, definition, **more):
        return self.batch.submit_job(
            **{"jobName": definition, "jobQueue": "queue", "jobDefinition": definition,
               **more})["jobId"]

    def job(self, job):
        return self.batch.describe_jobs(jobs=[job])["jobs"][0]

    def until(self, job, *states):
        self.assertTrue(eventually(lambda: self.job(job)["status"] in states),
                        f"{self.job(job)} is not {states}")
        return self.job(job)

    def log(self, job, attempt=-1):
        stream = self.job(job)["attempts"][attempt]["container"]["logStreamName"]
        path = os.path.join(self.served.folder, "batch", stream + ".log")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def host(self, job):
        arn = self.job(job)["container"]["containerInstanceArn"]
        return arn.rpartition("/")[2]

    def refused(self, call, **arguments):
        with self.assertRaises(botocore.exceptions.ClientError) as raised:
            call(**arguments)
        error = raised.exception.response["Error"]
        return error["Code"], error["Message"]
