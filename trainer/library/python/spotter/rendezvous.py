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
import socket
import sys
import time

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous.api import (
    RendezvousClosedError, RendezvousConnectionError, RendezvousHandler,
    rendezvous_handler_registry)

from . import _watchdog

try:  # since 2.4
    from torch.distributed.elastic.rendezvous.api import RendezvousInfo, RendezvousStoreInfo
except ImportError:
    RendezvousInfo = None

NAME = "spotter"
CONNECT = datetime.timedelta(seconds=10)  # to another machine's store
MEET = 60  # seconds, once all machines can be reached: one may hang before it comes
OF_OTHERS = datetime.timedelta(seconds=30)  # at the end of a round: their last words


def _store(host, port, leads):
    """Since 2.4 PyTorch asks for libuv unless its own variable says no, also where it was built
    without, as Debian's is. The workers learn it from that variable, too."""
    arguments = (host, port, None, leads, CONNECT, False)
    if os.environ.get("USE_LIBUV") != "0":
        try:
            return TCPStore(*arguments)
        except RuntimeError as error:
            if "libuv" not in str(error):
                raise
            os.environ["USE_LIBUV"] = "0"
    try:
        return TCPStore(*arguments, use_libuv=False)
    except TypeError:  # it does not know libuv
        return TCPStore(*arguments)


def _own_store():
    """Where torch takes a socket (2.6 does) it listens at this machine's own address alone, else
    on every interface, whatever host it is given."""
    address = os.environ.get("SPOTTER_GANG_ADDRESS") or "127.0.0.1"
    try:
        with socket.create_server((address, 0)) as listener:
            copy = os.dup(listener.fileno())  # the store closes it
            return TCPStore(*listener.getsockname(), None, True, CONNECT, False,
                            master_listen_fd=copy, use_libuv=False)
    except OSError as error:
        print(f"spotter: the round's store listens on every interface, as {address} is no address "
              f"of this machine: {error}", file=sys.stderr, flush=True)
    except TypeError:
        os.close(copy)
    return _store("127.0.0.1", 0, True)


def _probe(address):
    """Its store listens before it is in a round. The workers of any two machines may connect. Of a
    machine that refuses only torchrun is gone: the network is all right."""
    try:
        socket.create_connection(address, CONNECT.total_seconds()).close()
        return "there"
    except (ConnectionRefusedError, ConnectionResetError):
        return "refuses"
    except OSError:
        return "unreachable"


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
    ended = ""  # the workers, by _ends.verdict(): this process starts those of one machine

    def __init__(self, parameters):
        self._endpoint, self._job = parameters.endpoint, parameters.run_id
        self._token = os.environ.get("SPOTTER_GANG_TOKEN", "")
        self._own = None

    def next_rendezvous(self):
        why = f"&ended={Handler.ended}" if Handler.ended else ""
        Handler.ended = ""
        while True:
            # A new one for each round: nothing of the last one is in it. Port 0: any that is free.
            self._own = _own_store()
            place = self._ask(f"/round?port={self._own.port}&pid={os.getpid()}{why}")
            store, missing = self._meet(place)
            if store:
                return self._found(store, place)
            why = "&over=1" if missing is None else f"&apart={missing}"

    def _meet(self, place):
        """The round's store, once all its machines are there. Else None, and which machine this one
        does not reach; their number: one of them did not come, or that is nobody's fault; None: the
        round is over."""
        machines, own, refused = place["machines"], place["rank"], False
        nobody = len(machines)
        for other, address in enumerate(machines):
            found = "there" if other == own else _probe(address)
            if found == "unreachable":
                return None, nobody if self._is_over(place) else other
            refused = refused or found == "refuses"
        if refused:
            return None, nobody
        try:
            store = self._own if own == 0 else _store(*machines[0], False)
            # Whoever connects finds none of its keys without the word, which the record has.
            store = PrefixStore(f"round-{place['round']}{place.get('word', '')}", store)
            store.add("machines", 1)
            begun = looked = time.monotonic()
            while store.add("machines", 0) < len(machines):
                time.sleep(0.02)
                if time.monotonic() - begun > MEET:
                    return None, nobody
                if time.monotonic() - looked > 0.5:
                    looked = time.monotonic()
                    if self._is_over(place):
                        return None, None
            return store, None
        except (RuntimeError, ValueError, TimeoutError):  # the leader is gone
            time.sleep(0.2)
            gone = own != 0 and _probe(machines[0]) == "unreachable"
            return None, 0 if gone and not self._is_over(place) else nobody

    def _is_over(self, place):
        return self._ask(f"/over?round={place['round']}")["over"]

    def _found(self, store, place):
        _watchdog.forget()  # the workers of the round before have ended
        os.environ["SPOTTER_GANG_ROUND"] = str(place["round"])  # for the workers
        rank, size, leader = place["rank"], len(place["machines"]), place["machines"][0][0]
        if RendezvousInfo is None:
            return _Store(store, leader), rank, size
        address = RendezvousStoreInfo.build(rank, store, local_addr=leader)
        return RendezvousInfo(store, rank, size, address)

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
