#!/usr/bin/env python3
"""Tests of the Python kernel. Run inside a Debian 13 file system with the kernel in /opt/sandglass/interpreter/python.

test_kernel.py [WORD...]     only tests with one of the words in their names
SANDGLASS_PYTHON_KERNEL      the folder of the kernel, if it is another
SANDGLASS_FLOOD_BYTES        how much the tests of bounded memory print; 64 MB if not set
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tap
import check_basics
import check_results
import check_output
import check_floods
import check_interrupts
import check_processes
import check_random

if __name__ == "__main__":
    tap.run()
