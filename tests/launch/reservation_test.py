#!/usr/bin/python3
"""`launch.capacity_reservation`: a fleet of type instant, and what is judged before."""

import unittest

from launching import JOB, LaunchTest, Recorder, setUpModule  # noqa: F401
import served

ONE_PLACE = JOB.replace("[g5.xlarge, g4dn.xlarge]", "[g5.xlarge]").replace(
    "[us-west-2a, us-west-2b]", "[us-west-2a]")
BLOCK, LENT = "capacity-block", "interruptible-capacity-reservation"


class Reservation(LaunchTest):
    text = ONE_PLACE

    def setUp(self):
        super().setUp()
        self.fault("block-cleanup", "most=2s")

    def tearDown(self):
        self.spotter("stop", self.job(), "--wait", code=None)

    def reserve(self, market, *options, type="g5.xlarge", zone="us-west-2a"):
        end = ("--ends", "5h") if market == BLOCK and "--ends" not in options else ()
        return self.served.command("reserve", market, type, zone, *options, *end).stdout.strip()

    def into(self, reservation, kind=BLOCK, besides=""):
        return f"  capacity_reservation: {{id: {reservation}, kind: {kind}}}\n{besides}"

    def test_block_is_asked_for_as_botocore_would(self):
        printed = self.assert_printed_is_sent(self.into(self.reserve(BLOCK)))
        fleet = printed["CreateFleet"][1]
        self.assertEqual(fleet["Type"], "instant")
        self.assertEqual(fleet["TargetCapacitySpecification"],
                         {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": BLOCK})
        for other in ("SpotOptions", "ReservedCapacityOptions", "ValidUntil"):
            self.assertNotIn(other, fleet)
        data = printed["CreateLaunchTemplate"][1]["LaunchTemplateData"]
        self.assertEqual(data["InstanceMarketOptions"], {"MarketType": BLOCK})
        self.assertIn("CapacityReservationTarget", data["CapacityReservationSpecification"])
        self.one_instance()

    def test_interruptible_one_is_asked_for(self):
        """Debian's botocore does not know ReservedCapacityOptions yet."""
        more = self.into(self.reserve(LENT), "interruptible")
        fleet = self.printed(more)["CreateFleet"][1]
        self.assertEqual(fleet["TargetCapacitySpecification"],
                         {"TotalTargetCapacity": 1,
                          "DefaultTargetCapacityType": "reserved-capacity"})
        self.assertEqual(fleet["ReservedCapacityOptions"], {"ReservationTypes": [LENT]})
        with Recorder(self.served.api) as recorder:
            self.launch(more, api=recorder.api)
        sent, = [it for it in recorder.calls
                 if it["Action"] == "CreateFleet" and it.get("DryRun") != "true"]
        self.assertEqual(sent["ReservedCapacityOptions.ReservationType.1"], LENT)
        self.assertEqual(sent["Type"], "instant")
        self.one_instance()

    def test_fleet_that_is_there_is_left_and_stop_ends_it(self):
        """EC2 shows it only to who names it."""
        more = self.into(self.reserve(BLOCK))
        one = self.launch(more)
        machine = self.one_instance()
        again = self.spotter("launch", self.job(more))
        self.assertEqual(again.stdout.strip(), one)
        self.assertIn("is at work already", again.stderr)
        self.assertEqual(self.one_instance(), machine)
        self.assertIn(one, self.spotter("list").stdout)
        self.assertEqual(self.spotter("stop", self.job(more), "--keep-instances").returncode, 0)
        self.assertEqual(self.one_instance(), machine)
        ended = self.spotter("stop", self.job(more), "--wait").stderr
        self.assertIn(f"{one} is ended, and so are its instances", ended)
        self.assertEqual(self.instances(), [])

    def test_machine_that_ended_is_replaced_by_the_next_launch(self):
        more = self.into(self.reserve(BLOCK))
        one = self.launch(more)
        machine = self.one_instance()
        self.served.command("kill", machine)
        served.eventually(lambda: not self.instances("pending", "running", "shutting-down"))
        two = self.launch(more)
        self.assertNotEqual(two, one)
        self.assertNotEqual(self.one_instance(), machine)

    def test_what_does_not_fit_is_refused_before_anything_ends(self):
        job = self.into(self.reserve(BLOCK))
        self.launch(job)
        machine = self.one_instance()
        for reservation, kind, why in (
                ("cr-00000000000000000", BLOCK, "is not there"),
                (self.reserve(LENT), BLOCK, "is of another kind"),
                (self.reserve(BLOCK, type="p5.48xlarge"), BLOCK, "is of p5.48xlarge"),
                (self.reserve(BLOCK, zone="us-west-2b"), BLOCK, "is in us-west-2b"),
                (self.reserve(BLOCK, "--begins", "1h", "--ends", "5h"), BLOCK, "begins at"),
                (self.reserve(BLOCK, "--ends", "29m"), BLOCK, "EC2 clears it already")):
            with self.subTest(why):
                self.assertIn(why, self.refused(self.into(reservation, kind)))
        self.assertEqual(self.one_instance(), machine)

    def test_nothing_launched_is_an_error(self):
        lent = self.reserve(LENT)
        self.served.command("reclaim", lent, "--in", "1s")
        self.assertIn(f"EC2 launched nothing into {lent}: ReservationCapacityExceeded",
                      self.refused(self.into(lent, "interruptible")))

    def test_launchers_policy_allows_it(self):
        more = self.into(self.reserve(BLOCK))
        self.limit(self.job(more))
        self.launch(more)
        self.one_instance()

    def test_launchers_policy_names_the_look(self):
        job = self.job(self.into(self.reserve(BLOCK)))
        self.limit(job, "LookAtTheReservation")
        said = self.spotter("launch", job, code=None).stderr
        self.assertIn("ec2:DescribeCapacityReservations", said)


if __name__ == "__main__":
    unittest.main()
