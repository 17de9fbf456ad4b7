"""`python -m spotter.torchrun ...`: torchrun, which knows the rendezvous of a gang."""

from torch.distributed import run
from torch.distributed.elastic.multiprocessing import Std

from . import _ends, _watchdog, rendezvous


def mend():
    """PyTorch 1.13's torchrun cannot start anything under Python 3.11, as on Debian 12: there an
    enumeration of flags no longer goes through the one that is 0, torchrun's own default."""
    if Std.from_str("0") is None:
        before = Std.from_str
        Std.from_str = classmethod(
            lambda cls, text: cls(int(text)) if text.isdigit() else before(text))


def watch():
    """Why the workers ended is said with the next question for a round. Where torch has this
    elsewhere it is not said, and counts as the trainer's failure."""
    try:
        from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
        before = LocalElasticAgent._monitor_workers
    except (ImportError, AttributeError):
        return

    def monitor(agent, group):
        result = before(agent, group)
        if result.failures:
            rendezvous.Handler.ended = _ends.verdict(
                ((each.local_rank, each.pid, each.exitcode) for each in result.failures.values()),
                _watchdog.said(),
                {each.local_rank: rank for rank, each in result.failures.items()})
        return result
    LocalElasticAgent._monitor_workers = monitor


def main():
    rendezvous.register()
    mend()
    watch()
    _watchdog.begin()
    try:
        run.main()
    finally:
        _watchdog.end()


if __name__ == "__main__":
    main()
