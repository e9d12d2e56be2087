"""New random state for a process that continues from a checkpoint.

All sandboxes of a template continue from the same memory. Without a new seed, all of them would draw the same random numbers.
Generators that ask the operating system each time (os.urandom, secrets, uuid4) need nothing. No module is loaded here: a module
that is not loaded has no state yet.
"""

import os
import sys


def reseed():
    """Renews the state of each generator that is loaded. A generator that fails does not stop the others."""
    for module, renew in _GENERATORS.items():
        if sys.modules.get(module) is not None:
            try:
                renew(sys.modules[module])
            except Exception:
                pass


def _random(random):
    random.seed()


def _numpy(numpy_random):
    numpy_random.seed()


def _torch(torch):
    torch.seed()


def _tempfile(tempfile):
    # The next temporary file makes a new sequence of names.
    tempfile._name_sequence = None


def _uuid(uuid):
    # uuid1 keeps the address of the network card and the last time; both belong to another sandbox.
    uuid._node = None
    uuid._last_timestamp = None


def _openssl(ssl):
    # New entropy in OpenSSL's first generator makes all generators that depend on it draw from it again.
    ssl.RAND_add(os.urandom(48), 48.0)


_GENERATORS = {
    "random": _random,
    "numpy.random": _numpy,
    "torch": _torch,
    "tempfile": _tempfile,
    "uuid": _uuid,
    "_ssl": _openssl,
}
