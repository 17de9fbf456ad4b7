"""`spotter plan` of a job with `launch.pools` in two regions, without AWS."""

import json
import unittest

import launching
from places_test import HERE, JOB, THERE

setUpModule = launching.setUpModule


class Plans(launching.LaunchTest):
    text = (JOB.replace("within: 3h", "within: 12h").replace("start: 1s", "start: 10m")
            .replace("work: 1h", "work: 6h"))

    def plan(self, *words, text=None, code=0, prices=("--on-demand", "1", "--spot", "0.3"),
             api="http://127.0.0.1:9"):
        done = self.spotter("plan", self.job(text=text or self.text), *prices, *words,
                            *(("--json",) if code == 0 else ()), api=api, code=code)
        return done.stderr if code else json.loads(done.stdout)

    def test_the_plan_is_of_each_region(self):
        said = self.plan()
        here, there = said["regions"]
        self.assertEqual([here["region"], there["region"]], [HERE, THERE])
        self.assertEqual(here["dollars_expected"], there["dollars_expected"], "the same prices")
        self.assertLess(here["dollars_expected"], 0.7 * here["dollars_on_demand"])
        self.assertIn("as if each region were the only one", said["assumption"])
        text = self.spotter("plan", self.job(text=self.text + "limits: {{dollars: 2}}\n"),
                            "--on-demand", "1", "--spot", "0.3", api="http://127.0.0.1:9").stdout
        self.assertRegex(text, rf"(?m)^{THERE}: \$6\.17 on demand alone, \$\d\.\d\d as ")
        self.assertRegex(text, rf"(?m)^{THERE}: limits.dollars \$2.00 is LESS than that$")

    def test_it_says_what_a_move_of_the_volume_takes(self):
        def move(gibibytes, more=""):
            here, _, _ = self.text.partition(",\n          {{region:")
            text = here.replace("{{s3: 's3://watched/homes'}}", "{{ebs: {{tag: {{Name: v}}}}}}")
            return self.plan(text=text + f"]\n  volume: {{{{size: {gibibytes}{more}}}}}\n")["move"]
        self.assertIn("89 min for all 500 GiB)", move(500))
        self.assertIn("newest checkpoint, 14 s a GiB", move(500))
        self.assertIn("read behind the trainer in 7 h 6 min at most; the state on a volume of few "
                      "GiB of its own", move(500))
        self.assertIn("at the rate that is paid in 28 min", move(500, ", initialization_rate: 300"))
        self.assertNotIn("of its own", move(8))
        self.assertEqual(self.plan()["move"], "", "a home in a bucket does not move")

    def test_capacity_that_lasts_longer_costs_less(self):
        def cost(*words):
            return self.plan(*words)["regions"][0]["dollars_expected"]
        usual, long = cost(), cost("--lasts", "200", "--gone", "0.1")
        self.assertLess(long, usual)
        self.assertAlmostEqual(long, 0.3 * (6 + 1 / 6), delta=0.1)
        self.assertGreater(cost("--lasts", "0.1", "--gone", "100"), 5.5, "nearly all on demand")

    def test_the_prices_are_those_of_each_region(self):
        said = self.plan(prices=("--spot", "0.2"), api=self.served.api)
        here, there = said["regions"]
        self.assertLess(there["on_demand_price"], here["on_demand_price"], "g4dn costs less")
        self.assertEqual(there["known"], {"on_demand_price": True, "spot_price": True})
        # Nobody answers: what is given stands for the other price, and never is one of $1 made up.
        said = self.plan(prices=("--on-demand", "32"))
        self.assertEqual([it["spot_price"] for it in said["regions"]], [32 * .35] * 2)
        self.assertEqual(said["regions"][0]["known"],
                         {"on_demand_price": True, "spot_price": False})
        self.assertIn(f"neither price of {HERE} is known", self.plan(prices=(), code=2))

    def test_odd_input_is_refused(self):
        for option in ("--lasts", "--gone", "--on-demand", "--spot"):
            self.assertIn("nan is not a finite number",
                          self.plan(option, "nan", prices=(), code=2))
        twice = self.text.replace("{{types: [g5.xlarge], zones: [us-west-2a, us-west-2b]}}",
                                  "{{types: [g5.xlarge]}}").replace(THERE, HERE)
        self.assertIn(f"{HERE} is there twice", self.plan(text=twice, code=2))

    def test_without_time_to_wait_it_is_on_demand(self):
        said = self.plan(text=JOB.replace("within: 3h", "within: 8m")
                         .replace("work: 1h", "work: 5m").replace("start: 1s", "start: 2m"))
        for it in said["regions"]:
            self.assertAlmostEqual(it["dollars_expected"], it["dollars_on_demand"])
            self.assertAlmostEqual(it["dollars_on_demand"], 7 / 60)


if __name__ == "__main__":
    unittest.main()
