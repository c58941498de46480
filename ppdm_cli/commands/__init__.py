"""The command line: one file a subcommand, which parses, calls the library and shows.

Nothing heavy is imported before a subcommand runs. Every failure ends here: one line with what, where and the
next step, and an exit code (`errors.Exit`).
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

from ppdm_cli import __version__
from ppdm_cli.commands.shell import fail, misused, standard_streams, surroundings
from ppdm_cli.errors import Exit, PpdmError, near, place_of, worded_by
from ppdm_cli.files import Run, one_run

SUBCOMMANDS = {
    "plan": "Look at a table and write a plan for perturbing it (the owner).",
    "perturb": "Perturb a table and publish it with its sidecar (the owner).",
    "inspect": "Show what a release promises, and what it doesn't.",
    "estimate": "Estimate the original distributions from a release (the miner).",
    "query": "Answer questions about the originals from a release (the miner).",
    "reconstruct": "Turn a release into a data set for any mining tool (the miner).",
    "train-tree": "Train a decision tree on a release, or on any other table.",
    "train-bayes": "Learn a Bayesian network from perturbed columns.",
    "predict": "Add a tree's predictions to a table.",
    "entropy": "Compare the privacy and accuracy of budgets and matrices before you publish.",
    "attack": "Show what an attacker could recover from a release.",
    "generate": "Make the synthetic tables of the papers.",
    "explain": "Explain a word of ppdm: a term, an option, an error.",
}


class Subcommands(click.Group):
    """A group that imports a subcommand's module only when it is called, so that help is fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command = getattr(import_module(f"ppdm_cli.commands.{name}"), f"{name}_command")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            name, command, rest = super().resolve_command(ctx, args)
            params = [] if command is None else [p for p in command.params if isinstance(p, click.Option)]
            ctx.with_resource(worded_by({str(p.name): (p.opts[0], p.multiple) for p in params}))
            return name, command, rest
        except click.UsageError as error:
            hint = near(args[0], SUBCOMMANDS).capitalize()
            names = f"Commands: {', '.join(SUBCOMMANDS)}."
            raise click.UsageError(f"{error.message.rstrip('.')}. {hint or names}", ctx) from None


@click.group(
    cls=Subcommands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="The owner perturbs a table and publishes the release with its sidecar. A miner needs nothing else.",
)
@click.version_option(__version__, "-V", "--version", prog_name="ppdm", message="%(prog)s %(version)s")
def cli() -> None:
    """Share a table with its values randomised, and recover accurate statistics from it."""


def run_command_line() -> None:
    """Run the command line and exit with one of the codes in `errors.Exit`."""
    _keep_freed_memory()
    with standard_streams() as out, one_run(command=True) as run:
        code = _code(run)
        out.flush()
        if out.trouble is not None and code == Exit.DONE:
            code = _troubled(out.trouble, run)
    sys.exit(code)


def _troubled(trouble: OSError, run: Run) -> int:
    """Return the exit code of a command that did its work, but could not print all of its output."""
    if isinstance(trouble, BrokenPipeError):  # whoever read has read enough
        return int(Exit.DONE if run.committed else Exit.FAILED)
    from ppdm_cli.tables import unwritable

    error = unwritable("standard output", trouble)
    return fail(error.title, error.what, error.next_step, error.exit_code, error.id)


def _code(run: Run) -> int:
    """Run a subcommand and return its exit code; if it fails, say why."""
    try:
        with worded_by({}), surroundings():
            return int(cli.main(standalone_mode=False, prog_name="ppdm") or 0)
    except PpdmError as error:
        return fail(error.title, error.what, error.next_step, error.exit_code, error.id)
    except click.exceptions.NoArgsIsHelpError as error:  # its message is the help, of many lines
        error.show()
        return int(Exit.USAGE)
    except click.ClickException as error:
        return misused(error, Exit.USAGE)
    except (KeyboardInterrupt, click.Abort):
        with suppress(ValueError):  # raised beside the main thread, which alone is interrupted
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would only hide the code
        if sys.stderr.isatty():
            click.echo("\r", nl=False, err=True)  # over the ^C that the terminal shows
        done = "its output is in place" if run.committed else "nothing was written"
        return fail("interrupted", done, "", Exit.INTERRUPTED)
    except SystemExit as left:  # click's, where a pipe broke
        return int(Exit.DONE if run.committed else left.code or 0)
    except OSError as error:
        what = f"{error.strerror or 'a file cannot be used'} ({place_of(error)})"
        return fail("failed", what, "check the disk and your permissions", Exit.FAILED)
    except MemoryError:
        next_step = "use fewer columns, or a machine with more memory"
        return fail("out of memory", "nothing was written", next_step, Exit.FAILED)
    except BaseException as error:  # a panic of polars is not an Exception
        # never the message: it may quote a cell
        what = f"an error inside ppdm ({type(error).__name__} at {place_of(error)})"
        return fail("failed", what, "report it with the command, but without data", Exit.FAILED)


def _keep_freed_memory() -> None:
    """Have glibc use freed blocks again instead of returning them: page faults cost a third of `reconstruct`.

    Arrow takes memory from it too: its own allocators return it, which costs a tenth of a CSV's perturbation.
    Here, not in the library: only a process of our own may be tuned.
    """
    trim_threshold, mmap_threshold, arena_max = -1, -3, -8  # M_TRIM_THRESHOLD and so on in malloc.h
    with suppress(ImportError, OSError, AttributeError, TypeError):  # whatever another system lacks of it
        import ctypes

        libc = ctypes.CDLL(None)
        libc.mallopt(trim_threshold, 1 << 30)
        libc.mallopt(mmap_threshold, 1 << 25)
        libc.mallopt(arena_max, 1)  # what a thread frees all use: a sixth less memory, as fast
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # for pyarrow, once it is imported
