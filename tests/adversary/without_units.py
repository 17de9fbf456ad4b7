#!/usr/bin/python3
"""A trainer that attacks, where the agent was started without systemd: on a share, on a volume."""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import judge  # adds tests/e2e to the path
import harness
import job as jobs
import life
import volumes
from emulator import processes, wait


class WithoutUnits(judge.Judged, life.Life):
    # Who refuses the metadata service is spotter.service: an agent that is started by hand does
    # not. Process 1 and the journal are of the machine that the test runs on.
    # And sshd, cron and service managers: without a unit there is nothing to get out of.
    left_out = ("asks_the_metadata_service", "speaks_to_process_1", "commands_process_1",
                "speaks_in_spotters_name_to_the_journal", "logs_in_on_loopback",
                "has_others_start_its_programs")
    # fs.protected_hardlinks
    cannot_leave = ("gives_second_names_to_others_files",)

    def setUp(self):
        super().setUp()
        self.root_only("the trainer's user is another than the agent's")
        self.add_storage()

    def words_of_root(self, _):
        return []

    def said(self, one):
        return self.world.console(one)

    def others(self):
        return [*super().others(), self.world.bin]

    def begin_attack(self, env, checkpoints):
        text = jobs.document(self.job_name, self.repository, self.revision, "./train.py",
                             trainer={"env": env}, on_failure={
                                 "attempts_without_progress": 4, "then": "hold"},
                             **self.storage())
        text["checkpoints"] = checkpoints
        return self.launch(text, zones=[self.zone])

    def agent_goes_on(self, one):
        """It is killed, started again, and follows its trainer as before."""
        before = self.agents(one)
        self.kill_agent(one)
        wait("another agent", lambda: self.agents(one) and self.agents(one) != before)
        self.wait_console(one, "it is taken over")
        self.wait_more_steps(one)


class OnAShare(WithoutUnits):
    def add_storage(self):
        self.share = self.world.workplace / "shared"
        self.share.mkdir()
        self.share.chmod(0o1777)
        other = self.share / "other"
        other.mkdir()
        (other / "weights").write_text("another job's\n")
        for path in (other, other / "weights"):
            os.chown(path, judge.STRANGER, judge.STRANGER)

    def storage(self):
        return {"storage": {"folder": {"path": str(self.share)}}}

    def others(self):
        return [*super().others(), self.share / "other"]

    def home(self):
        return self.share / self.job_name

    def leave(self, plan):
        super().leave(plan)
        self.assert_no_way_in(self.share)
        owners = {str(path): path.lstat().st_uid for path in self.share.rglob("*")}
        self.assertGreater(len(owners), 10, "the share was looked at")
        self.assertEqual([path for path, uid in owners.items() if uid == 0], [],
                         "root's work on a share is the trainer's user's")

    def test_links_on_a_share_lead_root_nowhere(self):
        self.leave("links")

    def test_files_on_a_share_give_nobody_rights(self):
        self.leave("files")

    def test_pipes_and_huge_files_on_a_share_stop_nobody(self):
        self.leave("pipes")

    def test_folders_of_a_share_that_change_places_lead_root_nowhere(self):
        self.leave("races")

    def test_what_it_reaches_on_the_machine_is_its_own(self):
        one = self.reach()
        self.agent_goes_on(one)
        self.judge_all(one)
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        self.assert_silent_after(self.home(), (self.home() / "DONE").stat().st_mtime_ns)
        self.assertEqual([words for _, words in processes(self.home())
                          if "train.py" in words], [])


class OnAVolume(WithoutUnits):
    # Its root folder is root's and sticky, and so is .spotter. A mount point has no other name.
    cannot_leave = (*WithoutUnits.cannot_leave, "moves_our_folder_away", "makes_its_home_a_link",
                    "writes_a_record_that_names_root")

    def add_storage(self):
        """Its root folder belongs to the trainer, as `chown` of a mount point leaves it; a folder
        of root's is there, with a file of a name that the guard copies."""
        self.volume_id = self.volume()
        backing = next((self.world.directory / "volumes").glob(f"{self.volume_id}*"))
        subprocess.run(["mkfs.xfs", "-q", backing], check=True, capture_output=True)
        volumes.change(self.world, self.volume_id, f"chown {jobs.trainer_user()} . && "
                       "mkdir -m 755 roots && echo root > roots/readable")

    def storage(self):
        return {"ebs": {"consistency_bound": "1s"}}

    def leave(self, plan):
        super().leave(plan)
        self.ec2.call("CancelSpotFleetRequests", SpotFleetRequestId=[self.fleet],
                      TerminateInstances=True)
        self.wait_volume(self.volume_id, "available")
        self.world.stop()
        own = self.copy_of(self.volume_id, ".spotter")
        self.assertEqual(own.stat().st_uid, 0, "what root believes is root's")
        self.assert_no_way_in(own)
        roots = self.copy_of(self.volume_id, "roots")
        self.assertEqual({path.name: path.read_text() for path in roots.iterdir()},
                         {"readable": "root\n"}, "root's folder beside the trainer's")

    def test_links_on_a_volume_lead_root_nowhere(self):
        self.leave("links")

    def test_files_on_a_volume_give_nobody_rights(self):
        self.leave("files")

    def test_pipes_and_huge_files_on_a_volume_stop_nobody(self):
        self.leave("pipes")

    def test_folders_of_a_volume_that_change_places_lead_root_nowhere(self):
        self.leave("races")


if __name__ == "__main__":
    harness.main()
