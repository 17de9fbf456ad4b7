"""Several processes that train one model (torchrun, DDP): rank 0 saves and decides, the others do
as it says. What is shared goes by CPU, through a group of our own: no GPU is waited for."""

import os
import sys


def rank():
    """Of this process: as PyTorch says, else as the launcher does; 0 where there is one process."""
    distributed = _distributed()
    if distributed and distributed.is_initialized():
        return distributed.get_rank()
    said = (os.environ.get(name) for name in ("RANK", "SLURM_PROCID", "NODE_RANK", "LOCAL_RANK"))
    return next((int(number) for number in said if number and int(number)), 0)


def _distributed():
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    return distributed if distributed and distributed.is_available() else None


class Ranks:
    def __init__(self):
        self.leads, self._group = rank() == 0, None

    def share(self, ask):
        """Rank 0's answer, or exception, on all ranks; each of them has to call this."""
        distributed = _distributed()
        if not (distributed and distributed.is_initialized()) or distributed.get_world_size() == 1:
            if self.leads:
                return ask()
            raise RuntimeError("this is not rank 0: first torch.distributed.init_process_group()")
        if self._group is None:
            self._group = distributed.new_group(backend="gloo")
        box = [None, None]
        if self.leads:
            try:
                box[0] = ask()
            except Exception as error:  # the others would wait for ever
                box[1] = error
        distributed.broadcast_object_list(box, src=0, group=self._group)
        if box[1] is not None:
            raise box[1]
        return box[0]
