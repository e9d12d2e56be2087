#!/usr/bin/env python3
"""The core of what a sandbox can do, tried on this machine.  TAP on standard output: `ok N - group: what`.

usage: core.py plain|systemd PROGRAM [GROUP...]
GROUP: only these, besides start and end.  plain: this program starts and restarts `PROGRAM serve` itself.  systemd: the unit sandglass.service does.
"""
import sys
import time
import traceback

import copies
import crashes
import host
import limits
import network
import use

GROUPS = [("start", host.STARTS), ("create", use.CREATES), ("commands", use.COMMANDS), ("files", use.FILES), ("preview", use.PREVIEWS),
          ("limits", limits.TESTS), ("network", network.TESTS), ("pause", copies.PAUSES), ("snapshot", copies.SNAPSHOTS), ("fork", copies.FORKS),
          ("rollback", copies.ROLLBACKS), ("files only", copies.FILES_ONLY), ("kill -9", crashes.TESTS), ("end", host.ENDS)]
SLOWEST = 8


def run_one(here, number, name, test):
    try:
        test(here)
    except host.NotHere as reason:
        print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        return False
    except Exception as error:  # pylint: disable=broad-except
        lines = traceback.format_exc().splitlines() + here.log_tail()
        print(f"not ok {number} - {name}", *[f"#   {line}" for line in lines], sep="\n", flush=True)
        return isinstance(error, host.NotRunning)
    print(f"ok {number} - {name}", flush=True)
    return False


def main(argv):
    here = host.Host(argv[1], argv[2])
    wanted = ["start", *argv[3:], "end"] if argv[3:] else [group for group, _ in GROUPS]
    number, is_over, times = 0, False, []
    for group, tests in GROUPS:
        for test in tests if group in wanted else []:
            number += 1
            name = f"{group}: {(test.__doc__ or test.__name__).strip()}"
            if is_over:
                print(f"not ok {number} - {name}\n#   the server does not run", flush=True)
            else:
                started = time.monotonic()
                is_over = run_one(here, number, name, test)
                times.append((time.monotonic() - started, name))
    print(f"1..{number}", *[f"# {seconds:6.1f} s  {name}" for seconds, name in sorted(times, reverse=True)[:SLOWEST]], sep="\n", flush=True)
    return 0


sys.exit(main(sys.argv))
