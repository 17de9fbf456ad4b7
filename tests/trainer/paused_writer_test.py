#!/usr/bin/python3
"""A machine of a gang that was paused, and followed by another one: it touches nothing of that
one's checkpoints, whatever the framework. What is called of the frameworks is stood in for.

Environment: SPOTTER_LIBRARY.
"""

import os
import subprocess
import sys
import tempfile
import textwrap
import types
import unittest
import unittest.mock

from api_test import PYTHON, Api, spotter

AGAIN = r"another machine .*\(m2\)"


def stand_in(**modules):
    return unittest.mock.patch.dict(sys.modules, modules)


class Paused(Api):
    def paused(self):
        """Its run; another machine makes a checkpoint."""
        with unittest.mock.patch.dict(os.environ, SPOTTER_GANG_MEMBER="m1"):
            run = spotter.open(self.checkpoints, every=0)
        self.addCleanup(run.close)
        self.follow()
        return run

    def follow(self):
        (self.checkpoints / ".writer-of-gang").write_text("m2 17-4\n")
        self.others = self.checkpoints / ".spotter-unfinished-round-9-7"
        self.others.mkdir()

    def test_safetensors(self):
        of_torch = types.SimpleNamespace(save_file=lambda *_: None)
        module = types.SimpleNamespace(torch=of_torch)
        with stand_in(**{"safetensors": module, "safetensors.torch": of_torch}):
            import spotter.safetensors
        with self.assertRaisesRegex(spotter.SpotterError, AGAIN):
            spotter.safetensors.save(self.paused(), 5, {})
        self.assertTrue(self.others.exists())

    def test_accelerate(self):
        import spotter.accelerate

        saved = []
        accelerator = types.SimpleNamespace(
            project_configuration=types.SimpleNamespace(automatic_checkpoint_naming=False),
            gradient_accumulation_steps=1, step=0, save_state=saved.append)
        with unittest.mock.patch.dict(os.environ, SPOTTER_GANG_MEMBER="m1"):
            saver = spotter.accelerate.Saver(accelerator, self.checkpoints, every=0)
        self.addCleanup(saver.close)
        self.follow()
        saver.count = 5
        with self.assertRaisesRegex(spotter.SpotterError, AGAIN):
            saver.save()
        self.assertTrue(self.others.exists())
        self.assertEqual(saved, [])

    def test_transformers(self):
        module = types.SimpleNamespace(TrainerCallback=object, Trainer=types.SimpleNamespace)
        with stand_in(transformers=module):
            import spotter.transformers
        saved = []
        callback = spotter.transformers.Callback()
        callback.run = self.paused()
        callback._trainer = types.SimpleNamespace(
            model=None, _save_checkpoint=lambda *_, **__: saved.append("at once"))
        arguments = types.SimpleNamespace(output_dir=str(self.checkpoints))
        control = types.SimpleNamespace(should_save=True, should_evaluate=False)
        state = types.SimpleNamespace(global_step=5)
        with self.assertRaisesRegex(spotter.SpotterError, AGAIN):
            callback._save(arguments, state, control)
        with self.assertRaisesRegex(spotter.SpotterError, AGAIN):
            callback._begin_usual_save(state, control)
        self.assertEqual(saved, [])


class Step(unittest.TestCase):
    def test_is_written_by_one_for_all_that_know_the_ranks(self):
        program = """
            import os, sys
            sys.path.insert(0, sys.argv[1])
            from spotter import _ranks, batches
            ranks = _ranks.Ranks()
            ranks.report(7)
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(5):
                batches.Batches(8, 2)
            print(len(os.listdir("/proc/self/fd")) - before, os.getpid())
            """
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, SPOTTER_GANG_RANKS=folder, LOCAL_RANK="0", RANK="0",
                               WORLD_SIZE="1")
            done = subprocess.run(["/usr/bin/python3", "-c", textwrap.dedent(program), PYTHON],
                                  env=environment, stdout=subprocess.PIPE, text=True, check=True)
            more, pid = done.stdout.split()
            with open(f"{folder}/0.step") as file:
                self.assertEqual(file.read().split(), [pid, "7"])
        self.assertEqual(more, "0")


if __name__ == "__main__":
    unittest.main()
