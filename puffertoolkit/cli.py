"""The command line: check everything, then let Hydra run the jobs."""

from __future__ import annotations

import itertools
import os
import sys
import textwrap
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from puffertoolkit import __version__
from puffertoolkit.errors import UserError
from puffertoolkit.run import provenance
from puffertoolkit.threads import share_cores

# Hydra is imported where it is used: `import puffertoolkit.cli` stays cheap.
if TYPE_CHECKING:
    from omegaconf import DictConfig

OK, BUG, USAGE_ERROR, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
FLAGS = ("hydra_help", "resolve", "run", "multirun", "shell_completion")
OPTIONS = ("cfg", "package", "config_path", "config_name", "config_dir", "experimental_rerun", "info")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status: 0, 1 after a bug, 2 after a mistake of the user's.

    Args:
        argv: The arguments, by default those of the process.
    """
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except BrokenPipeError:
        # The reader of our output left (`--help | head`); nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    if "--version" in arguments:
        import hydra

        sys.stdout.write(f"puffertoolkit {__version__}, Hydra {hydra.__version__}\n")
        return OK
    share_cores()
    provenance.arguments = tuple(arguments)
    options = _parse(arguments)
    if options.hydra_help:
        options.overrides = []  # Hydra composes its help without our config, where they mean nothing
    if options.hydra_help or options.shell_completion or options.experimental_rerun:
        return _hydra(options)

    from puffertoolkit.config.check import preflight
    from puffertoolkit.config.faults import report

    checked = preflight(options, _run_of)
    only_shows = options.help or options.cfg or options.info
    if checked.composition or (checked.semantic and not only_shows):
        sys.stderr.write(report(checked.faults) + "\n")
        return USAGE_ERROR
    if options.help:
        from puffertoolkit.config.help import help_text

        sys.stdout.write(help_text(options, checked.cfg))
        return OK
    options.overrides = [*checked.restoring, *options.overrides]
    status = _hydra(options)
    if checked.semantic:
        sys.stderr.write(report(checked.faults) + "\n")
        return USAGE_ERROR
    return status


def _run_of(path: str, mode: str) -> Path:
    """Return the run directory that a path means to a mode; to evaluate, it must have a good checkpoint."""
    from puffertoolkit.run.directory import find_run, run_directory

    return find_run(path)[0].path if mode == "eval" else run_directory(path).path


def _parse(arguments: list[str]) -> Namespace:
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.prog = "puffertoolkit"
    infos = next(action.choices for action in parser._actions if action.dest == "info") or ()
    for index, (argument, following) in enumerate(itertools.pairwise(arguments)):
        # Alone it stands for all; argparse would take an override behind it for its value.
        if argument in ("--info", "-i") and following not in infos:
            arguments[index] = "--info=all"
    options = parser.parse_intermixed_args(arguments)
    tasks = (options.run, options.multirun, options.shell_completion, options.cfg, options.info)
    if sum(map(bool, tasks)) > 1:
        parser.error("only one of --run, --multirun, --cfg, --info and --shell-completion can be given")
    if options.resolve and not options.cfg:
        parser.error("--resolve goes with --cfg")
    if options.config_path is not None and "://" not in options.config_path:
        options.config_path = str(Path(options.config_path).absolute())
    return options


def _hydra(options: Namespace) -> int:
    """Let Hydra do what the options say, and return the exit status."""
    import hydra
    from hydra.errors import CompactHydraException

    from puffertoolkit.config import schema
    from puffertoolkit.config.paths import conf_dir

    schema.register()
    jobs = _Jobs()
    with _process_arguments(options):
        try:
            main_with = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")
            main_with(jobs.function())()
        except SystemExit as leaving:
            jobs.statuses.append(leaving.code if isinstance(leaving.code, int) else BUG)
        except BrokenPipeError:
            raise
        except CompactHydraException as error:
            # Hydra's own objections read well; those raised inside a job are bugs.
            if error in jobs.errors:
                jobs.report(error)
            else:
                sys.stderr.write(f"{error}\n")
                jobs.statuses.append(USAGE_ERROR)
        except Exception as error:
            jobs.report(error)
    return BUG if BUG in jobs.statuses else max(jobs.statuses, default=OK)


class _Jobs:
    """What became of the jobs in this process."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.errors: list[Exception] = []

    def report(self, error: Exception) -> None:
        """Show an error once: a user's mistake as a paragraph, a bug with its traceback."""
        if error in self.errors:
            return
        self.errors.append(error)
        if isinstance(error, UserError):
            paragraph = textwrap.fill(str(error), 100, break_long_words=False, break_on_hyphens=False)
            sys.stderr.write(f"{paragraph}\n")
        else:
            traceback.print_exception(error)
        self.statuses.append(USAGE_ERROR if isinstance(error, UserError) else BUG)

    def function(self) -> Callable[[DictConfig], Any]:
        """Return the function that Hydra calls for each job."""

        def job(cfg: DictConfig) -> Any:
            from hydra.core.hydra_config import HydraConfig
            from hydra.types import RunMode

            from puffertoolkit import modes

            in_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
            try:
                result = modes.run(cfg)
            except BrokenPipeError:
                raise
            except Exception as error:
                self.report(error)
                if not in_sweep:
                    return None
                _print_job(f"failed: {textwrap.shorten(str(error), 60)}")
                # A sweeper has to know; Hydra starts the remaining jobs all the same.
                raise
            if isinstance(result, int):
                self.statuses.append(int(result))
            if in_sweep:
                _print_job(_headline(result))
            return result

        return job


def _print_job(outcome: str) -> None:
    """Print the line of one job of a sweep: number, overrides, directory, outcome."""
    from hydra.core.hydra_config import HydraConfig

    hydra = HydraConfig.get()
    # The overrides that restore a checkpoint's run are ours, not the user's.
    overrides = " ".join(line for line in hydra.overrides.task if not line.startswith(("++", "~")))
    directory = os.path.relpath(hydra.runtime.output_dir)
    sys.stdout.write(f"#{hydra.job.num}  {overrides}  {directory}  {outcome}".rstrip() + "\n")
    sys.stdout.flush()


def _headline(result: Any) -> str:
    """Return the first few results in short."""
    if not isinstance(result, dict):
        return "" if result in (None, 0) else f"status {result}"
    if "headline" in result:
        return str(result["headline"])
    numbers = {key: value for key, value in result.items() if isinstance(value, (int, float))}
    return "  ".join(f"{key} {value:.4g}" for key, value in list(numbers.items())[:3])


@contextmanager
def _process_arguments(options: Namespace) -> Iterator[None]:
    """Hydra reads `sys.argv`, and hands exceptions on as they are only under HYDRA_FULL_ERROR."""
    flags = [f"--{name.replace('_', '-')}" for name in FLAGS if getattr(options, name)]
    named = {name: getattr(options, name) for name in OPTIONS}
    flags += [f"--{name.replace('_', '-')}={value}" for name, value in named.items() if value is not None]
    argv, full_error = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    sys.argv = [argv[0], *flags, *options.overrides]
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = argv
        if full_error is None:
            del os.environ["HYDRA_FULL_ERROR"]
        else:
            os.environ["HYDRA_FULL_ERROR"] = full_error
