#!/usr/bin/python3
"""torchrun's rendezvous in a gang, with `spotter gang` played: who is not met is said."""

import os
import pathlib
import socket
import sys
import tempfile
import threading
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "trainer/library/python"))
try:
    import torch.distributed.elastic.rendezvous  # noqa: F401
except ImportError:
    print("python3-torch is not installed (scripts/setup)")
    sys.exit(77)
from spotter import _folders, rendezvous


class Meeting(unittest.TestCase):
    def setUp(self):
        self.over = False
        for name, value in (("MEET", 1.0), ("CONNECT", rendezvous.datetime.timedelta(seconds=2))):
            self.addCleanup(setattr, rendezvous, name, getattr(rendezvous, name))
            setattr(rendezvous, name, value)

    def handler(self):
        handler = rendezvous.Handler(types.SimpleNamespace(endpoint="127.0.0.1:9", run_id="job"))
        handler._own = rendezvous._store("127.0.0.1", 0, True)
        handler._ask = lambda question: {"over": self.over}
        return handler

    def place(self, rank, *handlers):
        machines = [each if isinstance(each, list) else ["127.0.0.1", each._own.port]
                    for each in handlers]
        return {"round": 3, "rank": rank, "machines": machines}

    def test_all_come(self):
        one, two = self.handler(), self.handler()
        met = {}
        other = threading.Thread(target=lambda: met.update(two=two._meet(self.place(1, one, two))))
        other.start()
        met["one"] = one._meet(self.place(0, one, two))
        other.join()
        self.assertEqual((met["one"][1], met["two"][1]), (None, None))
        self.assertTrue(met["one"][0] and met["two"][0])

    def test_a_stranger_in_the_store_of_a_round_finds_none_of_its_keys(self):
        one, two = self.handler(), self.handler()
        place = self.place(0, one, two) | {"word": "5eed"}
        stranger = rendezvous._store("127.0.0.1", one._own.port, False)
        rendezvous.PrefixStore("round-3", stranger).add("machines", 5)
        self.assertEqual(one._meet(place), (None, 2), "the other did not come")

    def test_the_store_listens_at_its_own_address_alone(self):
        os.environ["SPOTTER_GANG_ADDRESS"] = "127.0.0.2"
        self.addCleanup(os.environ.pop, "SPOTTER_GANG_ADDRESS")
        if "master_listen_fd" not in rendezvous.TCPStore.__init__.__doc__:
            self.assertTrue(rendezvous._own_store().port, "this torch takes no socket")
            self.skipTest("this torch takes no socket")
        store = rendezvous._own_store()
        rendezvous._store("127.0.0.2", store.port, False).set("key", "value")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", store.port))
        os.environ["SPOTTER_GANG_ADDRESS"] = "192.0.2.1"  # it is behind a translation
        store = rendezvous._own_store()
        socket.create_connection(("127.0.0.1", store.port)).close()

    def gone(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))  # and does not listen
            return list(closed.getsockname())

    def silent(self):
        """It takes no connection and refuses none: its queue is full."""
        full = socket.socket()
        self.addCleanup(full.close)
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):
            filler = socket.socket()
            self.addCleanup(filler.close)
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        return list(full.getsockname())

    def test_one_that_cannot_be_reached_is_named(self):
        one, two = self.handler(), self.handler()
        for lost in (["224.0.0.1", 4711], self.silent()):
            self.assertEqual(one._meet(self.place(0, one, two, lost)), (None, 2))
            self.assertEqual(two._meet(self.place(1, lost, two)), (None, 0), "the leader, too")

    def test_one_whose_torchrun_is_gone_is_not_named(self):
        one, two, gone = self.handler(), self.handler(), self.gone()
        self.assertEqual(one._meet(self.place(0, one, two, gone)), (None, 3), "their number")
        self.assertEqual(two._meet(self.place(1, gone, two)), (None, 2), "the leader, too")
        lost = self.silent()
        self.assertEqual(one._meet(self.place(0, one, gone, lost)), (None, 2), "but who is")

    def test_nobody_is_named_of_a_round_that_is_over(self):
        one, two = self.handler(), self.handler()
        self.over = True
        self.assertEqual(one._meet(self.place(0, one, two, self.silent())), (None, 3))

    def test_a_leader_that_goes_while_the_others_come_is_not_named(self):
        two = self.handler()
        with socket.socket() as leader:
            leader.bind(("127.0.0.1", 0))
            leader.listen(1)
            place = self.place(1, list(leader.getsockname()), two)

            # It is there, and then it is not. A connection that it has taken and loses ends the
            # whole process with torch 1.13, whose background thread throws; the gang starts that
            # again.
            look = rendezvous._probe

            def once(address):
                found = look(address)
                leader.close()
                return found
            self.addCleanup(setattr, rendezvous, "_probe", look)
            rendezvous._probe = once
            self.assertEqual(two._meet(place), (None, 2))

    def test_one_that_does_not_come_is_waited_for_so_long(self):
        one, two = self.handler(), self.handler()
        self.assertEqual(one._meet(self.place(0, one, two)), (None, 2), "their number")

    def test_a_round_that_is_over_names_nobody(self):
        one, two = self.handler(), self.handler()
        self.over, rendezvous.MEET = True, 60
        self.assertEqual(one._meet(self.place(0, one, two)), (None, None))

    def test_the_next_question_says_why_no_workers_began(self):
        one, asked = self.handler(), []
        met = iter([(None, None), (None, 2), ("store", None)])
        one._ask, one._meet = asked.append, lambda _: next(met)
        one._found = lambda store, _: store
        self.assertEqual(one.next_rendezvous(), "store")
        self.assertEqual([each.partition("&pid=")[2].partition("&")[2] for each in asked],
                         ["", "over=1", "apart=2"])

    def test_the_workers_know_the_round(self):
        self.addCleanup(os.environ.pop, "SPOTTER_GANG_ROUND", None)
        with tempfile.TemporaryDirectory() as folder:
            folders = _folders.Folders(folder, 2)
            self.assertEqual(folders.unfinished(7).name, ".spotter-unfinished-7", "not in a gang")
            one = self.handler()
            store, _ = one._meet(self.place(0, one))
            one._found(store, self.place(0, one))
            unfinished = folders.unfinished(7)
            self.assertEqual(unfinished.name, ".spotter-unfinished-round-3-7")
            unfinished.mkdir()
            os.environ["SPOTTER_GANG_ROUND"] = "4"
            self.assertNotEqual(folders.unfinished(7), unfinished)
            folders.clean()
            self.assertFalse(unfinished.exists())


if __name__ == "__main__":
    unittest.main()
