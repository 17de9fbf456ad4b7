#!/usr/bin/python3
"""Several processes that train one model, and each reads its own part of the data.

Environment: SPOTTER_LIBRARY.
"""

import os
import pathlib
import subprocess
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import api_test  # noqa: E402
from recordio import record  # noqa: E402


@unittest.skipUnless(api_test.torch, "without PyTorch")
class Ranks(api_test.Api):
    """Each of several processes reads its own part."""

    PROGRAM = """
        import os, sys, torch, spotter
        rank, ranks, folder, count, meeting = *map(int, sys.argv[1:3]), *sys.argv[3:]
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
        run = spotter.open(folder + "/checkpoints", every=0)
        if ranks > 1:
            torch.distributed.init_process_group("gloo", init_method="file://" + meeting,
                                                 rank=rank, world_size=ranks)
        old = run.restore()
        step = old.step if old else 0
        channel = run.channel("train", folder=f"{folder}/part-{rank}")
        records = iter(channel)
        print(*(next(records).decode() for _ in range(int(count) + rank)))
        if step == 1:
            channel.close()
        run.save(step + 1, value=rank)
        run.finished()
        if ranks > 1:  # PyTorch wants it before the exit: without, that aborted once
            torch.distributed.destroy_process_group()
        """

    def all(self, ranks, count, status=0):
        self.meetings = getattr(self, "meetings", 0) + 1
        processes = [subprocess.Popen(
            ["/usr/bin/python3", "-c", textwrap.dedent(self.PROGRAM), str(rank), str(ranks),
             self.folder, str(count), self.folder / f"meeting-{self.meetings}"],
            env=dict(os.environ, PYTHONPATH=str(api_test.PYTHON)), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
        for each in processes:
            self.addCleanup(each.stdout.close)
            self.addCleanup(each.stderr.close)
            self.addCleanup(each.wait)
            self.addCleanup(each.kill)
        said = [each.communicate(timeout=120) for each in processes]
        self.assertEqual([each.returncode for each in processes], [status] * ranks, said)
        return [words.split() for words, _ in said], "".join(errors for _, errors in said)

    def test_each_goes_on_where_it_was_and_nowhere_else(self):
        parts = [[f"{rank}.{i:03}" for i in range(40)] for rank in (0, 1)]
        for rank, records in enumerate(parts):
            (self.folder / f"part-{rank}").mkdir()
            (self.folder / f"part-{rank}/train_0").write_bytes(
                b"".join(record(each.encode()) for each in records))
        at = [0, 0]
        for count in (3, 4, 2):
            got, _ = self.all(2, count)
            for rank in (0, 1):
                self.assertEqual(got[rank], parts[rank][at[rank]:at[rank] + count + rank])
                at[rank] += count + rank
        _, errors = self.all(1, 1, status=1)
        self.assertIn("of channel train 2 ranks have each read their part, and now there are 1",
                      errors)



if __name__ == "__main__":
    unittest.main()
