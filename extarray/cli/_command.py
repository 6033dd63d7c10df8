"""Define commands, their arguments and options, and report wrong calls.

Wraps Click as far as the commands need it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from extarray.common.errors import (
    ArgumentError,
    ArgumentTypeError,
    CastingError,
    DTypeError,
    ExtArrayError,
    ShapeError,
    VariableError,
)
from extarray.common.extras import require
from extarray.common.system import is_closed_pipe
from extarray.common.terminal import print_text, printable
from extarray.format.suffixes import METADATA, split_name
from extarray.storage.filesystem import is_folder

__all__ = [
    "BITS",
    "COMPRESSION",
    "JSON",
    "OVERWRITE",
    "SPARSE",
    "WrongCall",
    "argument",
    "array_path",
    "axis_of",
    "choice",
    "click",
    "codec_of",
    "command",
    "completion",
    "flag",
    "group",
    "integers",
    "names",
    "option",
    "run",
    "several",
    "usage_error",
    "wrong_calls",
]

click: Any = require("click", "cli", "the command line")

# Python arguments that messages recommend: ``overwrite=True``, ``timeout=``, ``text='S'``.
_KEYWORD = re.compile(r"(?<![\w'\"-])([a-z_]+)=(True|False|'[\w.]+'|\d+)?(?![\w'\"(\[{<])")


class WrongCall(Exception):  # noqa: N818 -- the exit status says so
    """The call is wrong, regardless of the files."""


#: Errors about arguments that other files may take: the call is right, and fails.
_OF_FILES = (CastingError, DTypeError, ShapeError, VariableError)


@contextlib.contextmanager
def wrong_calls(*also: type[ExtArrayError]) -> Iterator[None]:
    """Turn errors about arguments into `WrongCall`, unless they are about the contents of files.

    `also` has those of `_OF_FILES` that are about arguments here.
    """
    try:
        yield
    except (ArgumentError, ArgumentTypeError) as error:
        if isinstance(error, _OF_FILES) and not isinstance(error, also):
            raise
        raise WrongCall(str(error)) from None


def usage_error(text: str) -> Exception:
    """Return an error about options that exclude each other, ready to raise."""
    error: Exception = click.UsageError(text, click.get_current_context())
    return error


# -- commands ------------------------------------------------------------------------------------


def command(
    name: str, summary: str, *parameters: Any, details: str = "", **settings: Any
) -> Callable[[Callable[..., int | None]], Any]:
    """Make a command of a function that takes its parameters, and returns the exit status.

    Parameters
    ----------
    name, summary : str
        Name, and its line in the help that lists all commands.
    *parameters
        Arguments and options, made by the functions below.
    details : str
        Further text for the help of the command.
    **settings
        Passed to ``click.Command``.
    """
    text = f"{summary[0].upper()}{summary[1:]}."
    if details:
        text = f"{text}\n\n{details}"

    def make(run: Callable[..., int | None]) -> Any:
        return click.Command(
            name, callback=run, params=list(parameters), help=text, short_help=summary, **settings
        )

    return make


def argument(name: str, metavar: str, **settings: Any) -> Any:
    """Return a positional argument."""
    return click.Argument([name], metavar=metavar, **settings)


def several(name: str, metavar: str, **settings: Any) -> Any:
    """Return an argument that takes any number of words."""
    return click.Argument([name], metavar=metavar, nargs=-1, **settings)


def option(name: str, metavar: str | None, text: str, **settings: Any) -> Any:
    """Return an option with a value."""
    return click.Option(name.split(), metavar=metavar, help=text, **settings)


def flag(name: str, text: str) -> Any:
    """Return an option without a value."""
    return click.Option(name.split(), is_flag=True, help=text)


def choice(name: str, values: tuple[str, ...], text: str, **settings: Any) -> Any:
    """Return an option with a few allowed values."""
    return click.Option(name.split(), type=click.Choice(values), help=text, **settings)


def array_path(name: str = "path", metavar: str = "PATH", **settings: Any) -> Any:
    """Return an argument for the path of an array, which shells complete without its suffix."""
    return click.Argument([name], metavar=metavar, shell_complete=_complete_array, **settings)


JSON = flag("--json as_json", "print JSON, for other programs")
OVERWRITE = flag("--overwrite", "replace existing files")
SPARSE = click.Option(
    ["--sparse/--no-sparse"],
    default=None,
    help="store chunks of zeros as holes, or not (default: as SRC does)",
)

COMPRESSION = option(
    "--compression",
    "CODEC",
    "compress the chunks: zstd, lz4, zlib or auto, with a level and a filter, as in zstd:5 or "
    "lz4:shuffle; none: do not, even if SRC is compressed",
)
BITS = option(
    "--significant-bits",
    "N",
    "round floats to N bits of the mantissa, so that they compress better",
    type=int,
)


def codec_of(text: str | None) -> dict[str, Any]:
    """Return the value of `COMPRESSION` as an argument of functions; nothing if not given.

    Examples
    --------
    >>> codec_of("lz4:shuffle"), codec_of("none"), codec_of(None)
    ({'compression': 'lz4:shuffle'}, {'compression': None}, {})
    """
    return {} if text is None else {"compression": None if text == "none" else text}


def _complete_array(context: Any, parameter: Any, incomplete: str) -> list[Any]:
    """Return arrays and folders whose paths begin with `incomplete`."""
    completion: Any = require("click.shell_completion", "cli", "the command line")
    folder, start = os.path.split(incomplete)
    typed = incomplete[: len(incomplete) - len(start)]
    found = []
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            stem, suffix = split_name(entry.name)
            if not entry.name.startswith(start) or printable(entry.name) != entry.name:
                continue  # a shell would split the name at a line feed
            if is_folder(entry):
                found.append(f"{typed}{entry.name}/")
            elif suffix == METADATA:
                found.append(typed + stem)
    return [completion.CompletionItem(text) for text in sorted(found)]


# -- values of options ---------------------------------------------------------------------------


def integers(text: str) -> tuple[int, ...]:
    """Parse comma-separated integers."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a comma-separated list of integers") from None


def names(text: str) -> tuple[int | str, ...]:
    """Parse comma-separated names or numbers."""
    return tuple(axis_of(part.strip()) for part in text.split(","))


def axis_of(text: str) -> int | str:
    """Parse an axis: a number or a name."""
    try:
        return int(text)
    except ValueError:
        return text


# -- the whole command line ----------------------------------------------------------------------

_COMPLETE = "_EXTARRAY_COMPLETE"  # environment variable through which shells ask for completions
_SHELLS = ("bash", "zsh", "fish")


def group(name: str, version: str) -> Any:
    """Return an empty group of commands with the option --version."""

    def tell(context: Any, parameter: Any, value: bool) -> None:
        if value:
            print_text(f"{name} {version}")
            context.exit()

    made = click.Group(
        name,
        help="Dense N-dimensional arrays on disk that grow along any axis.",
        params=[
            click.Option(
                ["--version"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=tell,
                help="Show the version and exit.",
            )
        ],
        subcommand_metavar="COMMAND ...",
        context_settings={"help_option_names": ["-h", "--help"]},  # of all commands
    )
    made.list_commands = lambda context: list(made.commands)  # in order of definition, not by name
    return made


def run(whole: Any, words: Sequence[str]) -> int:
    """Run the command that `words` name; return the exit status."""
    asked = os.environ.get(_COMPLETE)
    if asked is not None:
        return _complete(whole, asked)
    if not words:
        help_text = whole.get_help(click.Context(whole, info_name=whole.name))
        print_text(help_text, stream=sys.stderr)
        return 2
    try:
        with whole.make_context(whole.name, list(words)) as context:
            status: int | None = whole.invoke(context)
            return status or 0
    except click.exceptions.Exit as leave:  # after help or version
        return int(leave.exit_code)
    except click.ClickException as error:
        error.message = printable(error.message)
        shown = io.StringIO()
        error.show(shown)
        print_text(shown.getvalue(), end="", stream=sys.stderr)
        return int(error.exit_code)
    except WrongCall as error:
        _print_error(error, whole, words[0])
        return 2
    except (ExtArrayError, OSError) as error:
        if is_closed_pipe(error):
            raise
        _print_error(error, whole, words[0])
        return 1


def _print_error(error: Exception, whole: Any, name: str) -> None:
    """Print an error of a command as one line on stderr."""
    print_text(f"{whole.name} {name}: {_as_typed(error, whole, name)}", stream=sys.stderr)


def _as_typed(error: Exception, whole: Any, name: str) -> str:
    """Return an error as one line, with options of the command instead of Python arguments."""
    there = {
        text
        for parameter in getattr(whole.commands.get(name), "params", ())
        for text in parameter.opts
    }

    def typed(match: re.Match[str]) -> str:
        text, value = f"--{match[1].replace('_', '-')}", (match[2] or "").strip("'")
        if text in there:
            return text if value in ("", "True") else f"{text} {value}"
        if "--option" in there and value:  # options of formats are Python's arguments
            return f"-o {match[1]}={value.lower() if value in ('True', 'False') else value}"
        return match[0]

    line = " ".join(str(error).split()) or type(error).__name__
    return _KEYWORD.sub(typed, line)


def _complete(whole: Any, instruction: str) -> int:
    """Answer a completion request of a shell, or print its script."""
    completion: Any = require("click.shell_completion", "cli", "the command line")
    return int(completion.shell_complete(whole, {}, whole.name, _COMPLETE, instruction))


@command(
    "completion",
    "print the script that completes commands, options and paths in a shell",
    click.Argument(["shell"], metavar="SHELL", type=click.Choice(_SHELLS)),
    details="For bash, add this line to ~/.bashrc:\n\n"
    'eval "$(extarray completion bash)"\n\n'
    'For zsh, add the same line with "zsh" to ~/.zshrc.  For fish, write the output to '
    "~/.config/fish/completions/extarray.fish.",
)
def completion(shell: str) -> int:
    """Print the completion script of a shell."""
    return _complete(click.get_current_context().parent.command, f"{shell}_source")
