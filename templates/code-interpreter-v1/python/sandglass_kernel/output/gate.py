"""Counts the bytes that wait to be sent, and makes threads wait while there are too many."""

import threading


class Gate:
    """Threads that produce output call wait_for_room() before they produce more.

    add() never waits: messages that say what the kernel does (busy, idle, error) are few and must always get through.
    """

    def __init__(self, limit):
        self.limit = limit
        # Read without the lock, at every print.
        self.is_full = False
        self._size = 0
        # The lock of a condition can be taken again by the thread that has it. A signal handler that prints depends on this.
        self._changed = threading.Condition()

    def add(self, size):
        with self._changed:
            self._size += size
            self.is_full = self._size > self.limit

    def remove(self, size):
        with self._changed:
            was_full = self.is_full
            self._size -= size
            self.is_full = self._size > self.limit
            if was_full and not self.is_full or self._size == 0:
                self._changed.notify_all()

    def clear(self):
        """Nothing waits. An interrupt between add() and what follows it can leave a wrong count, which ends here."""
        with self._changed:
            self._size = 0
            self.is_full = False
            self._changed.notify_all()

    def wait_for_room(self, is_served):
        """Waits until there is room. A signal ends the wait if its handler raises. is_served() says whether there is
        something to wait for."""
        if not self.is_full:
            return
        with self._changed:
            while self.is_full and is_served():
                self._changed.wait(1.0)

    def wait_until_empty(self, seconds):
        """Waits until everything was handed over, but not longer than this."""
        if self._size == 0:
            return
        with self._changed:
            self._changed.wait_for(lambda: self._size == 0, seconds)
