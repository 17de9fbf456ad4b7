#!/usr/bin/python3
"""A trainer that attacks the machine it runs on, and then trains as any other.

PLAN says how: one of table.LEFT leaves things behind, ends, leaves others at its next start, and
ends again; "reached" tries what it can reach, trains to the end and leaves processes that go on
writing. LEFT_OUT names attacks that are not tried."""

import os
import pathlib
import signal
import sys
import time

import asked
import common
import fake_trainer
import left
import reached
import table


def wait_for_the_test():
    """It looks at the machine before anything happens."""
    fake_trainer.tell(READY=1)
    while not (common.LOOT / "go").exists():
        time.sleep(0.05)


def carry_out(names):
    left_out = os.environ.get("LEFT_OUT", "").split()
    there = {**vars(left), **vars(asked), **vars(reached)}
    common.carry_out([there[name] for name in names if name not in left_out])


def main():
    signal.signal(signal.SIGIO, signal.SIG_IGN)  # that somebody waits for a lease
    starts = len(list(common.LOOT.glob("start-*")))
    (common.LOOT / f"start-{starts}").touch()
    wait_for_the_test()
    pathlib.Path(common.STORAGE / "checkpoints").mkdir(exist_ok=True)
    if plan := table.LEFT.get(os.environ["PLAN"]):
        carry_out(plan[min(starts, 1)])
        sys.exit("what was to be left is")
    carry_out(table.REACHED)
    fake_trainer.main()


if __name__ == "__main__":
    main()
