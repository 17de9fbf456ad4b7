"""torchrun's rendezvous in a gang (`gang:` of job.yaml): which machines are in a round, and which
of them leads, is asked of `spotter gang`, torchrun's parent. It answers once the round is complete,
and says no when this machine leaves or the gang has its result.

`python -m spotter.torchrun` registers it as `--rdzv-backend spotter`. The store of a round is kept
by its leader's torchrun; when that is lost, the round is over, and the next one has another.
"""

import datetime
import http.client
import json
import os
import time

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous.api import (
    RendezvousClosedError, RendezvousConnectionError, RendezvousHandler,
    rendezvous_handler_registry)

try:  # since 2.4
    from torch.distributed.elastic.rendezvous.api import RendezvousInfo, RendezvousStoreInfo
except ImportError:
    RendezvousInfo = None

NAME = "spotter"
CONNECT = datetime.timedelta(seconds=10)  # to the leader's store
OF_OTHERS = datetime.timedelta(seconds=30)  # at the end of a round: their last words


class _Store:
    """The round's, for torchrun before 2.4, which has the leader say where it is by its host's
    name: the others know it by an address."""

    def __init__(self, store, leader):
        self._store, self._leader = store, leader

    def __getattr__(self, name):
        return getattr(self._store, name)

    def set(self, key, value):
        self._store.set(key, self._leader if key == "MASTER_ADDR" else value)

    def set_timeout(self, timeout):
        self._store.set_timeout(min(timeout, OF_OTHERS))


class Handler(RendezvousHandler):
    def __init__(self, parameters):
        self._endpoint, self._job = parameters.endpoint, parameters.run_id
        self._token = os.environ.get("SPOTTER_GANG_TOKEN", "")
        self._own = None

    def next_rendezvous(self):
        while True:
            # A new one for each round: nothing of the last one is in it. Port 0: any that is free.
            self._own = TCPStore("127.0.0.1", 0, None, True, CONNECT, False)
            place = self._ask(f"/round?port={self._own.port}&pid={os.getpid()}")
            store = self._meet(place)
            if store:
                return self._found(store, place)

    def _meet(self, place):
        """The round's store, once all its machines are there; None: the round is over."""
        try:
            store = self._own if place["rank"] == 0 else TCPStore(
                place["leader"], place["port"], None, False, CONNECT, False)
            store = PrefixStore(f"round-{place['round']}", store)
            store.add("machines", 1)
            looked = time.monotonic()
            while store.add("machines", 0) < place["size"]:
                time.sleep(0.02)
                if time.monotonic() - looked > 0.5:
                    looked = time.monotonic()
                    if self._ask(f"/over?round={place['round']}")["over"]:
                        return None
            return store
        except (RuntimeError, ValueError, TimeoutError):  # the leader is gone
            time.sleep(0.2)
            return None

    def _found(self, store, place):
        rank, size = place["rank"], place["size"]
        if RendezvousInfo is None:
            return _Store(store, place["leader"]), rank, size
        leader = RendezvousStoreInfo.build(rank, store, local_addr=place["leader"])
        return RendezvousInfo(store, rank, size, leader)

    def _ask(self, question):
        connection = http.client.HTTPConnection(self._endpoint)  # which waits as long as it takes
        try:
            connection.request("GET", question, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            said = json.loads(answer.read() or b"{}")
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise RendezvousConnectionError(f"spotter gang does not answer: {error}") from error
        finally:
            connection.close()
        if answer.status == 409:
            raise RendezvousClosedError(said.get("error", ""))
        if answer.status != 200:
            raise RendezvousConnectionError(
                f"spotter gang at {self._endpoint} said {answer.status}: has it started torchrun?")
        return said

    def get_backend(self):
        return NAME

    def is_closed(self):
        return False

    def set_closed(self):
        pass

    def num_nodes_waiting(self):
        return 0  # else torchrun would end its workers: they are asked to save before

    def get_run_id(self):
        return self._job

    def shutdown(self):
        return True


def register():
    rendezvous_handler_registry.register(NAME, Handler)
