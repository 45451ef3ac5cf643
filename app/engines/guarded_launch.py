"""Become another program that dies with its parent.

Run by path as ``python guarded_launch.py PARENT_PID PROGRAM ARGS…``.

Linux sends the signal set here when the parent ends in whatever way, SIGKILL included, so no
engine outlives the server that started it. It survives ``execve`` (prctl(2)). Only the standard
library may be used: this runs in the engine's environment.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent, program = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the server that started this process is gone")
    os.execvp(program[0], program)  # noqa: S606  an argument list, no shell
