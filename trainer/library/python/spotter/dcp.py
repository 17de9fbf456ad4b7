"""torch.distributed.checkpoint, of states that are sharded over several ranks (FSDP, DTensor):

    run = spotter.open()                              # $SPOTTER_CHECKPOINTS
    reader = spotter.dcp.Reader(run)                  # after init_process_group()
    if reader:
        dcp.load(state, storage_reader=reader)
    for step in range(reader.step + 1, steps + 1):
        train(step)
        run.progress(step, loss=loss)
        if run.should_checkpoint() and run.can_save():
            dcp.save(state, storage_writer=spotter.dcp.Writer(run, step))
        run.stop_if_asked()

Each checkpoint is a folder in DCP's own format, `checkpoint-N`, to which each rank writes its part.
It is written under another name and renamed once it is durable: it is there whole, or not at all.
Another number of ranks may load it. save() returns when it is durable; async_save() is refused, as
nothing would know how long it takes. All ranks see the same directory.
"""

import pickle
import threading

from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter

from ._folders import Folders
from ._run import SpotterError


class Writer(FileSystemWriter):
    """Of the checkpoint of one step. `options`: FileSystemWriter's."""

    def __init__(self, run, step, **options):
        self._run, self._step = run, step
        self._folders = Folders(run.directory, run.keep_last)
        self._thread = threading.get_ident()
        super().__init__(self._folders.unfinished(step), **options)
        run.begin_save()

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            raise SpotterError("spotter.dcp.Writer knows its folder: leave out the checkpoint_id")
        super().reset()

    def set_up_storage_writer(self, is_coordinator, *arguments, **options):
        if threading.get_ident() != self._thread:
            raise SpotterError("spotter.dcp.Writer is for dcp.save(), not for async_save()")
        if is_coordinator != self._run.leads:
            raise SpotterError("spotter.dcp.Writer needs rank 0 as the coordinator")
        super().set_up_storage_writer(is_coordinator, *arguments, **options)

    def prepare_global_plan(self, plans):
        self._run._check_writer()
        self._folders.clean()  # before any rank writes
        self.path.mkdir(exist_ok=True)
        return super().prepare_global_plan(plans)

    def finish(self, metadata, results):
        super().finish(metadata, results)
        self._run._saved(self._step, self._folders.path(self._step), self.path)
        self._folders.rotate(self._step)


class Reader(FileSystemReader):
    """Of the newest checkpoint that is whole, or of none: then it is false, and its step 0."""

    def __init__(self, run):
        self._folders = Folders(run.directory, run.keep_last)
        found = run._ranks.share(lambda: self._folders.newest(self._torn))
        self.step, self._found = found or 0, found is not None
        super().__init__(self._folders.path(self.step))
        run.resumed(self.step)

    def __bool__(self):
        return self._found

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            raise SpotterError("spotter.dcp.Reader knows its folder: leave out the checkpoint_id")
        super().reset()

    def _torn(self, folder):
        """What is missing; None: nothing."""
        try:
            with (folder / ".metadata").open("rb") as file:
                written = pickle.load(file).storage_data.values()
            for part in written:
                file = folder / part.relative_path
                if file.stat().st_size < part.offset + part.length:
                    return f"{file}: its end is missing"
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            return f"{folder}: {error}"
        return None
