"""The dashboard's picture: the state of a run, drawn for a given size of terminal.

Everything is made of blocks, lists of lines that all have the block's width, which are stacked or set side by
side. No line is ever wider than the terminal, whatever the names and numbers are.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text

from puffertoolkit.logger import formats
from puffertoolkit.logger.paths import shown_path
from puffertoolkit.logger.progress import Progress

# From this width on the tables stand beside the progress; below the other, in one column.
WIDE = 140
NARROW = 60
GAP = 3
CHART_HEIGHT = 7

ACCENT = "cyan"
# Where an iteration's time goes, with the colour of its bar.
PHASES = {
    "env": "cyan",
    "policy": "blue",
    "rollout": "cyan",
    "advantage": "magenta",
    "update": "green",
    "log": "yellow",
}
LABELS = {
    "loss/policy": "policy loss",
    "loss/value": "value loss",
    "train/lr": "learning rate",
    "train/approx_kl": "approx. KL",
    "train/grad_norm": "gradient norm",
}
PROMINENT = ("env/score", "env/perf")
COUNTS = ("env/episodes", "eval/episodes")

Block = list[Text]


def render(progress: Progress, width: int, height: int) -> RenderableType:
    """Draws the run's state.

    Args:
        progress: The run's state.
        width: Columns of the terminal.
        height: Lines of the terminal; the picture leaves the last one to the cursor.
    """
    inner, room = width - 4, height - 3
    lines = _header(progress, inner) if room >= 9 else []
    room -= len(lines)
    if width >= WIDE:
        half = (inner - GAP) // 2
        tables = _tables(progress, inner - GAP - half, room)
        summary = _summary(progress, half, max(min(CHART_HEIGHT, len(tables) - 4, room - 4), 1))
        lines += _beside(summary[:room], tables, half)
    else:
        summary = _summary(progress, inner, 1)[: max(room, 1)]
        tables = _tables(progress, inner, max(room - len(summary) - 1, 0))
        # A heading with nothing below it helps nobody.
        lines += [*summary, *([_fit(Text(), inner), *tables] if len(tables) > 1 else [])]
    title = Text(_printable(progress.info.env), f"not dim bold {ACCENT}")
    note = progress.note() if progress.note else None
    return Panel(
        Text("\n", no_wrap=True).join(lines),
        title=title,
        title_align="left",
        subtitle=Text(_printable(note), "not dim yellow") if note else None,
        subtitle_align="left",
        border_style="dim",
        width=width,
    )


def _header(progress: Progress, width: int) -> Block:
    info = progress.info
    path = _printable(str(shown_path(info.run_dir)))
    if len(path) > width:
        # The end of a path says more than its beginning.
        path = "…" + path[len(path) - width + 1 :]
    policy, device = _printable(info.policy), _printable(info.device)
    what = Text.assemble((policy, "bold"), ("  on  ", "dim"), (device, "bold"))
    return [_fit(what, width), _fit(Text(path, "dim"), width), _fit(Text(), width)]


def _summary(progress: Progress, width: int, chart_height: int) -> Block:
    """The progress bar, the counts, and the score with its history."""
    done = formats.percent(progress.share)
    length = max(width - 6, 1)
    filled = int(progress.share * length)
    bar = Text.assemble(("━" * filled, ACCENT), ("─" * (length - filled), "dim"), (f"{done:>6}", "bold"))
    return [
        _fit(bar, width),
        _fit(_counts(progress, width), width),
        _fit(Text(), width),
        *_score(progress, width, chart_height),
    ]


def _counts(progress: Progress, width: int) -> Text:
    long = _counts_text(progress, "{:,}".format, " steps", " elapsed", "   ")
    return long if long.cell_len <= width else _counts_text(progress, formats.compact, "", "", "  ")


def _counts_text(
    progress: Progress, count: Callable[[float], str], steps: str, elapsed: str, gap: str
) -> Text:
    speed = (
        ("starting", "yellow") if progress.sps is None else (f"{formats.compact(progress.sps)} SPS", "bold")
    )
    return Text.assemble(
        (count(progress.step), "bold"),
        f" / {count(progress.info.total_steps)}{steps}{gap}",
        speed,
        f"{gap}{formats.duration(progress.elapsed_s())}",
        (elapsed, "dim"),
        gap,
        (formats.duration(progress.left_s()), "bold"),
        (" left", "dim"),
    )


def _score(progress: Progress, width: int, chart_height: int) -> Block:
    values = progress.values
    score = values.get("env/score")
    if score is None:
        return [_fit(Text("no episode has ended yet", "dim italic"), width)]
    text = Text.assemble(("score ", "dim"), (formats.number(score, 4), "bold green"))
    if "env/perf" in values:
        text.append("   perf ", "dim").append(formats.number(values["env/perf"]), "bold green")
    history = progress.score.values()
    if chart_height == 1:
        text.append("   ")
        room = width - text.cell_len
        line = formats.chart(history, room, 1)[0] if room >= 8 else ""
        return [_fit(text.append(line, "green"), width)]
    means = formats.columns(history, width)
    label = (
        f"   from {formats.number(min(means, default=score))} to {formats.number(max(means, default=score))}"
    )
    text.append(label, "dim")
    return [
        _fit(text, width),
        *(_fit(Text(line, "green"), width) for line in formats.chart(history, width, chart_height)),
    ]


def _tables(progress: Progress, width: int, room: int) -> Block:
    """The env's numbers and the time on one side, losses and training on the other; stacked when narrow."""
    side_by_side = width >= NARROW
    left = (width - GAP) // 2 if side_by_side else width
    right = width - GAP - left if side_by_side else width
    environment = _numbers("episodes", progress, ("env/", "eval/"), left)
    losses = _numbers("losses", progress, ("loss/",), right)
    training = _numbers("training", progress, ("train/",), right)
    time = _time(progress, left)
    if not side_by_side:
        return (environment + losses + training + time)[:room]
    # An env may have any number of metrics: the last ones make way for the times, which always matter.
    environment = environment[: max(room - len(time), 2)]
    gap = max(len(environment) + len(time), len(losses) + len(training)) < room
    columns = (_stacked(environment, time, gap, left), _stacked(losses, training, gap, right))
    return _beside(*columns, left)[:room]


def _stacked(above: Block, below: Block, gap: bool, width: int) -> Block:
    return [*above, *([_fit(Text(), width)] if gap and above and below else []), *below]


def _numbers(heading: str, progress: Progress, prefixes: tuple[str, ...], width: int) -> Block:
    keys = [key for key in progress.values if key.startswith(prefixes) and key not in PROMINENT]
    if not keys:
        return []
    values = {key: progress.values[key] for key in keys}
    shown = {key: formats.number(int(value) if key in COUNTS else value) for key, value in values.items()}
    return [_heading(heading, width), *(_row(_label(key), text, width) for key, text in shown.items())]


def _time(progress: Progress, width: int) -> Block:
    """A bar for each part of an iteration, as its share of the whole."""
    times = progress.phases_s
    names = [*(name for name in PHASES if name in times), *(name for name in times if name not in PHASES)]
    total = sum(times.values())
    lines: Block = []
    if total > 0:
        label = min(11, max(width // 3, 1))
        room = max(width - label - 5, 1)
        for name in names:
            share = times[name] / total
            filled = round(share * room)
            lines.append(
                Text.assemble(
                    _fit(Text(_printable(name).replace("_", " "), "dim"), label),
                    ("━" * filled, PHASES.get(name, "white")),
                    ("─" * (room - filled), "dim"),
                    (f"{share:5.0%}", "bold"),
                )
            )
    if "sys/memory_mb" in progress.values:
        lines.append(_row("memory", formats.memory(progress.values["sys/memory_mb"]), width))
    return [_heading("time and memory", width), *(_fit(line, width) for line in lines)] if lines else []


def _label(key: str) -> str:
    if key in LABELS:
        return LABELS[key]
    group, _, name = key.partition("/")
    name = _printable(name).replace("_", " ").removeprefix("episode ")
    return f"eval {name}" if group == "eval" else name


def _heading(name: str, width: int) -> Text:
    return _fit(Text.assemble((name, ACCENT), (" " + "─" * max(width - len(name) - 1, 0), "dim")), width)


def _row(label: str, value: str, width: int) -> Text:
    room = max(width - len(value) - 1, 0)
    return _fit(Text.assemble(_fit(Text(label, "dim"), room), " ", (value, "bold")), width)


def _beside(left: Block, right: Block, left_width: int) -> Block:
    height = max(len(left), len(right))
    blank = _fit(Text(), left_width)
    left = [*left, *[blank] * (height - len(left))]
    right = [*right, *[Text()] * (height - len(right))]
    return [Text.assemble(a, " " * GAP, b) for a, b in zip(left, right, strict=True)]


def _printable(text: str) -> str:
    """The text without line breaks and control codes, which would tear the picture."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _fit(text: Text, width: int) -> Text:
    """The text at exactly this width: cut with an ellipsis, or filled up with spaces."""
    text.truncate(width, overflow="ellipsis", pad=True)
    return text
