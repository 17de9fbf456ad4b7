#!/usr/bin/python3
"""Copies of a gang's state in the memory of its machines: a folder stands for each machine's.

Environment: SPOTTER_LIBRARY.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import unittest

from api_test import PYTHON, Api, torch

# A round of ranks, each on a machine of its own; WORDS says what it does, step by step.
ROUND = textwrap.dedent("""
    import json, os, signal, sys, time, torch, torch.distributed as dist
    import spotter
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if ranks > 1:
        dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=rank,
                                world_size=ranks)
    run = spotter.open(every=1e9, copies=True)
    found = run.restore()
    state = {"weights": torch.full((5, 7), -1.0), "random": torch.zeros(3), "rank": -1,
             "empty": torch.empty(0)}
    if found:
        state.update(found)
    print(json.dumps([found.step if found else 0, float(state["weights"][0, 0]),
                      float(state["random"][0]), state["rank"], found and found.meta.get("note"),
                      found and found.path is not None]) if rank == 0 else "", flush=True)
    begin = found.step if found else 0
    for number, word in enumerate(os.environ["WORDS"].split(), begin + 1):
        state["weights"].fill_(number)
        state["random"].fill_(number + 0.5 if rank == 0 else number + 0.25)  # not the same
        state["rank"] = rank
        due = run.should_checkpoint()
        assert due == (word in ("copy", "durable", "cannot", "lost")), (number, word, due)
        if word == "cannot":
            try:
                run.save(number, wrong=lambda: 0)  # nothing pickles it
            except Exception as error:
                print("all know", type(error).__name__, file=sys.stderr)
                continue
        if word in ("copy", "save", "durable", "lost"):
            assert run.save(number, meta={"note": f"of {number}"}, durable=word == "durable",
                            **state)
        if word in ("save", "durable"):
            run.flush()
    # Whoever is killed first may take with it what another one has not read.
    open(f"{os.environ['STORE']}-{rank}", "w").close()
    while rank == 0 and not all(os.path.exists(f"{os.environ['STORE']}-{each}")
                                for each in range(ranks)):
        time.sleep(0.01)
    if os.environ["END"] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    run.close()
    if dist.is_initialized():
        dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # the interpreter's end may abort in gloo: pytorch#190489
""")


@unittest.skipUnless(torch, "python3-torch is not installed")
class InMemory(Api):
    every = 2

    def setUp(self):
        super().setUp()
        self.machines = [self.folder / name for name in ("one", "two", "three")]
        for machine in self.machines:
            machine.mkdir()
        self.rounds = 0

    def round(self, machines, words, end="close", every=None):
        """What its rank 0 has restored: [step, weights, random, rank, note, has a path]."""
        self.rounds += 1
        common = {**os.environ, "PYTHONPATH": str(PYTHON), "WORLD_SIZE": str(len(machines)),
                  "SPOTTER_CHECKPOINTS": str(self.checkpoints), "SPOTTER_GANG_MEMBER": "m",
                  "SPOTTER_GANG_COPY_EVERY": str(self.every if every is None else every),
                  "SPOTTER_GANG_ROUND": str(self.rounds), "WORDS": words, "END": end,
                  "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                  "STORE": str(self.folder / f"store-{self.rounds}")}
        ranks = [subprocess.Popen(
            [sys.executable, "-c", ROUND], text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={
                **common, "RANK": str(rank), "LOCAL_RANK": "0",
                "SPOTTER_GANG_COPIES": str(machine or "")})
            for rank, machine in enumerate(machines)]
        self.said = []
        try:
            for rank in ranks:
                out, said = rank.communicate(timeout=120)
                self.said.append(said)
                self.assertEqual(rank.returncode, -signal.SIGKILL if end == "kill" else 0, said)
                if rank is ranks[0]:
                    first = json.loads(out)
        finally:
            for rank in ranks:
                rank.kill()
                rank.communicate()
        return first

    def test_who_survives_has_the_state_of_rank_0_that_was_killed(self):
        one, two, three = self.machines
        self.assertEqual(self.round([one, two], "- copy save copy -", "kill")[0], 0)
        # The first machine is gone, and its memory; another one comes.
        found = self.round([three, two], "- copy", "kill")
        self.assertEqual(found, [4, 4, 4.5, 0, "of 4", False])
        self.assertIn("goes on from step 4, a copy in memory; the newest checkpoint is of step 3",
                      self.said[0])
        # Now all have the copy of step 6, the one that stays alone, too.
        self.assertEqual(self.round([three], "save")[:3], [6, 6, 6.5])
        self.assertEqual(self.round([two], "")[:3], [7, 7, 7.5], "the newest is a checkpoint")

    def test_each_machine_knows_how_many_have_the_newest(self):
        one, two, three = self.machines
        (two / "unfinished").mkdir()
        self.round([one, two, three], "- copy -", "kill")
        self.assertEqual([(machine / "newest").read_text() for machine in self.machines],
                         ["2 2", "2 2", "2 2"])
        self.assertFalse((two / "copy").exists())
        self.round([three], "- copy", "kill")
        self.assertEqual((three / "newest").read_text(), "4 1")

    def test_without_copies_it_is_the_checkpoint(self):
        one, two, _ = self.machines
        self.round([one, two], "- - save - -", "kill", every=0)
        self.assertEqual(list(one.iterdir()), [])
        self.assertEqual(self.round([one, two], "", every=0)[:3], [3, 3, 3.5])

    def test_a_machine_that_was_away_brings_no_history_back_that_was_left(self):
        one, two, three = self.machines
        self.round([one, two], "save copy", "kill")
        self.assertEqual(self.round([one, two], "- copy - copy", "kill")[0], 2)  # up to step 6
        # Neither has anything of that; what they make durable is of step 3.
        four = self.folder / "four"
        four.mkdir()
        self.assertEqual(self.round([three, four], "- durable", "kill")[0], 1)
        self.assertEqual(self.round([one, three], "")[0], 3, "one's copies are of an earlier round")

    def test_what_is_to_be_durable_is_and_no_step_is_saved_twice_for_it(self):
        one, two, _ = self.machines
        self.round([one, two], "- durable - copy -", "kill")
        self.assertEqual([path.name for path in self.checkpoints.glob("step-*")],
                         ["step-000000000002"])
        self.assertEqual(self.round([one, two], "")[0], 4)

    def test_what_cannot_be_packed_fails_on_all_ranks(self):
        self.round(self.machines[:2], "- cannot - copy")
        self.assertTrue(all("all know" in said for said in self.said), self.said)

    def test_a_machine_without_a_folder_takes_part(self):
        one, two, _ = self.machines
        self.round([one, None], "- copy", "kill")
        self.assertEqual(self.round([None, one], "")[0], 2)
        # Without any there is nothing to send.
        self.round([None, None], "- lost - - -", "kill")
        self.assertIn("no machine of this gang has room", self.said[0])

    def test_what_cannot_be_read_or_written_costs_only_the_copy(self):
        one, two, _ = self.machines
        self.round([one, two], "save copy", "kill")
        whole = (one / "copy").read_bytes()
        (one / "copy").write_bytes(whole[:-5])
        (two / "copy").unlink()
        self.assertEqual(self.round([one, two], "", "kill")[0], 1)
        self.assertIn("cannot be read: it has", self.said[0])
        (two / "copy").write_bytes(whole)
        self.assertEqual(self.round([one, two], "- copy", "kill")[0], 2, "the other one has it")
        (two / "unfinished").mkdir()
        self.assertEqual(self.round([one, two], "- copy", "kill")[0], 4)
        self.assertIn("no copy of the state on this machine: ", self.said[1])
        self.assertFalse((two / "copy").exists(), "an old one would take the room of the next")
        self.assertEqual(self.round([one, two], "")[0], 6)

    @unittest.skipUnless(os.geteuid() == 0, "only root can make another user's folder")
    def test_a_folder_that_another_user_made_in_the_place_of_a_lost_one_is_not_used(self):
        one, two, three = self.machines
        self.round([one], "save copy", "kill")  # the checkpoint is of step 1, the copy of step 2
        forged = (one / "copy").read_bytes()
        for name, others in (("owner", lambda: os.chown(two, 65534, 65534)),
                             ("mode", lambda: two.chmod(0o777)),
                             ("link", lambda: (two.rename(three / "moved"),
                                               two.symlink_to(three / "moved")))):
            with self.subTest(name):
                os.chown(two, 0, 0)
                two.chmod(0o700)
                (two / "copy").write_bytes(forged)
                others()
                self.assertEqual(self.round([two], "- copy", "kill")[0], 1)
                self.assertIn("Not a directory" if name == "link" else
                              "another user's, or others may write to it", self.said[0])
                self.assertEqual((two / "copy").read_bytes(), forged, "nothing is written there")


if __name__ == "__main__":
    unittest.main()
