"""The program of the kernel: ipykernel's, with our settings."""

import gc
import os

import zmq
from ipykernel.kernelapp import IPKernelApp
from traitlets import Type
from traitlets.config import Config

from .output.sender import Sender, prepare_socket
from .shell import Kernel

CJK_FONT_FILE = "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc"
CJK_FONT = "Noto Sans CJK JP"


def settings():
    config = Config()
    config.IPKernelApp.outstream_class = "sandglass_kernel.output.stream.KernelStream"
    config.Session.packer = "sandglass_kernel.packing.pack"
    config.InteractiveShell.colors = "NoColor"
    # Sequences of any length are printed in full.
    config.PlainTextFormatter.max_seq_length = 0
    # No file of past input: a checkpoint must not share a database on the disk. %history still knows this session.
    config.HistoryManager.enabled = False
    config.InteractiveShellApp.pylab_import_all = False
    if os.path.exists(CJK_FONT_FILE):
        config.InlineBackend.rc = {"font.family": ["sans-serif", CJK_FONT]}
    return config


class KernelApplication(IPKernelApp):
    """Settings in the files of the user still win over ours."""

    name = "ipython-kernel"
    kernel_class = Type(Kernel, klass="ipykernel.kernelbase.Kernel").tag(config=True)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.update_config(settings())

    def initialize(self, argv=None):
        # Programs that the code starts inherit an empty input.
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        super().initialize(argv)

    def start(self):
        # What is loaded now stays. The garbage collector need not look at it again, so its memory stays as it is in a checkpoint.
        gc.collect()
        gc.freeze()
        super().start()

    def init_iopub(self, context):
        socket = context.socket(zmq.PUB)
        socket.linger = 1000
        prepare_socket(socket)
        self.iopub_port = self._bind_socket(socket, self.iopub_port)
        self.configure_tornado_logger()
        self.iopub_thread = Sender(socket, pipe=True)
        self.iopub_thread.start()
        self.iopub_socket = self.iopub_thread.background_socket
