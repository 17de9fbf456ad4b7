"""Which samples a step trains on, for any number of ranks: each sample exactly once an epoch.

    for batch in spotter.batches.Batches(len(data), 256, micro=32, epochs=5, after=old_step):
        for part in batch:                       # of this rank; the same number on all of them
            with contextlib.nullcontext() if part.last else model.no_sync():
                inputs, targets = data[part.samples]
                loss = F.cross_entropy(model(inputs), targets, reduction="sum") * part.weight
                loss.backward()
        optimizer.step()
        ...                                      # batch.step, batch.epoch

The batch is `size` samples of all ranks together, whatever their number: with fewer ranks each has
more parts, whose gradients add up. `weight` makes of the sum over a part its share in the mean over
the batch, as DistributedDataParallel takes the mean of the ranks. So the position in the data is
the step alone, and a checkpoint of one number of ranks goes on with another.

With the same number of ranks an interrupted training has the bits of an undisturbed one only if the
ranks' gradients are summed in one order. DistributedDataParallel's depends on where in a bucket a
gradient lies, and its buckets are others in the first step of a process:

    model.register_comm_hook(None, spotter.batches.sum_in_order)   # it sends more
"""

import random
import sys

from ._ranks import Ranks


def sum_in_order(group, bucket):
    """A hook of DistributedDataParallel: the mean of the gradients, summed from rank 0 to the last.
    `group`: of the ranks; None: all."""
    torch = sys.modules["torch"]
    mine = bucket.buffer()
    everybodys = [torch.empty_like(mine)
                  for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(everybodys, mine, group=group)
    mean = everybodys[0]
    for each in everybodys[1:]:
        mean += each
    done = torch.futures.Future()
    done.set_result(mean.div_(len(everybodys)))
    return done


class Part:
    """samples: indices. weight: of the sum of their losses. last: of this rank in this step."""

    def __init__(self, samples, weight, last):
        self.samples, self.weight, self.last = samples, weight, last


class Batch:
    """One step, counted from 1; its epoch, counted from 0."""

    def __init__(self, step, epoch, samples, parts):
        self.step, self.epoch = step, epoch
        self.samples = samples  # of all ranks
        self._parts = parts

    def __iter__(self):
        return iter(self._parts)


class Batches:
    """length   of the data set
    size     samples of a step, of all ranks together; the last batch of an epoch may be smaller
    micro    samples of a part at most: what fits into a GPU
    seed     of the order, another one each epoch; None: as they lie
    after    the last step that is done
    rank, ranks   default: this process's, by torch.distributed
    """

    def __init__(self, length, size, *, micro=None, seed=0, epochs=1, after=0, rank=None,
                 ranks=None):
        if length < 1 or size < 1 or (micro is not None and micro < 1):
            raise ValueError("a data set, a batch and a part have at least one sample")
        known = Ranks() if rank is None or ranks is None else None
        self._length, self._size, self._micro = length, size, micro or size
        self._seed, self._epochs, self._after = seed, epochs, after
        self._rank = known.rank if rank is None else rank
        self._ranks = known.count if ranks is None else ranks

    @property
    def steps_per_epoch(self):
        return -(-self._length // self._size)

    @property
    def steps_total(self):
        return self.steps_per_epoch * self._epochs

    def __iter__(self):
        order, of_epoch = None, None
        for step in range(self._after + 1, self.steps_total + 1):
            epoch, at = divmod(step - 1, self.steps_per_epoch)
            if epoch != of_epoch:
                order, of_epoch = self._order(epoch), epoch
            samples = order[at * self._size:(at + 1) * self._size]
            yield Batch(step, epoch, samples, self._parts(samples))

    def _order(self, epoch):
        order = list(range(self._length))
        if self._seed is not None:
            random.Random(f"{self._seed} {epoch}").shuffle(order)
        return order

    def _parts(self, samples):
        mine = samples[self._rank::self._ranks]
        longest = -(-len(samples) // self._ranks)
        count = -(-longest // self._micro)  # on all ranks: the last one waits for the others
        weight = self._ranks / len(samples)
        parts = []
        for index in range(count):
            part = mine[index * self._micro:(index + 1) * self._micro]
            # A rank without one takes any: it must not count.
            parts.append(Part(part or samples[:1], weight if part else 0.0, index == count - 1))
        return parts
