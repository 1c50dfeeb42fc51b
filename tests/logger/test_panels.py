from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from puffertoolkit.logger import panels
from puffertoolkit.logger.progress import Progress, RunInfo

RUN_DIR = Path("outputs/train/breakout/2025-01-02_03-04-05_s7")
ROW = {
    "step": 1_048_576,
    "epoch": 16,
    "uptime_s": 5.0,
    "sps": 212_345.0,
    "env/score": 3.2125,
    "env/perf": 0.00412,
    "env/episode_return": 3.27,
    "env/episode_length": 451.2,
    "env/episodes": 182,
    "loss/policy": -0.0123,
    "loss/value": 0.918,
    "loss/entropy": 1.0986,
    "train/lr": 0.0025,
    "train/approx_kl": 0.0087,
    "train/clip_fraction": 0.123,
    "train/explained_variance": 0.71,
    "train/grad_norm": 0.532,
    "time/rollout_s": 0.11,
    "time/advantage_s": 0.003,
    "time/update_s": 0.143,
    "time/log_s": 0.004,
    "sys/memory_mb": 812.3,
}


def progress_of(*rows, env="breakout", policy="MLP 128, 36k parameters", device="cpu", run_dir=RUN_DIR):
    progress = Progress(RunInfo(env, policy, device, run_dir, 3_000_000))
    for row in rows:
        progress.update(row)
    return progress


def draw(progress, width, height):
    console = Console(width=width, height=height, record=True, file=io.StringIO(), force_terminal=True)
    console.print(panels.render(progress, width, height))
    return console.export_text().splitlines()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (160, 45), (140, 24), (139, 24)])
def test_every_number_is_on_the_screen(width, height):
    text = "\n".join(draw(progress_of(ROW), width, height))
    shown = [
        "breakout", "MLP 128, 36k parameters", "cpu", str(RUN_DIR), "1,048,576 / 3,000,000 steps", "34%",
        "212k SPS", "score 3.212", "perf 0.00412", "3.27", "451", "182", "-0.0123", "0.918",
        "1.10", "0.00250", "0.00870", "0.123", "0.710", "0.532", "42%", "55%", "812 MB",
    ]  # fmt: skip
    assert [word for word in shown if word not in text] == []
    # The clock goes on while the test runs.
    assert re.search(r"0:0[5-8] elapsed   0:0[6-9] left", text)


def test_the_numbers_stand_beside_their_names():
    lines = draw(progress_of(ROW), 80, 24)
    assert any(line.split()[1:3] == ["return", "3.27"] for line in lines)
    assert any("learning rate" in line and line.rstrip("│ ").endswith("0.00250") for line in lines)
    assert any("rollout" in line and "42%" in line for line in lines)


def test_a_wide_terminal_has_the_tables_beside_the_progress():
    wide, narrow = draw(progress_of(ROW), 160, 45), draw(progress_of(ROW), 80, 45)
    assert any("━" in line and "episodes" in line for line in wide)
    assert not any("━" in line and "episodes" in line for line in narrow)
    assert len(wide) < len(narrow)


def test_the_course_of_the_score_is_drawn_as_high_as_there_is_room():
    rows = [ROW | {"env/score": float(score)} for score in range(40)]
    narrow = draw(progress_of(*rows), 80, 24)
    score_line = next(line for line in narrow if "score" in line)
    assert "▁" in score_line
    assert "█" in score_line
    wide = draw(progress_of(*rows), 160, 45)
    assert sum("█" in line for line in wide) > 4
    assert any("from 0.00 to 39.0" in line for line in wide)


def test_before_the_first_row_it_says_so():
    text = "\n".join(draw(progress_of(), 80, 24))
    assert "starting" in text
    assert "no episode has ended yet" in text
    assert "0 / 3,000,000 steps" in text


def test_short_terminals_lose_the_tables_but_never_the_score():
    for height in range(10, 24):
        for width in (50, 80, 160):
            text = "\n".join(draw(progress_of(ROW), width, height))
            assert "score 3.212" in text
            assert "34%" in text


def test_the_times_stay_when_an_env_has_many_metrics():
    many = ROW | {f"env/extra_{index}": index for index in range(40)}
    for width in (80, 160):
        text = "\n".join(draw(progress_of(many), width, 24))
        assert "rollout" in text
        assert "812 MB" in text


def test_a_long_path_keeps_its_end():
    lines = draw(progress_of(ROW, run_dir=Path("/" + "x" * 200) / "the_run"), 80, 24)
    assert any("…" in line and "the_run" in line for line in lines)


def test_the_shares_of_the_time_are_those_of_the_whole():
    times = {"step": 1, "time/rollout_s": 3.0, "time/update_s": 1.0, "time/own_phase_s": 4.0}
    lines = draw(progress_of(times), 80, 24)
    for name, share in (("rollout", "38%"), ("update", "12%"), ("own phase", "50%")):
        assert any(name in line and share in line for line in lines)


keys = st.sampled_from(
    [*ROW, "env/a_rather_long_name_of_a_metric_of_some_env", "env/日本語", "eval/score", "time/x_s"]
)
numbers = st.one_of(st.floats(), st.integers(-(10**12), 10**15))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.dictionaries(keys, numbers), max_size=4),
    st.integers(20, 220),
    st.integers(8, 60),
    st.text(max_size=40),
)
def test_no_line_is_ever_wider_nor_the_picture_higher_than_the_terminal(rows, width, height, name):
    rows = [{key: value for key, value in row.items() if key not in ("step", "uptime_s")} for row in rows]
    progress = progress_of(*rows, env=name, policy=name * 3, device=name)
    progress.note = lambda: name * 2
    lines = draw(progress, width, height)
    assert max(map(cell_len, lines)) <= width
    assert len(lines) < height
