"""Starts the Python kernel of the code interpreter: launch.py -f CONNECTION_FILE"""

import os
import sys

if __name__ == "__main__":
    # The package lies beside this file. Code of the user must not find other files of this folder, so the folder leaves
    # sys.path again; the package itself stays importable, because it is loaded.
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != folder]
    sys.path.insert(0, folder)
    from sandglass_kernel.loading import light

    with light():
        import ipykernel.debugger
        from sandglass_kernel.application import KernelApplication
    sys.path.remove(folder)
    KernelApplication.launch_instance()
