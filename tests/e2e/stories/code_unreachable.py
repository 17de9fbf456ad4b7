"""The repository cannot be reached: said, waited for, and then it can."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


class CodeUnreachable(life.Life):
    def test_away_and_back(self):
        away = self.repository.with_name("away")
        self.repository.rename(away)
        one = self.begin()
        self.wait_stage(one, "blocked")
        self.wait_console(one, "blocked: the code could not be fetched")
        self.assertEqual(self.trainers(one), [])
        self.assert_fleet_untouched()
        away.rename(self.repository)
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
