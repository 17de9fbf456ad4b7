#!/usr/bin/python3
"""Lives of a gang, drawn from a seed: its machines are noticed and killed, one by one and two at
once, its leader too, while it saves and while a round forms; others come soon, late or never; S3
says nothing for a while, and answers are lost. In the end each sample was trained on once an epoch.

    tests/e2e/gang_lives.py --lives 20 --seed 1
"""

import argparse
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import gangs
import harness
from emulator import Emulator, Failed

EPOCHS = 4


class Life:
    def __init__(self, world, seed):
        self.draw, self.world = random.Random(seed), world
        size = self.draw.randint(2, 4)
        self.fixed = self.draw.random() < 0.3
        self.gang = gangs.Gang(world, size=size, least=size if self.fixed else 1,
                               name=f"life-{seed}", PACE="0.25", every=self.draw.choice([1, 3]))
        self.started = 0
        self.said = []

    def say(self, *words):
        self.said.append(" ".join(map(str, words)))

    def alive(self):
        return [name for name, process in self.gang.members.items() if process.poll() is None]

    def start(self):
        self.started += 1
        self.say("start", self.gang.start(f"m{self.started}"))

    def leader(self):
        ranks = self.gang.record().get("ranks") or [""]
        return ranks[0].rsplit("-", 1)[0]

    def happen(self):
        alive = self.alive()
        if not alive:
            return self.start()
        one = self.draw.choice(alive)
        what = self.draw.choice(["notice", "kill", "kill", "two", "leader", "silence", "lost"])
        if what == "leader" and self.leader() in alive:
            one, what = self.leader(), self.draw.choice(["notice", "kill"])
        self.say(what, one, "at step", self.gang.step())
        if what == "notice":
            self.gang.notice(one)
        elif what in ("kill", "leader"):
            self.gang.kill(one)
        elif what == "two":
            self.gang.notice(one)
            self.gang.kill(self.draw.choice(alive))
        elif what == "silence":
            self.world.process.send_signal(signal.SIGSTOP)
            try:
                time.sleep(self.draw.uniform(1, 8))
            finally:
                self.world.process.send_signal(signal.SIGCONT)
        else:
            self.world.control("fault", "fail", "PutObject", str(self.draw.randint(1, 5)),
                               "timeout-carried-out")

    def pause(self):
        """Mostly until it trains: else each event would meet a round that forms."""
        if self.draw.random() < 0.7:
            steps, end = len(self.gang.notes()), time.monotonic() + 60
            while len(self.gang.notes()) < steps + self.gang.size and time.monotonic() < end:
                time.sleep(0.2)
        time.sleep(self.draw.uniform(0.1, 4))

    def live(self, events):
        for _ in range(self.gang.size):
            self.start()
        for _ in range(events):
            self.pause()
            if any(process.poll() == 0 for process in self.gang.members.values()):
                break  # it is done
            self.happen()
            while len(self.alive()) < self.gang.size and self.draw.random() < 0.6:
                self.start()
        # In the end the fleet refills.
        end = time.monotonic() + 240
        while not any(process.poll() == 0 for process in self.gang.members.values()):
            if time.monotonic() > end:
                raise Failed(f"it does not end:\n{self.gang.words()}")
            while len(self.alive()) < self.gang.size:
                self.start()
            time.sleep(0.5)
        for name in self.alive():
            self.gang.end(name)
        self.judge()

    def judge(self):
        statuses = {name: process.returncode for name, process in self.gang.members.items()}
        wrong = {name: status for name, status in statuses.items() if status not in (0, 75, -9)}
        _, least, most, _ = self.gang.result()
        if wrong or (least, most) != (EPOCHS, EPOCHS):
            raise Failed(f"ended as {wrong}, samples {least} to {most} times:\n{self.gang.words()}")


def live(seed, events=5):
    """What happened, in words; raises what went wrong."""
    world = Emulator(harness.BINARIES, name="lives", mode="user", seed=seed)
    life = None
    try:
        life = Life(world, seed)
        life.live(events)
        return life.said
    except Failed as failed:
        raise Failed(f"seed {seed}: {life.said if life else ''}\n{failed}") from None
    finally:
        if life:
            life.gang.close()
        world.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lives", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1, help="of the first; then one more each")
    parser.add_argument("--events", type=int, default=5)
    options = parser.parse_args()
    for seed in range(options.seed, options.seed + options.lives):
        begun = time.monotonic()
        said = live(seed, options.events)
        print(f"seed {seed}: {time.monotonic() - begun:.0f} s, {', '.join(said)}", flush=True)


if __name__ == "__main__":
    main()
