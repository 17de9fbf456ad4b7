#!/usr/bin/python3
"""A trainer that attacks the machine it runs on, and then trains as any other.

LEFT_OUT names attacks that are not tried. PLAN says how: one of planted.py leaves things behind,
ends, leaves others at its next start, and ends again; "reached" tries what it can reach, trains to
the end and leaves processes that go on writing."""

import os
import pathlib
import signal
import sys
import time

import common
import fake_trainer
import planted
import reached


def wait_for_the_test():
    """It looks at the machine before anything happens."""
    fake_trainer.tell(READY=1)
    while not (common.LOOT / "go").exists():
        time.sleep(0.05)


def main():
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # that somebody waits for a lease
    starts = len(list(common.LOOT.glob("start-*")))
    (common.LOOT / f"start-{starts}").touch()
    wait_for_the_test()
    pathlib.Path(common.STORAGE / "checkpoints").mkdir(exist_ok=True)
    if plan := planted.PLANS.get(os.environ["PLAN"]):
        common.carry_out(plan[min(starts, 1)])
        sys.exit("what was to be planted is")
    left_out = os.environ.get("LEFT_OUT", "").split()
    common.carry_out([one for one in reached.ALL if one.__name__ not in left_out])
    fake_trainer.main()


if __name__ == "__main__":
    main()
