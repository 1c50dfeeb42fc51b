from __future__ import annotations

import io
import os
import re
import shlex
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from puffertoolkit.errors import UserError
from puffertoolkit.logger import dashboard as dashboard_module
from puffertoolkit.logger.choice import make_display
from puffertoolkit.logger.dashboard import Dashboard
from puffertoolkit.logger.paths import evaluate_command, shown_path
from puffertoolkit.logger.plain import PlainLines, line
from puffertoolkit.logger.progress import History, Progress, RunInfo

INFO = RunInfo("breakout", "MLP 128", "cpu", Path("outputs/train/breakout/2025-01-02_03-04-05_s7"), 3_000_000)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JUPYTER_COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")


def settings(dashboard="auto", print_interval_s=1000.0):
    return SimpleNamespace(dashboard=dashboard, print_interval_s=print_interval_s)


def row(step, **values):
    return {"step": step, "uptime_s": step / 200_000, "sps": 212_345.0, **values}


def printed(stream):
    """What a stream shows, without the codes that colour and move."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


# --- the choice ---


@pytest.mark.parametrize(
    ("choice", "stream", "expected"),
    [
        ("auto", Terminal, Dashboard),
        ("auto", io.StringIO, PlainLines),
        ("on", io.StringIO, Dashboard),
        ("off", Terminal, PlainLines),
        ("True", io.StringIO, Dashboard),
        (False, Terminal, PlainLines),
    ],
)
def test_the_display_suits_the_stream_and_the_config(choice, stream, expected):
    assert type(make_display(settings(choice), INFO, stream())) is expected


@pytest.mark.parametrize(
    ("name", "value"), [("TERM", "dumb"), ("COLUMNS", "30"), ("LINES", "5"), ("FORCE_COLOR", "1")]
)
def test_a_terminal_that_cannot_gets_plain_lines(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    stream = io.StringIO() if name == "FORCE_COLOR" else Terminal()
    assert type(make_display(settings(), INFO, stream)) is PlainLines


def test_a_terminal_without_unicode_gets_plain_lines():
    class Ascii(Terminal):
        encoding = "ascii"

    assert type(make_display(settings(), INFO, Ascii())) is PlainLines


def test_another_choice_is_the_users_mistake():
    with pytest.raises(UserError, match="auto, on or off"):
        make_display(settings("sometimes"), INFO, io.StringIO())


# --- plain lines ---


def test_a_plain_line_has_the_numbers():
    progress = Progress(INFO)
    progress.update(row(1_048_576, **{"env/score": 3.21, "env/perf": 0.00412, "env/episode_return": 3.2}))
    assert line(progress) == (
        "breakout  1,048,576/3,000,000 steps  34%  212k SPS  score 3.21  perf 0.00412  return 3.20  left 0:09"
    )


def test_a_line_comes_at_most_once_per_interval_and_the_last_row_always():
    stream = io.StringIO()
    with PlainLines(INFO, stream, 1000.0) as display:
        for step in (1000, 2000, 3000):
            display.update(row(step))
    lines = [text for text in stream.getvalue().splitlines() if "steps" in text]
    assert [text.split("/")[0] for text in lines] == ["breakout  1,000", "breakout  3,000"]


def test_the_last_row_is_not_printed_twice():
    stream = io.StringIO()
    with PlainLines(INFO, stream, 0.0) as display:
        for step in (1000, 2000):
            display.update(row(step))
    display.stop()
    assert stream.getvalue().count("2,000/") == 1


def test_without_any_row_nothing_is_invented():
    stream = io.StringIO()
    with PlainLines(INFO, stream, 0.0):
        pass
    assert "steps" not in stream.getvalue()


def test_plain_lines_are_plain():
    stream = io.StringIO()
    with PlainLines(INFO, stream, 0.0) as display:
        display.message("compiling kernels (first time only, about 10 s)")
        display.update(row(1, **{"env/score": 1.0}))
        display.closing()
    assert stream.getvalue().isascii()
    assert "\x1b" not in stream.getvalue()
    assert "compiling kernels (first time only, about 10 s)\n" in stream.getvalue()


@pytest.mark.parametrize("dashboard", ["on", "off"])
@pytest.mark.parametrize("error", [BrokenPipeError(), ValueError("I/O operation on closed file")])
def test_a_reader_that_goes_away_does_not_end_the_run(dashboard, error):
    class Gone(io.StringIO):
        def write(self, text):
            raise error

    display = make_display(settings(dashboard, 0.0), INFO, Gone())
    with display:
        display.update(row(1))
        display.message("hello")
    display.closing()


# --- what both have in common ---


@pytest.mark.parametrize("dashboard", ["on", "off"])
def test_it_closes_with_the_result_the_run_and_the_command(dashboard):
    stream = io.StringIO()
    path = Path("outputs") / ("long_" * 60) / "run"
    info = RunInfo("breakout", "MLP 128", "cpu", path, 3_000_000)
    with make_display(settings(dashboard), info, stream) as display:
        display.update(row(3_000_000, **{"env/score": 784.21, "env/perf": 0.974}))
        display.closing()
    closing = printed(stream).splitlines()[-4:]
    assert closing == [
        "Trained 3,000,000 steps in 0:15   score 784.2   perf 0.9740",
        f"The run is in {path}",
        "Evaluate it with",
        f"  python -m puffertoolkit mode=eval checkpoint={path}",
    ]


def test_a_run_cut_short_says_how_far_it_came():
    stream = io.StringIO()
    with PlainLines(INFO, stream, 0.0) as display:
        display.update(row(1_000_000))
        display.closing()
    assert "Trained 1,000,000 of 3,000,000 steps" in stream.getvalue()


@given(st.text(alphabet="ab/_-.= ,'\"\\$(){}[]:%&#é*?!;~", min_size=1, max_size=12))
def test_the_command_survives_the_shell_and_hydra(path):
    words = shlex.split(evaluate_command(path))
    assert words[:4] == ["python", "-m", "puffertoolkit", "mode=eval"]
    assert len(words) == 5
    assert str(OverridesParser.create().parse_override(words[4]).value()) == path


@pytest.mark.parametrize("path", ["outputs/train/breakout/2025-01-02_03-04-05_s7", "/tmp/a/b.c"])
def test_an_ordinary_path_is_not_quoted(path):
    assert evaluate_command(path) == f"python -m puffertoolkit mode=eval checkpoint={path}"


def test_a_path_is_shown_as_one_would_type_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shown_path(tmp_path / "a" / "b") == Path("a/b")
    assert shown_path(Path("a/b")) == Path("a/b")
    assert shown_path(Path("/elsewhere")) == Path("/elsewhere")


# --- progress ---


def test_a_missing_or_infinite_value_keeps_the_last():
    progress = Progress(INFO)
    progress.update(row(1, **{"env/score": 5.0, "loss/value": 2.0}))
    progress.update(row(2, **{"loss/value": float("nan")}))
    assert progress.values["env/score"] == 5.0
    assert progress.values["loss/value"] == 2.0
    assert progress.step == 2
    assert progress.score.values() == [5.0]


def test_rows_may_hold_scalars_of_numpy_and_torch():
    progress = Progress(INFO)
    progress.update(
        {"step": np.int64(10), "sps": np.float32(2), "env/score": torch.tensor(1.5), "note": "text"}
    )
    assert progress.values == {"step": 10.0, "sps": 2.0, "env/score": 1.5}


def test_the_time_left_follows_from_steps_and_speed():
    progress = Progress(INFO)
    assert progress.left_s() is None
    progress.update({"step": 1_000_000, "sps": 100_000, "uptime_s": 10})
    assert progress.left_s() == pytest.approx(20, abs=0.5)
    assert progress.elapsed_s() == pytest.approx(10, abs=0.5)
    progress.update({"step": 4_000_000, "sps": 100_000, "uptime_s": 40})
    assert progress.left_s() == 0
    assert progress.share == 1


def test_the_first_iteration_which_compiles_does_not_weigh_on_the_speed():
    progress = Progress(INFO)
    for step, sps in ((1, 100), (2, 200_000), (3, 200_000)):
        progress.update({"step": step, "sps": sps, "time/update_s": 20.0 if step == 1 else 1.0})
    assert progress.sps == pytest.approx(200_000)
    assert progress.phases_s == {"update": pytest.approx(1.0)}
    for step in range(4, 200):
        progress.update({"step": step, "sps": 100_000})
    assert progress.sps == pytest.approx(100_000)


def test_the_clock_goes_on_between_rows():
    progress = Progress(INFO)
    progress.update({"step": 1_000_000, "sps": 100_000, "uptime_s": 10})
    before = progress.elapsed_s(), progress.left_s()
    time.sleep(0.05)
    assert progress.elapsed_s() - before[0] == pytest.approx(before[1] - progress.left_s(), abs=0.01)
    assert progress.elapsed_s() > before[0]


@given(st.integers(1, 5000))
def test_a_history_spans_the_whole_run_in_bounded_memory(count):
    history = History()
    for value in range(count):
        history.append(float(value))
    values = history.values()
    assert 0 < len(values) <= History.CAPACITY
    assert values == sorted(values)
    stride = values[1] - values[0] if len(values) > 1 else 1
    assert values[0] == pytest.approx((stride - 1) / 2)
    assert count - 1 - values[-1] < 2 * stride


# --- the dashboard's thread ---


def test_it_draws_at_most_four_times_a_second_however_many_rows_come(monkeypatch):
    drawn = []
    real = dashboard_module.panels.render
    monkeypatch.setattr(dashboard_module.panels, "render", lambda *a: drawn.append(a[0].step) or real(*a))
    with Dashboard(INFO, io.StringIO()) as display:
        start = time.monotonic()
        step = 0
        while time.monotonic() - start < 1.1:
            step += 1
            display.update(row(step))
            time.sleep(0.001)
    # One at the start, and at the end the last refresh and the one with which the picture is left.
    assert 3 <= len(drawn) <= 1 + 4 + 1 + 2
    assert drawn[-1] == step


def test_the_last_row_is_on_the_screen_when_it_stops():
    stream = io.StringIO()
    with Dashboard(INFO, stream) as display:
        display.update(row(2_999_999))
    assert "2,999,999" in printed(stream)


def test_the_cursor_comes_back_whatever_happens():
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt), Dashboard(INFO, stream):
        raise KeyboardInterrupt
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


def test_a_note_shows_without_any_row():
    notes = [None]
    stream = io.StringIO()
    with make_display(settings("on"), INFO, stream, note=lambda: notes[0]):
        assert "stopping soon" not in printed(stream)
        notes[0] = "SIGINT: stopping soon"
    assert "SIGINT: stopping soon" in printed(stream)


def test_messages_stand_whole_above_the_picture():
    stream = io.StringIO()
    text = "compiling kernels [first time only] " + "x" * 120
    with Dashboard(INFO, stream) as display:
        display.message(text)
    assert text in printed(stream)


def test_a_fault_in_drawing_is_told_and_ends_nothing(monkeypatch):
    def fail(*args):
        raise ZeroDivisionError("drawing")

    stream = io.StringIO()
    with Dashboard(INFO, stream) as display:
        monkeypatch.setattr(dashboard_module.panels, "render", fail)
        display.update(row(1))
        display.message("still here")
    display.closing()
    assert "The dashboard stopped early" in printed(stream)
    assert "The run is in" in printed(stream)


def test_a_signal_handler_never_draws():
    # The interrupt only sets a flag: its module knows nothing of displays.
    import puffertoolkit.run.interrupt as interrupt

    source = Path(interrupt.__file__).read_text()
    assert "logger" not in source
    assert "print(" not in source


def test_standard_output_is_the_default(capsys):
    with make_display(settings("off", 0.0), INFO) as display:
        display.message("hello")
    assert "hello" in capsys.readouterr().out
    assert os.environ["COLUMNS"] == "100"
