"""Fetches the state of a save that lies on GPUs.

Fetched one by one, each tensor waits for the GPU, and is copied through a small buffer of CUDA's.
Here all copies are queued, into the pinned memory that libspotter writes from, and waited for once.
"""

import ctypes
import sys

PAGE = 4096  # a multiple of it is where each part of a save begins in that memory


class Staging:
    """Of one thread at a time."""

    def __init__(self):
        self._streams = set()

    @staticmethod
    def takes(tensor):
        return tensor.is_cuda  # ROCm's, too

    def fetch(self, parts, lend):
        """Gives an address to each Piece of [(part's name, [Piece, ...]), ...] that has none, in
        the memory that lend(bytes) returns, and copies it to there. False: that returned None."""
        total, fetched = 0, []
        for _, pieces in parts:
            for piece in pieces:
                if piece.source is not None:
                    fetched.append((piece, total))
                total += piece.size
            total += -total % PAGE
        memory = lend(total) if fetched else None
        if fetched and memory is None:
            return False
        for piece, at in fetched:
            piece.address = memory + at
            target = (ctypes.c_char * piece.size).from_address(piece.address)
            torch = sys.modules["torch"]
            self._copy(torch.frombuffer(target, dtype=torch.uint8), piece.source)
        self._wait()
        return True

    def _copy(self, target, source):
        target.copy_(source, non_blocking=True)
        self._streams.add(sys.modules["torch"].cuda.current_stream(source.device))

    def _wait(self):
        for stream in self._streams:
            stream.synchronize()
        self._streams.clear()
