# SPDX-License-Identifier: MIT
"""The command `cffem`: run a study, a demo, a benchmark, or look whether this installation works.

Under `mpirun` every rank runs this program; only rank 0 speaks. An error on any rank ends all of
them: where every rank fails alike, each leaves with the same exit code; where only some do, the
others may be waiting in a collective call for ever, so the run is aborted. Either way one message
is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import io
import os
import re
import sys
import textwrap
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import cffem
from cffem import _guard
from cffem._resources import find_benchmarks

if TYPE_CHECKING:
    from mpi4py import MPI


EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_RESUMABLE = 75
MOST_PRINTED = 2000  # characters of an error's sentence
PATIENCE = 3.0  # seconds that a failing rank waits for the others to fail as well


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Example:
        >>> main(["demo", "--list"])  # doctest: +SKIP
    """
    prepare_streams()
    options, unknown = build_parser().parse_known_args(arguments)
    if unknown:
        refuse_options(options.parser, unknown)
    if not getattr(options, "study", "").endswith(".py"):
        _guard.distrust()
    try:
        code = options.command(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, less) went away: nothing is wrong.
        stop_printing()
        return 0
    except Exception as error:
        if disk_is_full(error):
            stop_printing()
        return fail_together(error, debug=options.debug)


def prepare_streams() -> None:
    """Make printing safe: closed streams go nowhere, and what a terminal's alphabet lacks is
    written as an escape.

    Of a process without standard output the next file that is opened would take its place, and what
    PETSc or gmsh print would end up in a checkpoint.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w" if number else "r"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def refuse_options(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> NoReturn:
    """End with the options that a command has, and the one that is most like what it was given."""
    near = difflib.get_close_matches(
        unknown[0], re.findall(r"--[\w-]+", parser.format_usage()), n=1
    )
    hint = f"did you mean {near[0]}?" if near else f"{parser.prog} --help tells what there is"
    parser.error(f"unknown: {' '.join(unknown)}; {hint}")


def stop_printing() -> None:
    """Let what is still to be printed go nowhere, because it cannot be written."""
    with contextlib.suppress(OSError):  # a notebook's output is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def disk_is_full(error: Exception) -> bool:
    """Whether there is no room, or no more is allowed."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# What argparse calls the place where commands are added.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def build_parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    parser = argparse.ArgumentParser(
        prog="cffem", description=cffem.__doc__.splitlines()[0] if cffem.__doc__ else None
    )
    parser.add_argument("--version", action="version", version=f"cffem {cffem.__version__}")
    parser.add_argument(
        "--debug", action="store_true", help="show the traceback of an error in the input"
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    add_study_commands(commands)
    add_checking_commands(commands)
    add_small_commands(commands)
    for command in commands.choices.values():
        command.set_defaults(parser=command)
        command.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    return parser


def add_study_commands(commands: Commands) -> None:
    """The commands that run studies and write their pages: run, report, demo."""
    run = commands.add_parser("run", help="run a study written as TOML or as a Python script")
    run.add_argument("study", metavar="STUDY.toml|STUDY.py")
    run.add_argument(
        "--out",
        metavar="DIR",
        default="out",
        help="folder for checkpoints and results (default: out)",
    )
    run.add_argument(
        "--resume", action="store_true", help="go on where an earlier run in this folder ended"
    )
    run.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="replace a key of a TOML study (repeatable)",
    )
    run.add_argument(
        "--dry-run", action="store_true", help="print the plan and its estimated cost, and leave"
    )
    run.add_argument(
        "--quiet", action="store_true", help="show neither progress nor the table of verdicts"
    )
    run.add_argument(
        "--allow-path",
        action="store_true",
        help="let a TOML study name files outside its own folder",
    )
    run.set_defaults(command=run_study)

    report = commands.add_parser(
        "report", help="write the pages of a finished study again, without computing"
    )
    report.add_argument("folder", metavar="DIR", help="the folder with report.json")
    report.add_argument("--latex", action="store_true", help="print the tables for a paper instead")
    report.set_defaults(command=run_report)

    demo = commands.add_parser("demo", help="run a demo (no name: maxwell)")
    demo.add_argument("name", nargs="?", default="maxwell")
    demo.add_argument("--list", action="store_true", help="name the demos and leave")
    demo.add_argument(
        "--out", metavar="DIR", help="folder for checkpoints and results (default: out/NAME)"
    )
    demo.add_argument(
        "--resume", action="store_true", help="go on where an earlier run in this folder ended"
    )
    demo.add_argument("--quiet", action="store_true", help="show no progress")
    demo.set_defaults(command=run_demo)


def add_checking_commands(commands: Commands) -> None:
    """The commands that measure and check: bench, fetch, validate."""
    bench = commands.add_parser("bench", help="run a benchmark (no name: list them)")
    bench.add_argument("name", nargs="?")
    bench.add_argument("arguments", nargs=argparse.REMAINDER, help="the benchmark's own options")
    bench.set_defaults(command=run_bench)

    fetch = commands.add_parser("fetch", help="download public data sets: oisst or ncep")
    fetch.add_argument("name", metavar="oisst|ncep")
    fetch.add_argument(
        "--years", default="2019", help="for instance 2015, 2015-2017 or 2015,2019 (default: 2019)"
    )
    fetch.add_argument(
        "--out", metavar="DIR", help="folder for the files (default: the cache folder of this user)"
    )
    fetch.set_defaults(command=run_fetch)

    validate = commands.add_parser(
        "validate", help="check the theory on finite elements, with the paper's figures beside ours"
    )
    validate.add_argument(
        "--case", metavar="NAME", action="append", help="run only this case (may be repeated)"
    )
    validate.add_argument(
        "--seeds", metavar="N", type=int, help="how many seeds (default: 10, or 3 for a quick run)"
    )
    validate.add_argument("--quick", action="store_true", help="coarser meshes: less than a minute")
    validate.add_argument(
        "--out",
        metavar="DIR",
        default="out",
        help="folder for the page, tables and pictures (default: out)",
    )
    validate.set_defaults(command=run_validate)


def add_small_commands(commands: Commands) -> None:
    """The commands that tell, begin and look: new, compare, explain, completion, doctor."""
    new = commands.add_parser("new", help="write a commented study that runs, to begin from")
    new.add_argument("name", metavar="NAME[.py|.toml]")
    new.set_defaults(command=run_new)

    compare = commands.add_parser("compare", help="show two finished studies side by side")
    compare.add_argument("first", metavar="DIR_A", help="a folder with report.json")
    compare.add_argument("second", metavar="DIR_B", help="another one")
    compare.set_defaults(command=run_compare)

    explain = commands.add_parser(
        "explain", help="say what a verdict or the code of a reason means"
    )
    explain.add_argument("code", nargs="?", metavar="CODE", help="no code: list them")
    explain.set_defaults(command=run_explain)

    completion = commands.add_parser(
        "completion", help="print what a shell needs to complete commands and options"
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.set_defaults(command=run_completion)

    doctor = commands.add_parser(
        "doctor", help="look whether everything that cffem needs works here"
    )
    doctor.set_defaults(command=run_doctor)


def run_study(options: argparse.Namespace) -> int:
    """Run a study, a file that is data or a program of the user's own."""
    from cffem.scripts import run_study_file, run_study_script

    kind = os.path.splitext(options.study)[1]
    if kind not in (".py", ".toml"):
        raise UsageError(f"{options.study} is not a study: give STUDY.toml or STUDY.py")
    if kind == ".py" and options.set:
        raise UsageError("--set changes a TOML study; a Python study is changed in its own text")
    with running(options) as stopped:
        if kind == ".toml":
            report = run_study_file(options.study, options.out, options.set, options.allow_path)
        else:
            report = run_study_script(options.study, options.out)
        if report is not None and rank() == 0 and not options.quiet:
            print(report)
    return stopped[0] if stopped else 0


def run_demo(options: argparse.Namespace) -> int:
    """Run one of the shipped demos, or list them."""
    from cffem.scripts import demo_path, demos, run_script

    if options.list:
        if rank() == 0:
            for name, title in demos().items():
                print(f"{name:<14} {title}")
        return 0
    with running(options) as stopped:
        run_script(demo_path(options.name), out=options.out or os.path.join("out", options.name))
    return stopped[0] if stopped else 0


def run_report(options: argparse.Namespace) -> int:
    """Render a report again from its JSON."""
    from cffem.study.report.report import Report, render

    if rank() == 0:
        report = Report.read(options.folder)
        try:
            print(report.to_latex() if options.latex else render(options.folder))
        except (
            TypeError,
            KeyError,
            AttributeError,
            IndexError,
        ) as error:  # sections are read as they are
            said = f"{type(error).__name__}: {error}"
            raise UsageError(
                f"the report in {options.folder} cannot be shown, a section is not what it should "
                f"be ({said})"
            ) from error
    return 0


@contextlib.contextmanager
def running(options: argparse.Namespace) -> Iterator[list[int]]:
    """Run studies as the options say; a run that ends early leaves its exit code in the list."""
    from cffem.study.run.progress import progress_for
    from cffem.study.run.settings import PlanOnly, Settings, using
    from cffem.study.run.signals import Interrupted, watching

    stopped: list[int] = []
    dry = getattr(options, "dry_run", False)
    comm = world()
    progress = progress_for(rank(), options.quiet or dry)
    settings = Settings(progress, options.resume, dry)
    try:
        with watching(alone=comm is None or comm.size == 1), using(settings):
            yield stopped
    except PlanOnly as only:
        from cffem.study.run.plan import plan

        text = plan(only.study)
        if rank() == 0:
            print(text)
        stopped.append(0)
    except Interrupted as reason:
        if rank() == 0:
            print(
                f"cffem: stopped by {reason}; what is finished is kept, go on with --resume",
                file=sys.stderr,
                flush=True,
            )
        stopped.append(EXIT_RESUMABLE)
    finally:
        progress.close()


def run_bench(options: argparse.Namespace) -> int:
    """Run one of the benchmarks, which read their own options, or list them."""
    find_benchmarks()
    from benchmarks.bench_registry import BENCHES

    if options.name is None:
        for name, bench in BENCHES.items():
            print(f"{name:<14} {(bench.__doc__ or '').splitlines()[0]}")
        return 0
    if options.name not in BENCHES:
        raise UsageError(
            f"there is no benchmark called {options.name!r}; there are: {', '.join(BENCHES)}"
        )
    return BENCHES[options.name](options.arguments)


def run_fetch(options: argparse.Namespace) -> int:
    """Download public data; the paths of the files are printed, one to a line. Under MPI one
    rank does it.
    """
    from cffem.data.readers.fetch import fetch, parsed_years

    if rank() == 0:
        for path in fetch(
            options.name, parsed_years(options.years), options.out, progress=sys.stderr.isatty()
        ):
            print(path)
    return 0


def run_validate(options: argparse.Namespace) -> int:
    """Check the theory on finite elements."""
    from cffem.validation.validate import main as validate

    return validate(options)


def run_doctor(options: argparse.Namespace) -> int:
    """Examine this installation."""
    from cffem.doctor import examine

    return examine()


def run_new(options: argparse.Namespace) -> int:
    """Write a study to begin from."""
    from cffem.commands.new_study import write_study

    if rank() == 0:
        path = write_study(options.name)
        print(f"{path} is a study that runs: cffem run {path} --out results")
    return 0


def run_compare(options: argparse.Namespace) -> int:
    """Show two reports side by side."""
    from cffem.commands.comparing import compare

    if rank() == 0:
        print("\n".join(map(printable, compare(options.first, options.second).splitlines())))
    return 0


def run_explain(options: argparse.Namespace) -> int:
    """Explain one code, or list all of them."""
    from cffem.symbols.reasons import EXPLAINED, explain

    if rank() != 0:
        return 0
    if options.code is None:
        width = max(len(code) for code in EXPLAINED)
        for code, words in EXPLAINED.items():
            print(f"{code:<{width}}  {textwrap.shorten(words, 96 - width, placeholder=' …')}")
        return 0
    text = explain(options.code)
    if text is None:
        known = {str(code).lower(): code for code in EXPLAINED}
        near = [
            known[name]
            for name in difflib.get_close_matches(options.code.lower(), known, n=1, cutoff=0.4)
        ]
        hint = f"did you mean {near[0]}?" if near else "cffem explain lists them"
        raise UsageError(f"there is no code {options.code!r}; {hint}")
    print(textwrap.fill(text, 96))
    return 0


def run_completion(options: argparse.Namespace) -> int:
    """Print the completion of a shell."""
    from cffem.commands.completion import script
    from cffem.scripts import demos
    from cffem.symbols.reasons import EXPLAINED

    words = {"demo": list(demos()), "explain": [w for w in map(str, EXPLAINED) if " " not in w]}
    print(script(options.shell, build_parser(), words), end="")
    return 0


class UsageError(ValueError):
    """A command line that asks for something that is not there."""


# --------------------------------------------------------------------------------- failing together


def world() -> MPI.Comm:
    """MPI.COMM_WORLD if this process was started by MPI or has initialised it, else None."""
    started = any(name in os.environ for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"))
    if not started and "mpi4py.MPI" not in sys.modules:
        return None
    try:
        from mpi4py import MPI
    except ImportError:
        return None
    return MPI.COMM_WORLD if MPI.Is_initialized() and not MPI.Is_finalized() else None


def rank() -> int:
    """This process's rank, 0 without MPI."""
    comm = world()
    return comm.rank if comm is not None else 0


def fail_together(error: Exception, debug: bool) -> int:
    """Print one message for all ranks and end all of them.

    Args:
        error: what this rank raised.
        debug: print the traceback even where the error is the input's fault.

    Returns:
        The exit code, when every rank of the run has failed (otherwise the run is aborted and this
        does not return).
    """
    said = sentence(error)
    code = EXIT_FAILED if said is None else EXIT_BAD_INPUT
    text = (
        "".join(traceback.format_exception(error))
        if said is None or debug
        else f"cffem: {printable(said)}"
    )
    comm = world()
    if comm is None or comm.size == 1:
        print(text.rstrip(), file=sys.stderr, flush=True)
        return code
    if everybody_failed(comm):
        if comm.rank == 0:
            print(text.rstrip(), file=sys.stderr, flush=True)
        return code
    print(f"rank {comm.rank}: {text.rstrip()}", file=sys.stderr, flush=True)
    time.sleep(0.2)  # mpirun forwards what was printed before it kills
    comm.Abort(code)
    return code


def printable(text: str) -> str:
    """A sentence as a terminal may show it: names from a stranger's file may hold escape sequences,
    or be very long.

    Example:
        >>> printable("no term '\x1b[2J'")
        "no term '\\\\x1b[2J'"
    """
    clean = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return (
        clean
        if len(clean) <= MOST_PRINTED
        else f"{clean[: MOST_PRINTED // 2]} … {clean[-MOST_PRINTED // 2 :]}"
    )


def everybody_failed(comm: MPI.Comm) -> bool:
    """Wait a moment for all ranks to arrive here; False if some did not."""
    request = comm.Ibarrier()
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if request.Test():
            return True
        time.sleep(0.01)
    # Of several failed ranks the lowest speaks first, and its abort silences the others.
    time.sleep(0.5 * comm.rank)
    return bool(request.Test())


def sentence(error: Exception) -> str | None:
    """One sentence that says it all, where the user's input or machine is at fault; None
    where the program is.
    """
    from cffem.symbols.errors import InputError

    if isinstance(error, InputError | UsageError | cffem.MissingFiniteElements):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        missing = cffem.without_finite_elements(error, "this command")
        return None if missing is None else str(missing)
    if isinstance(error, OSError) and disk_is_full(error):
        what = error.filename or "the output"
        return f"{what} cannot be written: {error.strerror}; make room, or write to another disk"
    if isinstance(error, FileNotFoundError | PermissionError):
        return (
            f"{error.filename}: {error.strerror}"
            if error.filename and error.strerror
            else str(error)
        )
    return None


if __name__ == "__main__":
    raise SystemExit(main())
