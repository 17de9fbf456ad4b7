"""Each sample exactly once an epoch, at any number of ranks, also one that changes on the way."""

import collections
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "trainer/library/python"))
from spotter.batches import Batches


def trained(length, size, ranks, rank, **options):
    """{step: [(samples, weight, last)]} of one rank."""
    return {batch.step: [(part.samples, part.weight, part.last) for part in batch]
            for batch in Batches(length, size, rank=rank, ranks=ranks, **options)}


class BatchesTest(unittest.TestCase):
    def test_each_sample_once_an_epoch_however_the_ranks_change(self):
        draw = random.Random(5)
        for _ in range(60):
            length, size = draw.randint(1, 60), draw.randint(1, 20)
            micro, epochs = draw.choice([None, draw.randint(1, 9)]), draw.randint(1, 3)
            seen, done = collections.Counter(), 0
            total = Batches(length, size, rank=0, ranks=1, epochs=epochs).steps_total
            while done < total:
                ranks, until = draw.randint(1, 9), draw.randint(done + 1, total)
                steps = [trained(length, size, ranks, rank, micro=micro, epochs=epochs, after=done)
                         for rank in range(ranks)]
                for step in range(done + 1, until + 1):
                    self.assertEqual(len({len(of_rank[step]) for of_rank in steps}), 1,
                                     "no rank waits for another's backward()")
                    for of_rank in steps:
                        self.assertEqual([last for _, _, last in of_rank[step]],
                                         [False] * (len(of_rank[step]) - 1) + [True])
                        for samples, weight, _ in of_rank[step]:
                            self.assertLessEqual(len(samples), micro or size)
                            if weight:
                                seen.update(samples)
                done = until
            self.assertEqual(seen, dict.fromkeys(range(length), epochs))

    def test_the_weights_make_the_mean_over_the_batch(self):
        values = [3.0 ** index for index in range(11)]
        for ranks in (1, 2, 3, 4, 16):
            means = collections.Counter()
            for rank in range(ranks):
                for step, parts in trained(11, 4, ranks, rank, micro=2, seed=None).items():
                    means[step] += sum(weight * sum(values[one] for one in samples)
                                       for samples, weight, _ in parts) / ranks
            for step, first in ((1, 0), (2, 4), (3, 8)):
                batch = values[first:first + 4]
                self.assertAlmostEqual(means[step], sum(batch) / len(batch))

    def test_the_order_is_the_seeds_and_the_epochs(self):
        def order(seed, epochs=2):
            return [one for batch in Batches(9, 4, rank=0, ranks=1, seed=seed, epochs=epochs)
                    for one in batch.samples]
        self.assertEqual(order(None), [*range(9)] * 2)
        self.assertEqual(order(3), order(3))
        self.assertNotEqual(order(3), order(4))
        self.assertNotEqual(order(3)[:9], order(3)[9:])
        self.assertEqual(order(3)[:9], order(3, epochs=1))

    def test_what_cannot_be_is_refused(self):
        for wrong in ((0, 4, None), (4, 0, None), (4, 4, 0)):
            with self.assertRaises(ValueError):
                Batches(*wrong[:2], micro=wrong[2], rank=0, ranks=1)


if __name__ == "__main__":
    unittest.main()
