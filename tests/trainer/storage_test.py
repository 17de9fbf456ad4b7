#!/usr/bin/python3
"""Checkpoints of a job are on its storage: what is elsewhere is lost with the machine.

Environment: as for api_test.py.
"""

import os
import unittest

from api_test import Api, spotter


class Storage(Api):
    def setUp(self):
        super().setUp()
        self.storage, self.elsewhere = self.folder / "storage", self.folder / "elsewhere"
        os.environ["SPOTTER_STORAGE"] = str(self.storage)

    def begin_job(self):
        os.environ["SPOTTER_CHECKPOINTS"] = str(self.storage / "checkpoints")

    def test_without_a_job_each_place_is_as_good(self):
        with spotter.open(self.elsewhere) as run:
            run.save(1, value=1)

    def test_what_is_on_the_storage_is_taken_also_by_a_link(self):
        self.begin_job()
        link = self.folder / "link"
        link.symlink_to(self.storage)
        for directory in (None, self.storage / "checkpoints", self.storage / "other/deep",
                          link / "linked"):
            with spotter.open(directory) as run:
                run.save(1, value=1)

    def test_a_checkpoint_folder_that_the_job_has_moved_elsewhere_is_its_storage_too(self):
        os.environ["SPOTTER_CHECKPOINTS"] = str(self.elsewhere)
        for directory in (None, self.elsewhere / "of-one", self.storage / "other"):
            spotter.open(directory).close()

    def test_what_is_elsewhere_is_refused_with_what_to_do(self):
        self.begin_job()
        self.storage.mkdir()
        self.elsewhere.mkdir()
        self.storage.joinpath("way-out").symlink_to(self.elsewhere)
        for directory in (self.elsewhere, "checkpoints", self.storage / "../elsewhere",
                          f"{self.storage}-2", self.storage / "way-out/deep"):
            with self.subTest(directory=directory), self.assertRaisesRegex(
                    spotter.SpotterError, r"lost with this machine(.|\n)*Name no directory"):
                spotter.open(directory)

    def test_nor_is_it_called_durable_in_a_format_of_its_own(self):
        self.begin_job()
        self.elsewhere.mkdir()
        self.elsewhere.joinpath("own").write_text("made")
        with spotter.open() as run:
            with self.assertRaisesRegex(spotter.SpotterError, "outside the job's storage"):
                run.saved(2, self.elsewhere / "own")
            self.assertEqual(run.durable_step, None)


if __name__ == "__main__":
    unittest.main()
