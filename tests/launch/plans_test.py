"""`spotter plan` of a job with `launch.pools` in two regions, without AWS."""

import json
import shutil
import unittest
import xml.etree.ElementTree

import launching
from places_test import HERE, JOB, THERE

setUpModule = launching.setUpModule


class Plans(launching.LaunchTest):
    text = JOB

    def test_the_plan_is_of_each_region_and_of_all(self):
        path = self.job(text=self.text.replace("within: 3h", "within: 6h")
                        .replace("start: 1s", "start: 10m"))
        words = ("plan", path, "--on-demand", "1", "--spot", "0.3", "--samples", "20")
        said = json.loads(self.spotter(*words, "--json", api="http://127.0.0.1:9").stdout)
        self.assertEqual([(it["region"], it["name"].split(" in ")[0]) for it in said["plans"]],
                         [(HERE, "on demand"), (HERE, "spot"), (HERE, "this plan"),
                          (THERE, "on demand"), (THERE, "spot"), (THERE, "this plan"),
                          ("", "this plan")])
        self.assertEqual([it["late"] for it in said["plans"]], [0] * 7)
        for it in said["plans"]:
            self.assertEqual(it["samples"], 20)
            self.assertLessEqual(it["dollars"]["mean"], said["plans"][0]["dollars"]["mean"])
        self.assertIn("brings 1 GB (--home) for $0.02", said["assumption"])
        picture = self.folder / "plan.svg"
        text = self.spotter(*words, "--svg", picture, api="http://127.0.0.1:9").stdout
        self.assertRegex(text, rf"(?m)^{THERE}: spot in g\S+xlarge in its region +\d")
        self.assertRegex(text, r"(?m)^this plan +\d")
        titles = [it.text for it in xml.etree.ElementTree.parse(picture).getroot()]
        self.assertEqual(titles.count(f"{THERE}: this plan"), 2)
        self.assertEqual(titles.count("this plan"), 2)

    def plan(self, *words, text=None, code=0, prices=("--on-demand", "1", "--spot", "0.3"),
             api="http://127.0.0.1:9"):
        path = self.job(text=text or self.text.replace("within: 3h", "within: 12h")
                        .replace("start: 1s", "start: 10m").replace("work: 1h", "work: 6h"))
        done = self.spotter("plan", path, *prices, *words, *(("--json",) if code == 0 else ()),
                            api=api, code=code)
        return done.stderr if code else json.loads(done.stdout)

    def traces(self, **files):
        folder = self.folder / "traces"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for zone, lines in files.items():
            (folder / f"g5.xlarge_{zone.replace('_', '-')}.csv").write_text(
                "".join(f"{hour * 3600},{there},{dollars}\n" for hour, there, dollars in lines))
        return "--traces", folder

    @staticmethod
    def mean(said, region=""):
        return next(it["dollars"]["mean"] for it in said["plans"]
                    if it["name"] == "this plan" and it["region"] == region)

    def test_a_move_costs_the_transfer_of_the_home(self):
        traces = self.traces(us_west_2a=[(0, 1, .3), (3, 0, .3), (12, 0, .3)],
                             us_east_2a=[(0, 0, .3), (2, 1, .3), (12, 1, .3)])
        free, paid = (self.plan(*traces, "--samples", "1", "--home", home) for home in ("0", "100"))
        self.assertLess(self.mean(free), self.mean(free, HERE) - 1, "it moves")
        self.assertAlmostEqual(self.mean(paid) - self.mean(free), 2, places=6)

    def test_a_job_with_channels_moves_for_no_price(self):
        traces = self.traces(us_west_2a=[(0, 1, .8), (12, 1, .8)],
                             us_east_2a=[(0, 1, .1), (12, 1, .1)])
        said = self.plan(*traces, "--samples", "1")
        self.assertLess(self.mean(said), 0.6 * self.mean(said, HERE))
        self.assertIn("checkpoints that cross a border", said["assumption"])
        long = (self.text.replace("within: 3h", "within: 12h").replace("start: 1s", "start: 10m")
                .replace("work: 1h", "work: 6h"))
        said = self.plan(*traces, "--samples", "1", text=long +
                         "channels: {{train: 's3://watched/data'}}\n")
        self.assertEqual(self.mean(said), self.mean(said, HERE))
        self.assertIn("no move is for the price (the job has channels)", said["assumption"])
        said = self.plan(*traces, "--samples", "1", text=long + "  price_moves: false\n")
        self.assertEqual(self.mean(said), self.mean(said, HERE))
        self.assertIn("no move is for the price (launch.price_moves)", said["assumption"])

    def test_the_prices_are_those_of_each_region(self):
        said = self.plan("--samples", "1", prices=("--spot", "0.2"), api=self.served.api)
        here, there = said["regions"]
        self.assertEqual([here["region"], there["region"]], [HERE, THERE])
        self.assertEqual([said["on_demand_price"], said["spot_price"]],
                         [here["on_demand_price"], here["spot_price"]])
        self.assertLess(there["on_demand_price"], here["on_demand_price"], "g4dn costs less")
        self.assertEqual(said["on_demand_in"], THERE)
        self.assertEqual(there["known"], {"on_demand_price": True, "spot_price": True})
        # Nobody answers: what is given stands for the other price, and never is one of $1 made up.
        said = self.plan("--samples", "1", prices=("--on-demand", "32"))
        self.assertEqual([it["spot_price"] for it in said["regions"]], [32 * .35] * 2)
        self.assertEqual(said["regions"][0]["known"],
                         {"on_demand_price": True, "spot_price": False})
        self.assertIn(f"neither price of {HERE} is known", self.plan(prices=(), code=2))

    def test_odd_input_is_refused(self):
        for option in ("--lasts", "--gone", "--home", "--on-demand", "--spot"):
            self.assertIn("nan is not a finite number",
                          self.plan(option, "nan", prices=(), code=2))
        twice = self.text.replace("{{types: [g5.xlarge], zones: [us-west-2a, us-west-2b]}}",
                                  "{{types: [g5.xlarge]}}").replace(THERE, HERE)
        self.assertIn(f"{HERE} is there twice", self.plan(text=twice, code=2))
        said = self.plan("--samples", "5", text=self.text.replace("within: 3h", "within: 8m")
                         .replace("work: 1h", "work: 5m"))
        self.assertEqual([it["late"] for it in said["plans"]], [0] * 7)
        self.assertGreater(said["plans"][0]["dollars"]["mean"], 5 / 60)

    def test_the_plan_moves_where_the_traces_have_capacity(self):
        path = self.job(text=self.text.replace("within: 3h", "within: 6h")
                        .replace("start: 1s", "start: 10m"))
        traces = self.folder / "traces"
        traces.mkdir()
        for zone, lines in (("us-west-2a", "0,0,0.3"), ("us-east-2a", "0,1,0.3")):
            (traces / f"g5.xlarge_{zone}.csv").write_text(f"{lines}\n36000{lines[1:]}\n")

        def means(*more):
            said = json.loads(self.spotter(
                "plan", path, "--on-demand", "1", "--spot", "0.3", "--samples", "2", "--json",
                "--traces", traces, *more, api="http://127.0.0.1:9").stdout)
            return {it["region"]: it["dollars"]["mean"] for it in said["plans"]
                    if it["name"] == "this plan"}
        its = means()
        self.assertGreater(its[HERE], 0.9, "there is no spot capacity")
        self.assertLess(its[THERE], 0.5)
        self.assertLess(its[""], its[HERE])
        self.assertAlmostEqual(means("--home", "10")[""], its[""], places=1)
        (traces / f"g5.xlarge_us-east-2a.csv").rename(traces / "g5.xlarge_eu-west-1a.csv")
        done = self.spotter("plan", path, "--on-demand", "1", "--spot", "0.3", "--traces", traces,
                            api="http://127.0.0.1:9", code=2)
        self.assertIn("g5.xlarge_eu-west-1a is of none of the job's regions", done.stderr)


if __name__ == "__main__":
    unittest.main()
