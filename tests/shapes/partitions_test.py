"""Compares the table of agent/aws/formats/partition.cpp with botocore's endpoints.json."""

import json
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).parents[2] / "agent/aws/formats/partition.cpp"
ROW = re.compile(r'\{"(aws[\w-]*)", "([\w-]*)", "([\w.-]+)", "([\w-]+)",\s*'
                 r'"([\w-]+)",\s*"([\w.-]+)",\s*"([\w.-]+)"\}')

try:
    import botocore
    KNOWN = json.loads((pathlib.Path(botocore.__file__).parent / "data/endpoints.json").read_text())
except (ImportError, OSError):
    KNOWN = None


@unittest.skipIf(KNOWN is None, "botocore and its endpoints.json are not installed (python3-boto3)")
class Partitions(unittest.TestCase):
    def setUp(self):
        self.rows = ROW.findall(SOURCE.read_text())
        self.assertIn("aws", [name for name, *_ in self.rows], "the table is found")

    def of(self, region):
        return next(row for row in self.rows if region.startswith(row[1]))

    def test_each_region_has_the_partition_and_the_suffix_that_botocore_has(self):
        for partition in KNOWN["partitions"]:
            self.assertTrue(partition["regions"])
            for region in partition["regions"]:
                name, _, suffix, *_ = self.of(region)
                self.assertEqual((name, suffix), (partition["partition"], partition["dnsSuffix"]),
                                 region)

    def test_each_has_the_suffix_of_dual_stack_hosts_that_botocore_has(self):
        compared = 0
        for partition in KNOWN["partitions"]:
            ours = next((row for row in self.rows if row[0] == partition["partition"]), None)
            for variant in partition["defaults"].get("variants", []):
                if ours and "dualstack" in variant["tags"]:
                    compared += 1
                    self.assertEqual(ours[6], variant["dnsSuffix"], ours[0])
        self.assertTrue(compared)

    def test_the_price_list_is_asked_for_where_there_is_one(self):
        of_prices = 0
        for partition in KNOWN["partitions"]:
            there = partition["services"].get("api.pricing", {}).get("endpoints")
            ours = next((row for row in self.rows if row[0] == partition["partition"]), None)
            if there and ours:
                of_prices += 1
                self.assertIn(ours[3], there)
        self.assertTrue(of_prices)

    def test_iam_is_asked_where_botocore_asks(self):
        known = 0
        for partition in KNOWN["partitions"]:
            iam = partition["services"].get("iam", {})
            its = iam.get("endpoints", {}).get(iam.get("partitionEndpoint"))
            ours = next((row for row in self.rows if row[0] == partition["partition"]), None)
            if its and ours:
                known += 1
                self.assertEqual(ours[4:6], (its["credentialScope"]["region"], its["hostname"]))
        self.assertGreater(known, 2)


if __name__ == "__main__":
    unittest.main()
