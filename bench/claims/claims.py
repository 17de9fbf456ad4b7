#!/usr/bin/python3
"""Claims a second that 64 agents get done in one bucket of the emulator (bench_claims), against as
many conditional writes as 64 threads of boto3 do there. Exit status 1: one was done twice, or not
at all."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pipe"))
from server import BIN, Emulator  # noqa: E402


def boto3_writes(url, agents, count):
    import boto3
    from botocore.config import Config
    client = boto3.client("s3", endpoint_url=url, config=Config(max_pool_connections=agents))
    begun = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(agents) as pool:
        list(pool.map(lambda i: client.put_object(Bucket="bucket", Key=f"writes/{i}", Body=b"{}"),
                      range(count)))
    return count / (time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=64)
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spotter-claims-", dir="/dev/shm") as folder:
        server = Emulator(folder)
        try:
            os.environ.update(AWS_ENDPOINT_URL_S3=server.url, AWS_REGION="us-west-2",
                              AWS_ACCESS_KEY_ID=server.keys[0],
                              AWS_SECRET_ACCESS_KEY=server.keys[1])
            done = subprocess.run([BIN / "bench_claims", str(arguments.agents),
                                   str(arguments.experiments), "bucket"],
                                  stdout=subprocess.PIPE, text=True, check=False)
            figures = json.loads(done.stdout)
            figures["boto3_writes_a_second"] = round(
                boto3_writes(server.url, arguments.agents, arguments.experiments))
        finally:
            server.stop()
    print(f"{figures['claims_a_second']} claims a second, taken and finished, by "
          f"{figures['agents']} agents; "
          f"boto3 alone writes {figures['boto3_writes_a_second']} objects a second here")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
