"""How far the ranks have read their channels. Rank 0's positions are libspotter's; those of the
others are gathered at each save, and lie beside them in the checkpoint's meta:

    "spotter_channels_of_ranks": {"train": {"ranks": 2, "1": [epoch, bytes, records]}}
"""

import weakref

from ._library import SpotterError

OF_RANKS = "spotter_channels_of_ranks"


class Positions:
    def __init__(self, ranks):
        self._ranks, self._restored, self._left, self._open = ranks, None, {}, {}

    def restore(self, meta):
        self._restored = meta.get(OF_RANKS, {})
        mine = str(self._ranks.rank)
        self._left = {name: tuple(saved[mine]) for name, saved in self._restored.items()
                      if saved["ranks"] == self._ranks.count and mine in saved}

    def check(self, name):
        """Fails if the checkpoint is of another number of ranks, as each reads its own part."""
        before = (self._restored or {}).get(name, {}).get("ranks", self._ranks.count)
        if before != self._ranks.count:
            raise SpotterError(
                f"of channel {name} {before} ranks have each read their part, and now there are "
                f"{self._ranks.count}: go on with {before}, or read it again with spotter.Channel")

    def open(self, channel):
        """Where this rank resumes. REQUIRES: it is not rank 0."""
        if self._restored is None:
            raise SpotterError("open a channel after restore()")
        if self._reading(channel.name):
            raise SpotterError(f"channel {channel.name} is open already")
        self._open[channel.name] = weakref.ref(channel)
        return self._left.get(channel.name, (0, 0, 0))

    def close(self, channel):
        if self._reading(channel.name) is channel:
            self._left[channel.name] = channel.position
            del self._open[channel.name]

    def _reading(self, name):
        return self._open.get(name, lambda: None)()

    def now(self):
        """This rank's positions, by name."""
        reading = ((name, self._reading(name)) for name in self._open)
        return self._left | {name: channel.position for name, channel in reading if channel}

    def document(self, everybodys):
        """The positions for the meta, made from each rank's now()."""
        document = dict(self._restored or {})
        read = {name for positions in everybodys for name in positions}
        for name in read:
            document[name] = {"ranks": len(everybodys)} | {
                str(rank): positions[name] for rank, positions in enumerate(everybodys)
                if name in positions}
        return {OF_RANKS: document} if document else {}
