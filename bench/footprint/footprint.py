#!/usr/bin/python3
"""Memory and CPU of an idle agent: it polls the metadata service, and has called EC2 over TLS.

The agent is started outside of any instance: its identity is one that the emulator adds without a
process, EC2 answers over TLS with a certificate made here, and there is no volume, so that it stays
`blocked`: it looks at EC2 twice a minute and at the metadata service each second. Two of them, one
after the other: the second has `prometheus:` with a port, scraped every 15 s, and a text file, and
`publish:`, whose child's time counts, too.
Targets, of both: RSS at most 20 MiB, anonymous memory at most 6 MiB, 0.1 % of a core.
"""

import argparse
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from emulator import wait  # noqa: E402

JOB = """job: idle
storage: {ebs: {tag: {Name: nowhere}, mount: %s/mnt}}
trainer: {command: "true", user: %s}
"""
METRICS = """prometheus: {port: %d, textfile: %s}
publish: s3://seen/jobs
"""
BETWEEN_SCRAPES = 15


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def memory(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    value = {key: int(kib) / 1024 for key, kib in re.findall(r"^(\w+): +(\d+) kB", text, re.M)}
    return value["Rss"], value["Anonymous"]


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    of_children_too = sum(int(field) for field in fields[11:15])
    return of_children_too / os.sysconf("SC_CLK_TCK")


def certificate(place):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", place / "key.pem", "-out", place / "cert.pem"],
                   check=True, capture_output=True)


def scrape(port, until):
    """As a Prometheus with its usual interval; without a port, nobody asks."""
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(BETWEEN_SCRAPES, left))
        if port:
            url = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(url, timeout=10) as answer:
                assert b"spotter_blocked 1" in answer.read()


def measure(place, binaries, seconds, metrics):
    place.mkdir()
    certificate(place)
    (place / "world/s3/seen").mkdir(parents=True)
    processes = []
    try:
        log = open(place / "emulator.log", "wb")
        processes.append(subprocess.Popen(
            [binaries / "spotter-emulator", "serve", "--directory", place / "world",
             "--mode", "user", "--api", "127.0.0.1:0", "--metadata", "127.0.0.1:0",
             "--tls-certificate", place / "cert.pem", "--tls-key", place / "key.pem"],
            stdout=log, stderr=log))
        wait("the emulator", lambda: (place / "world/emulator.json").exists(), 20)
        endpoint = json.loads((place / "world/emulator.json").read_text())["api"]
        context = ssl.create_default_context(cafile=place / "cert.pem")
        request = urllib.request.Request(f"{endpoint}/_spotter/instance", b'{"zone": "us-west-2a"}')
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            metadata = json.load(answer)["metadata"]
        job = place / "job.yaml"
        port = free_port() if metrics else 0
        job.write_text(JOB % (place, os.environ.get("USER") or "root") +
                       (METRICS % (port, place) if metrics else ""))
        console = open(place / "console.log", "wb")
        environment = {"PATH": os.environ["PATH"], "SPOTTER_RUN": str(place / "run"),
                       "AWS_ENDPOINT_URL": endpoint, "AWS_CA_BUNDLE": str(place / "cert.pem"),
                       "AWS_EC2_METADATA_SERVICE_ENDPOINT": metadata}
        processes.append(subprocess.Popen([binaries / "spotter", "agent", "--job", job],
                                          env=environment, stdout=console, stderr=console))
        wait("the first look at EC2", lambda: b"no volume carries the tag" in
             (place / "console.log").read_bytes(), 30)
        pid = processes[-1].pid
        time.sleep(5)
        before, began = cpu_seconds(pid), time.monotonic()
        scrape(port, began + seconds)
        share = (cpu_seconds(pid) - before) / (time.monotonic() - began)
        rss, anonymous = memory(pid)
        return {"rss_mib": round(rss, 2), "anonymous_mib": round(anonymous, 2),
                "cpu_percent_of_a_core": round(100 * share, 3), "seconds": seconds}
    except Exception:
        print((place / "emulator.log").read_text()[-2000:], file=sys.stderr)
        if (place / "console.log").exists():
            print((place / "console.log").read_text()[-2000:], file=sys.stderr)
        raise
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(20)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spotter-footprint-", dir="/var/tmp") as folder:
        facts = {name: measure(pathlib.Path(folder) / name, arguments.bin, arguments.seconds,
                               metrics=name == "with_metrics")
                 for name in ("plain", "with_metrics")}
    print(json.dumps(facts, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(facts, indent=2) + "\n")
    good = all(one["rss_mib"] <= 20 and one["anonymous_mib"] <= 6 and
               one["cpu_percent_of_a_core"] <= 0.1 for one in facts.values())
    sys.exit(not good)


if __name__ == "__main__":
    main()
