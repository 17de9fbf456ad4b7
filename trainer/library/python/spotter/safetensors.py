"""Checkpoints as files of safetensors, which other programs read, and which hold no pickle:

    run = spotter.open()                              # $SPOTTER_CHECKPOINTS
    old = spotter.safetensors.load(run)               # None: from scratch
    if old:
        model.load_state_dict(old)                    # old.step, old.meta: the metadata
    ...
        if run.should_checkpoint():
            spotter.safetensors.save(run, step, model.state_dict(), {"epoch": "3"})

Each is `checkpoint-N/model.safetensors`, there whole or not at all; as many stay as the run keeps.
save() returns when it is durable. Of several ranks all make the calls; rank 0's tensors count.
"""

import safetensors as _safetensors
import safetensors.torch

from ._folders import Folders
from ._run import Checkpoint

FILE = "model.safetensors"


def save(run, step, tensors, metadata=None):
    """`tensors`: PyTorch's by name; `metadata`: texts by name. False: it would not be durable in
    time."""
    folders = Folders(run.directory, run.keep_last)
    if not run.can_save():
        return False
    run.begin_save()
    made = folders.unfinished(step)

    def write():
        run._check_writer()
        folders.clean()
        made.mkdir(exist_ok=True)
        _safetensors.torch.save_file(_apart(tensors), made / FILE,
                                     {"format": "pt"} | (metadata or {}))
        run._saved(step, folders.path(step), made)
        folders.rotate(step)
    run._ranks.share(write)
    return True


def _apart(tensors):
    """Each with memory of its own, which the format demands: tied weights share theirs."""
    whole, seen = {}, set()
    for name, each in tensors.items():
        each = each.detach().cpu().contiguous()
        memory = each.untyped_storage().data_ptr()
        whole[name] = each.clone() if memory in seen else each
        seen.add(memory)
    return whole


def load(run):
    """The newest Checkpoint that is whole, or None; torn ones are passed over, and if all are torn
    it raises."""
    folders = Folders(run.directory, run.keep_last)
    step = run._ranks.share(lambda: folders.newest(_torn))
    run.resumed(step or 0)
    if step is None:
        return None
    path = folders.path(step) / FILE
    with _safetensors.safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        metadata = {name: text for name, text in (file.metadata() or {}).items()
                    if name != "format"}
    return Checkpoint(tensors, step, metadata, str(path))


def _torn(folder):
    """What is wrong with it; None: nothing."""
    try:
        with _safetensors.safe_open(folder / FILE, "pt"):  # fails where its end is missing
            return None
    except (OSError, _safetensors.SafetensorError) as error:
        return f"{folder / FILE}: {error}"
