from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from puffertoolkit.run.interrupt import SIGNALS, Interrupt


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_only_asks(number):
    with Interrupt() as interrupt:
        assert not interrupt.requested
        assert interrupt.note() is None
        os.kill(os.getpid(), number)
        assert number.name in interrupt.note()
        assert interrupt.requested
        assert interrupt.signal_name == number.name


@pytest.mark.parametrize(("first", "second"), [(a, b) for a in SIGNALS for b in SIGNALS])
def test_the_second_signal_ends_at_once(first, second):
    with Interrupt():
        os.kill(os.getpid(), first)
        with pytest.raises(SystemExit) as exit_info:
            os.kill(os.getpid(), second)
    assert exit_info.value.code == 130


@pytest.mark.parametrize("number", SIGNALS)
def test_the_earlier_handlers_come_back(number):
    def earlier(number, frame):
        pass

    before = signal.signal(number, earlier)
    try:
        with Interrupt():
            assert signal.getsignal(number) is not earlier
        assert signal.getsignal(number) is earlier
        with Interrupt():
            os.kill(os.getpid(), number)
            with pytest.raises(SystemExit):
                os.kill(os.getpid(), number)
            # Even before the block ends, so that a third signal can cut short what still cleans up.
            assert signal.getsignal(number) is earlier
        assert signal.getsignal(number) is earlier
        with pytest.raises(ZeroDivisionError), Interrupt():
            _ = 1 / 0
        assert signal.getsignal(number) is earlier
    finally:
        signal.signal(number, before)


def test_outside_the_main_thread_it_does_nothing():
    seen = []

    def work():
        before = signal.getsignal(signal.SIGINT)
        with Interrupt() as interrupt:
            seen.append((interrupt.requested, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(False, True)]


def test_a_process_leaves_its_blocks_in_order_and_exits_with_130():
    code = """
        import os, signal
        from puffertoolkit.run.interrupt import Interrupt
        try:
            with Interrupt() as interrupt:
                os.kill(os.getpid(), signal.SIGINT)
                print("asked", interrupt.requested, flush=True)
                os.kill(os.getpid(), signal.SIGTERM)
                print("never", flush=True)
        finally:
            print("cleaned up", flush=True)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stdout.splitlines() == ["asked True", "cleaned up"]
    assert done.stderr == ""
