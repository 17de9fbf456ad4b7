"""Host memory for the state of a save that lies on GPUs.

Fetched one by one, each tensor waits for the GPU, and is copied through a small buffer of CUDA's.
Here all copies are queued, into pinned memory that the GPU writes by itself, and waited for once.
That memory, as large as the state, is kept for the next save.
"""

import sys

BLOCK = 64 << 20    # bytes: a power of two, to which PyTorch rounds pinned memory up
ALIGNMENT = 64      # of each tensor in its block


class Staging:
    """Between two calls of begin() the copies stay as they are. Of one thread at a time."""

    def __init__(self):
        self._blocks, self._used, self._streams = [], 0, set()

    def begin(self):
        self._used = 0

    @staticmethod
    def takes(tensor):
        return tensor.is_cuda  # ROCm's, too

    def place(self, tensor):
        """Queues the copy of a contiguous tensor, and yields where it will be after wait(): flat
        tensors of bytes, in order, no two of which need lie side by side."""
        torch = sys.modules["torch"]
        bytes_of = tensor.reshape(-1).view(torch.uint8)
        self._used += -self._used % ALIGNMENT
        done = 0
        while done < bytes_of.numel():
            number, begin = divmod(self._used, BLOCK)
            if number == len(self._blocks):
                self._blocks.append(self._block(torch))
            source = bytes_of[done:done + BLOCK - begin]
            target = self._blocks[number][begin:begin + source.numel()]
            self._copy(target, source)
            self._used += source.numel()
            done += source.numel()
            yield target

    def wait(self):
        """Until all that was placed is there."""
        for stream in self._streams:
            stream.synchronize()
        self._streams.clear()

    @staticmethod
    def _block(torch):
        try:
            return torch.empty(BLOCK, dtype=torch.uint8, pin_memory=True)
        except RuntimeError:  # a limit on locked memory: slower, and as right
            return torch.empty(BLOCK, dtype=torch.uint8)

    def _copy(self, target, source):
        target.copy_(source, non_blocking=True)
        self._streams.add(sys.modules["torch"].cuda.current_stream(source.device))
