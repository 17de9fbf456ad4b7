"""Orders to a virtual machine whose guest.py obeys: a command for sh, its status and output."""

import json
import socket
import time

from emulator import Failed


class Orders:
    """One connection an order, so that whoever wants may ask; the machine may reboot in between."""

    def __init__(self, path):
        self.path, self.next = str(path), time.monotonic_ns()

    def _once(self, command, seconds):
        self.next += 1
        rest, end = b"", time.monotonic() + seconds
        with socket.socket(socket.AF_UNIX) as talk:
            talk.settimeout(seconds)
            talk.connect(self.path)
            talk.sendall(json.dumps({"id": self.next, "command": command}).encode() + b"\n")
            while time.monotonic() < end and (piece := talk.recv(65536)):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    try:
                        answer = json.loads(line)
                    except ValueError:
                        continue  # the end of another's
                    # A terminal that guest.py has not set yet echoes the order itself.
                    if answer["id"] == self.next and "status" in answer:
                        return answer["status"], answer["output"]
        raise TimeoutError

    def obeys(self):
        """Whether somebody is there who carries out orders."""
        try:
            return self._once("true", 5)[0] == 0
        except OSError:
            return False

    def run(self, command, seconds=120):
        try:
            return self._once(command, seconds)
        except OSError as why:
            raise Failed(f"{self.path}: `{command}` was not answered: {why}") from None
