#!/usr/bin/python3
"""A trainer that asks S3 at each step, with Debian's boto3 and no configuration of its own.

Each step is a line of JSON in the file LINES: who it is, what it was given of WANTS
(bucket/key) by an old session and, in "fresh", by one that asks for credentials again.
"""

import json
import os
import socket
import time
import urllib.error
import urllib.request

import boto3
import botocore.exceptions

# Of AWS's variables this boto3 knows all but where the emulator is.
API = {"endpoint_url": os.environ["AWS_ENDPOINT_URL"]}


def read(session, where):
    bucket, key = where.split("/", 1)
    try:
        client = session.client("s3", **API)
        return client.get_object(Bucket=bucket, Key=key)["Body"].read().decode()
    except botocore.exceptions.ClientError as error:
        return error.response["Error"]["Code"]
    except botocore.exceptions.BotoCoreError as error:
        return type(error).__name__


def who(session):
    try:
        return session.client("sts", **API).get_caller_identity()["Arn"]
    except botocore.exceptions.BotoCoreError as error:
        return type(error).__name__


def method_of(session):
    try:
        return getattr(session.get_credentials(), "method", None)
    except botocore.exceptions.BotoCoreError as error:
        return type(error).__name__


def status_of(token):
    """What the endpoint says to a stranger, and all that it says."""
    uri = os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    if not uri:
        return None
    request = urllib.request.Request(uri, headers={"Authorization": token} if token else {})
    try:
        return urllib.request.urlopen(request, timeout=5).status
    except urllib.error.HTTPError as error:
        return [error.code, sorted(json.load(error))]


def tell(**fields):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        try:
            link.sendto("\n".join(f"{key}={value}" for key, value in fields.items()).encode(),
                        os.environ["NOTIFY_SOCKET"])
        except OSError:
            pass  # no agent hears it now


def main():
    kept = boto3.Session()
    wanted = os.environ["WANTS"].split()
    method = method_of(kept)
    strangers = [status_of(None), status_of("wrong")]
    with open(os.environ["LINES"], "w", encoding="utf-8", buffering=1) as lines:
        for step in range(1, int(os.environ["STEPS"]) + 1):
            fresh = boto3.Session()
            line = {"step": step, "pid": os.getpid(), "method": method, "strangers": strangers,
                    "kept": [read(kept, where) for where in wanted],
                    "fresh": read(fresh, wanted[0]), "who": who(fresh)}
            lines.write(json.dumps(line) + "\n")
            tell(X_SPOTTER_STEP=step, X_SPOTTER_CHECKPOINT_STEP=step)
            time.sleep(0.2)


if __name__ == "__main__":
    main()
