"""The thread that sends the messages of the kernel to its clients."""

import os
import threading
import time

import zmq
from ipykernel.iostream import IOPubThread
from ipykernel.zmqshell import ZMQDisplayPublisher

from .gate import Gate

# How many bytes may wait in this process for the thread that sends.
WAITING_BYTES = 4 << 20
# How many messages may wait in ZeroMQ for each client. A message of the streams has up to 64 KiB.
WAITING_MESSAGES = 32
# What a message costs beside its contents. This also bounds the number of messages.
MESSAGE_COST = 8192
# How long one attempt to send takes, before the thread looks whether it should end.
ATTEMPT_MILLISECONDS = 250
# How long a kernel that ends waits for its readers.
LAST_SECONDS = 2.0


def prepare_socket(socket):
    """Makes a publishing socket wait for a slow client instead of dropping messages. Without clients it still drops them."""
    socket.sndhwm = WAITING_MESSAGES
    socket.setsockopt(zmq.XPUB_NODROP, 1)
    socket.sndtimeo = ATTEMPT_MILLISECONDS


class Sender(IOPubThread):
    """ipykernel's thread, with a limit for what waits, and without loss."""

    def __init__(self, socket, pipe=False):
        self.gate = Gate(WAITING_BYTES)
        self._last_moment = None
        self._is_sending = False
        self._is_woken = False
        super().__init__(socket, pipe=pipe)

    def wait_for_room(self):
        """To be called by whoever produces output, before it produces more. Never waits in the thread that sends."""
        if threading.get_ident() != self.thread.ident and self._is_master_process():
            self.gate.wait_for_room(self._has_work)

    def wait_until_sent(self, seconds):
        if threading.get_ident() != self.thread.ident and self._is_running() and self._is_master_process():
            self.gate.wait_until_empty(seconds)

    def _is_running(self):
        return self.thread.is_alive() and not self._stopped

    def _has_work(self):
        if not self._is_sending:
            if not self._events:
                self.gate.clear()
            elif self._is_running():
                self._wake()  # an exception may have come between a function and its wake
        return self._is_running()

    def schedule(self, f):
        """Wakes the thread once for everything that waits.

        ipykernel wakes it for each function, and with a socket for each thread that prints. ZeroMQ has only so many sockets, and a
        queue of wakes that is full makes the next thread wait with the lock of its stream, for which this thread waits in turn.
        """
        if not self.thread.is_alive():
            f()
            return
        self._events.append(f)
        if self._is_woken:
            return
        try:
            self._is_woken = True
            self._wake()
        except BaseException:  # an interrupt: the next function wakes the thread
            self._is_woken = False
            raise

    def _wake(self):
        self.io_loop.add_callback(self._handle_event, None)

    def _handle_event(self, message):
        self._is_woken = False  # before the functions are counted: what comes later wakes again
        self._is_sending = True
        try:
            super()._handle_event(message)
        finally:
            self._is_sending = False
            if not self._events:
                self.gate.clear()
            elif not self._is_woken:  # one of the functions failed, and others are left
                self._is_woken = True
                self._wake()

    def send_multipart(self, message, *args, **kwargs):
        if not self._is_master_process():
            return super().send_multipart(message, *args, **kwargs)
        size = MESSAGE_COST + sum(len(part) for part in message)
        self.gate.add(size)

        def send():
            try:
                self._really_send(message, *args, **kwargs)
            finally:
                self.gate.remove(size)

        self.schedule(send)

    def _really_send(self, message, *args, **kwargs):
        while True:
            try:
                return super()._really_send(message, *args, **kwargs)
            except zmq.Again:
                # A client does not read. The socket took no part of the message, so the whole message is sent again.
                if self._has_ended():
                    return None

    def _has_ended(self):
        """Whether the kernel ends, and its readers had their time."""
        if not self._stopped:
            return False
        if self._last_moment is None:
            self._last_moment = time.monotonic() + LAST_SECONDS
        if time.monotonic() < self._last_moment:
            return False
        self.socket.sndtimeo = 0
        return True


class WaitingDisplayPublisher(ZMQDisplayPublisher):
    """Displays wait for room, as printed text does: a loop that shows pictures must not fill memory either."""

    def publish(self, *args, **kwargs):
        sender = getattr(self.pub_socket, "io_thread", None)
        if sender is not None:
            sender.wait_for_room()
            # The thread that sends is made for use after a fork; Session would refuse.
            self.session.pid = os.getpid()
        super().publish(*args, **kwargs)
