"""What people use to bring S3 objects to a program, each as one command.

Every one ends in the same loop as AWS's example of Pipe mode: a read of up to 16 MiB into one
block. Those that are programs of their own write into a pipe, as there is no other way to a reader.
"""

import importlib.util
import os
import shutil
import sys

from server import BIN

READER = """
import sys
block, came = bytearray(16 << 20), 0
for name in sys.argv[1:]:
    with open(name, "rb", buffering=0) as file:
        while got := file.readinto(block): came += got
sys.exit(0 if came else "nothing came")
"""
CLIENT = """
import os, sys, boto3, botocore.config
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"],
                  config=botocore.config.Config(s3={"addressing_style": "path"}))
pages = s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=sys.argv[1])
keys = (each["Key"] for page in pages for each in page["Contents"])
"""
BOTO3 = CLIENT + """
for key in keys:
    body = s3.get_object(Bucket="bucket", Key=key)["Body"]
    while body.read(1 << 20): pass
"""
TRANSFER = CLIENT + """
class Sink:
    def write(self, data): return len(data)
for key in keys: s3.download_fileobj("bucket", key, Sink())
"""
# The CRT has many requests at once inside of one object.
CRT = CLIENT + """
from awscrt.auth import AwsCredentialsProvider
from awscrt.http import HttpHeaders, HttpRequest
from awscrt.io import (ClientBootstrap, ClientTlsContext, DefaultHostResolver, EventLoopGroup,
                       TlsContextOptions)
from awscrt.s3 import S3Client, S3RequestTlsMode, S3RequestType
group = EventLoopGroup()
url, secure = os.environ["AWS_ENDPOINT_URL"], {"tls_mode": S3RequestTlsMode.DISABLED}
if url.startswith("https:"):
    trust = TlsContextOptions()
    trust.override_default_trust_store_from_path(None, os.environ["AWS_CA_BUNDLE"])
    secure = {"tls_mode": S3RequestTlsMode.ENABLED,
              "tls_connection_options": ClientTlsContext(trust).new_connection_options()}
client = S3Client(bootstrap=ClientBootstrap(group, DefaultHostResolver(group)),
                  region=os.environ["AWS_REGION"], **secure,
                  credential_provider=AwsCredentialsProvider.new_static(
                      os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]),
                  throughput_target_gbps=100)
host = HttpHeaders([("host", url.split("://")[1])])
for key in keys:
    client.make_request(request=HttpRequest("GET", "/bucket/" + key, host),
                        type=S3RequestType.GET_OBJECT,
                        on_body=lambda chunk, offset, **_: None).finished_future.result()
"""
MOUNTED = """
s3fs bucket "$1" -o url="$AWS_ENDPOINT_URL",use_path_request_style,endpoint="$AWS_REGION" || exit
trap 'umount "$1"' EXIT
"$2" -c "$3" "$1/$4"/*
"""


WANTED = ("curl", "boto3", "boto3, s3transfer", "AWS CRT", "aws s3 cp -", "rclone", "s3fs")


def python(program, *arguments):
    return [sys.executable, "-c", program, *arguments]


def into_reader(command, *arguments):
    """`command` of the shell, with $1... and its output to the reader."""
    return ["sh", "-c", command + ' | "$0" -c "$READER" /dev/stdin', sys.executable, *arguments]


def spotter(scratch, prefix, *more, command=None):
    return [BIN / "spotter", "pipe", "--channel", f"train=s3://bucket/{prefix}/", "--directory",
            scratch / "data", *more, "--",
            *(command or python(READER, scratch / "data/train_0"))]


def curl(scratch, urls):
    config = scratch / "curl"
    config.write_text("".join(f'url = "{url}"\n' for url in urls))
    return into_reader('curl -s -K "$1"', config)


def bare(scratch, urls, size):
    """What the server gives to a reader without a FIFO: eight connections, ranges of 8 MiB."""
    step = 8 << 20
    config = scratch / "pieces"
    config.write_text("next\n".join(
        f'url = "{url}"\noutput = "/dev/null"\nrange = "{at}-{min(size, at + step) - 1}"\n'
        for url in urls for at in range(0, size, step)))
    return ["curl", "-s", "--no-progress-meter", "-Z", "--parallel-max", "8", "-K", config]


def crt_can(url):
    return importlib.util.find_spec("awscrt") is not None and url.endswith((":80", ":443"))


def object_urls(server, prefix, count):
    return [f"{server.url}/bucket/{prefix}/{i:05}" for i in range(count)]


def contenders(server, scratch, prefix, size, count):
    """name -> command. What is not installed is left out."""
    names = [f"{prefix}/{i:05}" for i in range(count)]
    urls = object_urls(server, prefix, count)
    few = count <= 64  # a process, or seconds, for each object
    found = {"spotter": spotter(scratch, prefix),
             "spotter, copying": spotter(scratch, prefix, "--copy"),
             "bare": bare(scratch, urls, size),
             "curl": curl(scratch, urls),
             "boto3": python(BOTO3, prefix + "/"),
             "boto3, s3transfer": python(TRANSFER, prefix + "/")}
    if crt_can(server.url):
        found["AWS CRT"] = python(CRT, prefix + "/")
    if shutil.which("aws") and few:
        found["aws s3 cp -"] = into_reader(
            '(for key do aws --endpoint-url "$AWS_ENDPOINT_URL" s3 cp "s3://bucket/$key" -; done)',
            *names)
    if shutil.which("rclone"):
        found["rclone"] = into_reader(
            # Its transport takes no AWS_CA_BUNDLE, and it stops where there is one.
            'env -u AWS_CA_BUNDLE rclone --config /dev/null --s3-provider Other --s3-env-auth '
            '--s3-region "$AWS_REGION" '
            '--s3-endpoint "$AWS_ENDPOINT_URL" cat ":s3:bucket/$1"', prefix)
    if shutil.which("s3fs") and os.geteuid() == 0 and os.path.exists("/dev/fuse") and few:
        (scratch / "mount").mkdir(exist_ok=True)
        found["s3fs"] = ["sh", "-c", MOUNTED, "sh", scratch / "mount", sys.executable, READER,
                         prefix]
    return found


def environment(server, scratch):
    kept = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"}
    # boto3's, aws' and ours; curl's and s3fs'; that of Go and OpenSSL.
    trust = ("AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE") if server.certificate else ()
    return {**kept, **{name: server.certificate.bundle for name in trust},
            "AWS_ENDPOINT_URL": server.url, "AWS_REGION": "us-west-2", "READER": READER,
            "AWS_DEFAULT_REGION": "us-west-2", "HOME": str(scratch),
            "AWS_ACCESS_KEY_ID": server.keys[0], "AWS_SECRET_ACCESS_KEY": server.keys[1],
            # The names that s3fs had first.
            "AWSACCESSKEYID": server.keys[0], "AWSSECRETACCESSKEY": server.keys[1]}
