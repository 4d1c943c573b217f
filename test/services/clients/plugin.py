"""Plugin of pytest for a client's suite: sets the service's address, and the same random data each time."""

import os
import random
from unittest import mock

import pytest

PORT = int(os.environ["SUITE_PORT"])


def seed():
    random.seed(1)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(1)


@pytest.fixture(autouse=True)
def _same_data():
    seed()


def pytest_configure():
    # Modules choose random parameters of tests during collection.
    seed()
    {"pymongo": pymongo, "qdrant-client": qdrant_client, "openai": lambda: None}[os.environ["SUITE"]]()


def pymongo():
    """Answers commands by which the suite detects the kind of server, and which it does not test."""
    import test
    from pymongo.synchronous.database import Database

    answers = {
        "getCmdLineOpts": {"argv": ["mongod"], "parsed": {}},
        "getParameter": {"enableTestCommands": False},
        "serverStatus": {"storageEngine": {"name": "wiredTiger"}},
    }
    ask, set_up = Database.command, test.ClientContext._init_client

    def command(self, name, *args, **kwargs):
        return answers.get(name) or ask(self, name, *args, **kwargs)

    def init_client(self):
        with mock.patch.object(Database, "command", command):
            set_up(self)

    test.ClientContext._init_client = init_client


def qdrant_client():
    """Replaces Qdrant's ports in the suite's code; that of gRPC, which the service lacks, is closed."""
    from qdrant_client.async_qdrant_remote import AsyncQdrantRemote
    from qdrant_client.qdrant_remote import QdrantRemote

    ports = {"port": {6333: PORT}, "grpc_port": {6334: int(os.environ["SUITE_CLOSED_PORT"])}}

    def at_our_ports(init):
        def inner(self, *args, **kwargs):
            for name in ports.keys() & kwargs.keys():
                kwargs[name] = ports[name].get(kwargs[name], kwargs[name])
            kwargs["prefer_grpc"] = False
            init(self, *args, **kwargs)

        return inner

    for remote in (QdrantRemote, AsyncQdrantRemote):
        remote.__init__ = at_our_ports(remote.__init__)
