#!/usr/bin/python3
"""The main job with nothing but a bucket: no volume, any zone.

As scripts/demo, but `storage: {s3: ...}`: the first instance is interrupted with notice, the second
dies without; what comes next brings the job's folder from the bucket. `scripts/demo s3` builds
everything first.
"""

import argparse
import json
import shutil
import sys

import demo
from emulator import Failed

BUCKET, PREFIX = "homes", "jobs"


class DemoS3(demo.Demo):
    kept_volumes = 0

    def make_storage(self):
        (self.emulator.directory / "s3" / BUCKET).mkdir()
        return f"an empty bucket, s3://{BUCKET}"

    def job(self):
        job = super().job()
        del job["fence"]  # the bucket's head is one
        return {**job, "storage": {"s3": {"at": f"s3://{BUCKET}/{PREFIX}",
                                          "cache": "${SPOTTER_MOUNT}"}}}

    def head(self):
        path = self.emulator.directory / "s3" / BUCKET / PREFIX / "heads" / demo.JOB / "head.json"
        return json.loads(path.read_text())

    def training_until(self, instance, share):
        super().training_until(instance, share)
        # What only its own disk has does not outlive it: something of it has to be in the bucket.
        resumed = instance.status.get("resumed_step") or 0
        self.until("a checkpoint in the bucket", lambda: self.head()["newest"] > resumed)

    def newest_durable(self, two):
        return self.head()["newest"]

    def result(self, kept):
        head = self.head()
        self.promise("the bucket's head says that the job is done", head["state"] == "done")
        home = self.emulator.directory / "s3" / BUCKET / PREFIX / "homes" / demo.JOB
        result = self.emulator.workplace / "result"
        result.mkdir()
        for each in json.loads((home / head["manifest"]).read_text())["files"]:
            if each["path"].startswith("result/"):
                target = result / each["path"].removeprefix("result/")
                target.parent.mkdir(parents=True, exist_ok=True)
                kept = f"data/{each['group']}/{each['sum']}-{each['bytes']}"
                shutil.copyfile(home / kept, target)
        if not (result / "model.safetensors").exists():
            raise Failed("the bucket has no result/model.safetensors")
        return result


if __name__ == "__main__":
    sys.exit(demo.main(DemoS3, argparse.ArgumentParser(
        prog="scripts/demo s3", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter), epochs=6))
