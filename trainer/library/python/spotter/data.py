"""Channels for PyTorch:

    train = spotter.data.Records(run.channel("train"), decode)
    loader = spotter.data.DataLoader(train, batch_size=64, num_workers=1)
    for epoch in range(train.channel.epoch, epochs):
        for batch in loader:                 # after a restart: the rest of the epoch
            step += 1
            ...
            if run.should_checkpoint(): run.save(step, model=model.state_dict())

A save records what was consumed by then: the records of all batches that the loop has got. So
save when the batch is trained, before the next one is taken. What a worker has read ahead does not
count.

A FIFO has one reader. num_workers=0 reads in this process; with workers the first one reads and
decodes, ahead of the training, and the others get nothing: more than one is of no use for one
channel. With workers take this DataLoader: PyTorch's own does not say which records its batches
are made of, and is refused.
"""

import torch.utils.data

from ._run import SpotterError

LOOK_MS = 1000  # how often a process that waits for its worker checks whether to stop


class Records(torch.utils.data.IterableDataset):
    """Yields `decode(record)` of each record: the rest of the epoch, then the next epoch."""

    def __init__(self, channel, decode=None):
        self.channel, self.decode = channel, decode
        self._counted = False

    def __iter__(self):
        decode = self.decode or (lambda record: record)
        worker = torch.utils.data.get_worker_info()
        if worker is None:
            yield from map(decode, self.channel)
            return
        if not self._counted:
            raise SpotterError("take spotter.data.DataLoader, or num_workers=0: else no checkpoint "
                               f"knows how much of channel {self.channel.name} was consumed")
        if worker.id == 0:
            for record in self.channel:
                yield self.channel.position, decode(record)


class _Collate:
    """Collates (position, sample): the position after the last sample, and the batch."""

    def __init__(self, collate, batched):
        self._collate, self._batched = collate, batched

    def __call__(self, samples):
        if not self._batched:
            return samples[0], self._collate(samples[1])
        return samples[-1][0], self._collate([sample for _, sample in samples])


class DataLoader(torch.utils.data.DataLoader):
    """PyTorch's loader, for Records: saves record what was consumed, also with a worker."""

    def __init__(self, records, **options):
        if options.get("persistent_workers"):
            raise SpotterError("persistent_workers: an epoch is read by a worker of its own")
        records._counted = options.get("num_workers", 0) > 0
        self._looks = records._counted and not options.get("timeout")
        if self._looks:
            options["timeout"] = LOOK_MS / 1000
        super().__init__(records, **options)
        if records._counted:
            self.collate_fn = _Collate(self.collate_fn, self.batch_size is not None)

    def __iter__(self):
        if not self.dataset._counted:
            yield from super().__iter__()
            return
        channel = self.dataset.channel
        for position, batch in self._wait(super().__iter__()):
            channel.position = position
            yield batch
        channel.position = (channel.epoch + 1, 0, 0)

    def _wait(self, batches):
        """The worker waits for data, while this process handles signals."""
        waited = 0
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except RuntimeError as error:
                if not self._looks or "timed out" not in str(error):
                    raise
                waited += LOOK_MS
                self.dataset.channel._wait(waited)
                continue
            waited = 0
            yield batch
