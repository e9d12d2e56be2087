#!/usr/bin/env python3
"""Tests of the descriptions of charts. Run inside a Debian 13 file system with matplotlib and the kernel's folder.

test_charts.py [WORD...]     only tests with one of the words in their names
SANDGLASS_PYTHON_KERNEL      the folder of the kernel, if it is not /opt/sandglass/interpreter/python
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "python"), os.environ.get("SANDGLASS_PYTHON_KERNEL", "/opt/sandglass/interpreter/python")]

import matplotlib

# Only for figures of this program. Kernels that the tests start choose their own.
matplotlib.use("agg")

import tap
import check_points
import check_scales
import check_bars_and_boxes
import check_figures
import check_odd_figures
import check_in_kernel

if __name__ == "__main__":
    tap.run()
