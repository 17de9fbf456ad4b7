"""Two jobs of one name: neither ends, takes or replaces what is the other's."""

import unittest

import launching
from launching import JOB, SPOT_FLEET

setUpModule = launching.setUpModule
GROUP = "  type: auto-scaling-group\n"
SWEEP = JOB.replace("./train.sh", '"./train.sh {{seed}}"') + "sweep: {{grid: {{seed: [1, 2]}}}}\n"


class Namesakes(launching.LaunchTest):
    def others(self, more=""):
        """job.yaml of somebody else's job of this name, on another volume."""
        path = self.folder / "others.yaml"
        path.write_text(JOB.format(name=self.name).replace(
            f"Name: {self.name}", f"Name: {self.name}-others") + more)
        return path

    def tag(self, ids, **tags):
        self.ec2.create_tags(Resources=ids, Tags=[{"Key": "spotter:" + key, "Value": value}
                                                  for key, value in tags.items()])

    def both(self):
        """The fleets of this job and of a namesake, which did not see one another."""
        mine = self.launch()
        mine_too = self.one_instance()
        self.tag([mine, mine_too], job="nobody")
        others = self.spotter("launch", self.others()).stdout.strip()
        others_too = self.one_instance()
        self.tag([mine, mine_too], job=self.name)
        return (mine, mine_too), (others, others_too)

    def test_a_launch_is_refused_and_names_both(self):
        for more in ("", SPOT_FLEET, GROUP):
            fleet = self.launch(more)
            instance = self.one_instance()
            refused = self.spotter("launch", self.others(more), "--skip-checks", code=1).stderr
            self.assertRegex(refused, f"two jobs are called {self.name}: one on "
                                      f"Name={self.name}-others, and one on Name={self.name}, "
                                      f"to which {fleet} belongs")
            self.assertEqual(self.active(), [fleet] if more != GROUP else [])
            self.assertEqual(self.instances(), [instance])
            made = self.ec2.describe_volumes(
                Filters=[{"Name": "tag:Name", "Values": [self.name + "-others"]}])["Volumes"]
            self.assertEqual(made, [])
            self.spotter("stop", self.name, "--wait")

    def test_stop_ends_only_the_one_that_job_yaml_describes(self):
        mine, others = self.both()
        self.assertIn(f"{self.name}: jobs of one name, on Name={self.name}, "
                      f"Name={self.name}-others\n", self.spotter("list").stdout)
        refused = self.spotter("stop", self.name, code=1).stderr
        self.assertRegex(refused, "two jobs are called")
        self.assertEqual(sorted(self.active()), sorted([mine[0], others[0]]))
        self.spotter("stop", self.others(), "--wait")
        self.assertEqual((self.active(), self.instances()), ([mine[0]], [mine[1]]))
        self.spotter("stop", self.name, "--wait")
        self.assertEqual((self.active(), self.instances()), ([], []))

    def test_what_an_earlier_version_launched_is_kept_and_ended(self):
        fleet = self.launch()
        instance = self.one_instance()
        self.ec2.delete_tags(Resources=[fleet, instance], Tags=[{"Key": "spotter:storage"}])
        self.assertEqual(self.launch(), fleet, "its request has the same digest")
        self.assertEqual(self.instances(), [instance])
        self.spotter("stop", self.folder / "job.yaml", "--wait")
        self.assertEqual((self.active(), self.instances()), ([], []))

    def made(self, name, **tags):
        """A volume of theirs."""
        tags = [{"Key": "Name", "Value": name}] + [
            {"Key": "spotter:" + key, "Value": value} for key, value in tags.items()]
        volume = self.ec2.create_volume(AvailabilityZone="us-west-2b", Size=1, TagSpecifications=[
            {"ResourceType": "volume", "Tags": tags}])["VolumeId"]
        self.ec2.get_waiter("volume_available").wait(VolumeIds=[volume],
                                                     WaiterConfig={"Delay": 1})
        self.addCleanup(self.ec2.delete_volume, VolumeId=volume)
        return volume

    def test_a_namesakes_copy_is_not_taken_for_the_jobs_volume(self):
        self.made("", job=self.name, role="verified", storage="Name=another")
        self.launch()
        self.assertEqual(len(self.volumes()), 1, "the job got a volume of its own")

    def test_a_namesakes_volume_is_named(self):
        theirs = self.made("another", job=self.name, role="state", generation="3")
        refused = self.refused()
        self.assertRegex(refused, f"two jobs are called {self.name}.*{theirs} .Name=another.*"
                                  f"wants Name={self.name}:")
        self.assertEqual((self.active(), self.volumes()), ([], []))

    def test_a_sweep_is_listed_with_its_volumes_beside_a_job_of_a_number(self):
        sweep, name = self.name, f"{self.name}-1"
        self.spotter("launch", self.job(text=SWEEP), "--skip-checks")
        path = self.folder / "number.yaml"
        path.write_text(JOB.format(name=name).replace(f"Name: {name}", "Name: another"))
        self.spotter("launch", path, "--skip-checks")
        listed = self.listed()
        self.assertEqual(sorted(it["storage"] for it in listed[sweep]["volumes"]),
                         [f"Name={sweep}:0", f"Name={sweep}:1"])
        self.assertEqual([it["storage"] for it in listed[name]["volumes"]], ["Name=another"])

    def test_an_experiment_is_not_the_job_of_its_number(self):
        theirs = self.made(f"{self.name}-1", job=f"{self.name}-1", role="state", generation="3")
        self.spotter("launch", self.job(text=SWEEP), "--skip-checks")
        own = [it["id"] for it in self.listed()[self.name]["volumes"]]
        self.assertEqual(len(own), 2, "each experiment has a volume of its own")
        self.assertNotIn(theirs, own)


if __name__ == "__main__":
    unittest.main()
