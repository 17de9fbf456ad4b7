#!/usr/bin/python3
"""What ranks of one training send one another is data: a rank that is somebody else's runs nothing.

Environment: SPOTTER_LIBRARY.
"""

import io
import os
import pathlib
import pickle
import subprocess
import sys
import textwrap
import unittest

from api_test import PYTHON, Api, numpy, torch

if torch:
    from spotter import _state
    from spotter._staging import Staging

# Two ranks of a training. Where torch would unpickle what came, there is a failure.
RANK = textwrap.dedent("""
    import os, pathlib, sys, torch, torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=rank,
                            world_size=2)

    def unpickles(*_, **__):
        raise AssertionError("a rank unpickles what another one has sent")
    c10d._tensor_to_object = unpickles
    import spotter
    from spotter import _state

    class Evil:
        def __reduce__(self):
            return os.mkdir, (os.environ["MARK"],)

    class Own:
        number = 7
    {body}
    run.close()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # the interpreter's end may abort in gloo: pytorch#190489
""")


class Skeleton(unittest.TestCase):
    """Of a state, as another process may have made it."""

    def load(self, skeleton, part=b""):
        parts = {"a.pickle": _state.memory_of(skeleton), "a.0": _state.memory_of(part)}
        return _state.unpack(parts, parts.__getitem__, plain=True)["a"]

    def test_what_trainers_keep_comes_as_it_was(self):
        import collections
        state = {"list": [1, 2.5, None, ("x", b"y" * 100_000), {3}, True], "size": torch.Size([2]),
                 "ordered": collections.OrderedDict(a=torch.ones(3)), "dtype": torch.bfloat16,
                 "many": collections.defaultdict(list, {1: [2]}), "device": torch.device("cpu"),
                 "half": torch.ones(2, 3, dtype=torch.float16), "none": torch.empty(0),
                 "parameter": torch.nn.Parameter(torch.ones(2))}
        if numpy:
            state |= {"array": numpy.arange(6, dtype=">i2").reshape(2, 3),
                      "flag": numpy.bool_(True), "scalar": numpy.float32(1.5),
                      "text": numpy.str_("word")}
        packed = _state.pack({"a": state}, Staging())
        _state.check_plain(packed)
        whole = {name: _state.memory_of(b"".join(bytes(_bytes_of(piece)) for piece in pieces))
                 for name, pieces in packed}
        found = _state.unpack(whole, whole.__getitem__, plain=True)["a"]
        self.assertEqual(repr(found), repr(state))
        self.assertEqual({name: type(each) for name, each in found.items()},
                         {name: type(each) for name, each in state.items()})

    def test_nothing_else_is_named(self):
        for named in (os.system, subprocess.Popen, eval, getattr, torch.load, io.open, Skeleton,
                      torch.storage._load_from_bytes, numpy.load):
            with self.subTest(named.__name__), self.assertRaises(_state.NotPlain):
                self.load(pickle.dumps(named, protocol=4))

    def test_memory_beyond_a_part_is_neither_read_nor_written(self):
        class Placed(pickle.Pickler):
            def persistent_id(self, each):
                return each.where if isinstance(each, Where) else None

        class Where:
            def __init__(self, *where):
                self.where = where

        tensor = ("torch.float32", (2,), False, False)
        for where in (("bytes", "a.0", 0, 9), ("bytes", "a.0", -8, 8), ("bytes", "a.0", 8, -8),
                      ("bytes", "a.0", float("nan"), 8), ("bytes", "a.1", 0, 8),
                      ("torch", "a.0", 4, 8, *tensor), ("torch", "a.0", 0, 4, *tensor),
                      ("torch", "a.0", 0, 8, "torch.float32", (1,), False, False),
                      ("torch", "a.0", 0, 8, "torch.load", (2,), False, False),
                      ("torch-view", "a.0", 0, 8, *tensor, (1,), 1, "cpu"),
                      ("torch-view", "a.0", 0, 8, *tensor, (1,), -1, "cpu"),
                      ("torch-view", "a.0", 0, 8, *tensor, (2,), 0, "cpu"),
                      ("numpy", "a.0", 0, 8, "<i4", (1,)), ("numpy", "a.0", 0, 8, "O", (1,)),
                      ("numpy", "a.0", 0, 8, "O,V0", (1,))):
            with self.subTest(where=where):
                file = io.BytesIO()
                Placed(file, protocol=4).dump(Where(*where))
                with self.assertRaises(Exception) as raised:
                    self.load(file.getvalue(), b"12345678")
                self.assertNotIsInstance(raised.exception, AssertionError)

    def test_structures_of_numpy_are_no_plain_values(self):
        for dtype in ("i4,O", "i4,i4", "M8[s]"):
            with self.subTest(dtype), self.assertRaises(_state.NotPlain):
                self.load(pickle.dumps(numpy.dtype(dtype), protocol=4))


def _bytes_of(piece):
    import ctypes
    return ctypes.string_at(piece.address, piece.size) if piece.size else b""


class TwoRanks(Api):
    def setUp(self):
        super().setUp()
        self.lives = 0
        self.mark = self.folder / "mark"

    def life(self, body, **environment):
        """What both ranks print."""
        self.lives += 1
        text = RANK.replace("{body}", textwrap.dedent(body))
        common = {**os.environ, "PYTHONPATH": str(PYTHON), "WORLD_SIZE": "2",
                  "MARK": str(self.mark), "SPOTTER_CHECKPOINTS": str(self.checkpoints),
                  "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
                  "STORE": str(self.folder / f"store-{self.lives}"), **environment}
        ranks = [subprocess.Popen([sys.executable, "-c", text], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env={**common, "RANK": str(rank)})
                 for rank in range(2)]
        outs = []
        try:
            for rank in ranks:
                out, said = rank.communicate(timeout=120)
                self.assertEqual(rank.returncode, 0, said)
                outs.append(out.strip())
        finally:
            for rank in ranks:
                rank.kill()
                rank.communicate()
        return outs

    def test_a_training_unpickles_nothing_that_came(self):
        self.life("""
            run = spotter.open(every=1e9)
            assert run.restore() is None
            assert run.save(3, meta={"note": "of 3"}, weights=torch.full((5,), 3.0 + rank),
                            plain={"list": [(1, 2)]})
            run.flush()
            run.should_checkpoint()
            ranks = run._ranks
            mine = torch.tensor([rank], dtype=torch.uint8)
            answers = ranks.gather({"rank": rank, "tensor": mine})
            assert (answers is None) == (rank == 1), answers
            assert rank or [each["rank"] for each in answers] == [0, 1], answers
            assert rank or [int(each["tensor"]) for each in answers] == [0, 1], answers
            from spotter import generators
            import numpy, random
            def drawn():
                return random.gauss(0, 1), numpy.random.rand(), float(torch.rand(1))
            states = ranks.gather(generators.capture())
            if rank == 0:
                first = drawn()
                generators.restore(states[0])
                assert drawn() == first
            try:
                ranks.share(lambda: 1 / 0)
                raise AssertionError
            except (ZeroDivisionError, spotter.SpotterError) as error:
                assert "division by zero" in str(error), error
        """)
        said = self.life("""
            run = spotter.open(every=1e9)
            old = run.restore()
            print(old.step, old.meta, old["weights"].tolist(), old["plain"], old.path)
        """)
        self.assertEqual(said[0], "3 {'note': 'of 3'} [3.0, 3.0, 3.0, 3.0, 3.0] {'list': [(1, 2)]} "
                         f"{self.checkpoints}/step-000000000003")
        self.assertEqual(said[1], said[0])

    def test_a_checkpoint_without_values_is_one(self):
        for words in (["None"] * 2, ["{}"] * 2):
            self.assertEqual(self.life("""
                run = spotter.open(every=1e9)
                print(run.restore())
                run.save(1)
            """), words)

    def test_a_class_in_the_state_is_taken_from_the_storage_alone(self):
        said = self.life("""
            run = spotter.open(every=1e9)
            run.restore()
            run.save(1, own=Own(), tensor=torch.ones(2))
            run.flush()
        """) and self.life("""
            run = spotter.open(every=1e9)
            old = run.restore()
            print(old["own"].number, old["tensor"].tolist())
        """)
        self.assertEqual(said, ["7 [1.0, 1.0]"] * 2)

    def test_a_rank_that_is_somebody_elses_has_no_program_run(self):
        said = self.life("""
            run = spotter.open(every=1e9)
            ranks = run._ranks
            ranks.share(lambda: 0)
            if rank == 0:
                ranks.share_state(0, {"evil": Evil()})
            else:
                try:
                    print("took", ranks.share_state(0, None))
                except _state.NotPlain as error:
                    print("refused", error)
        """)
        self.assertRegex(said[1], r"refused posix\.mkdir, which no rank takes from another")
        self.assertFalse(self.mark.exists())

    def test_all_ranks_hear_why_one_cannot_make_its_part_durable(self):
        said = self.life("""
            run = spotter.open(every=1e9)
            run.restore()
            made = pathlib.Path(os.environ["SPOTTER_CHECKPOINTS"], "made")
            made.mkdir(exist_ok=True)
            try:
                run.saved(1, "checkpoint-1", made_as=made / "gone" if rank else made)
            except spotter.SpotterError as error:
                print("No such file" in str(error), "/gone" in str(error))
        """)
        self.assertEqual(said, ["True True"] * 2)

    def test_no_copy_is_made_that_no_machine_would_take(self):
        folders = [self.folder / "copies", self.folder / "others"]
        for folder in folders:
            folder.mkdir(mode=0o700)
        said = self.life("""
            os.environ["SPOTTER_GANG_COPIES"] = os.environ["FOLDERS"].split(":")[rank]
            run = spotter.open(every=1e9, copies=True)
            run.restore()
            assert run.should_checkpoint()
            assert run.save(1, own=Own())
            print(run.should_checkpoint())
        """, SPOTTER_GANG_MEMBER="m", LOCAL_RANK="0", SPOTTER_GANG_COPY_EVERY="1",
            FOLDERS=":".join(map(str, folders)))
        self.assertEqual(said, ["False"] * 2)
        self.assertEqual([list(folder.iterdir()) for folder in folders], [[], []])


if __name__ == "__main__":
    if not torch or not numpy:
        print("python3-torch or python3-numpy is not installed (scripts/setup)")
        sys.exit(77)
    unittest.main()
