"""`python -m spotter.torchrun ...`: torchrun, which knows the rendezvous of a gang."""

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import Std

from .rendezvous import register


def mend():
    """PyTorch 1.13's torchrun cannot start anything under Python 3.11, as on Debian 12: there an
    enumeration of flags no longer goes through the one that is 0, torchrun's own default."""
    if Std.from_str("0") is None:
        before = Std.from_str
        Std.from_str = classmethod(
            lambda cls, text: cls(int(text)) if text.isdigit() else before(text))


def main():
    register()
    mend()
    run.main()


if __name__ == "__main__":
    main()
