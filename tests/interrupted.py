"""Work in a process of its own that is stopped in the middle."""

import multiprocessing
import os
import time


def interrupt(how, begun, work, *arguments):
    """Do some work in another process, and send that a signal as soon as the work has begun."""
    process = multiprocessing.get_context("forkserver").Process(target=work, args=arguments)
    process.start()
    deadline = time.monotonic() + 120
    while not begun() and time.monotonic() < deadline:
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, how)
    process.join(60)
    assert process.exitcode not in (0, None)
