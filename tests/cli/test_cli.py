"""The command line as a whole, and `extarray info`."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from systems import needs_posix

import extarray as xa
from extarray import cli

README_COMMANDS = {"check", "demo", "info"}


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"extarray {xa.__version__}\n"


def test_help_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert set(cli.COMMANDS) >= README_COMMANDS
    for name in cli.COMMANDS:
        assert f"\n  {name} " in out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_command_has_help_of_its_own(name, capsys):
    assert cli.main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: extarray {name}" in out
    assert cli.main([name, "-h"]) == 0
    assert capsys.readouterr().out == out
    assert "-h, --help" in out


def test_the_short_option_for_the_whole_help(capsys):
    assert cli.main(["-h"]) == 0
    assert "\n  info " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["ls", "tree", "bench"])
def test_a_folder_that_may_be_left_out_is_in_brackets(name, capsys):
    assert cli.main([name, "-h"]) == 0
    usage, _, text = capsys.readouterr().out.partition("\n")
    assert usage.endswith(("[PATH]", "[FOLDER]"))
    assert "by default" in text


@pytest.mark.parametrize(
    "argv", [[], ["no-such-command"], ["info"], ["info", "a", "b"], ["--no-such-option"]]
)
def test_wrong_usage_is_status_2(argv, capsys):
    assert cli.main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage: extarray" in captured.err


def test_no_command_at_all_is_helped(capsys):
    assert cli.main([]) == 2
    assert "check the files of an array for damage" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["", ".xmd", ".xta"])
def test_info(path, suffix, capsys):
    with xa.create(path, shape=(4, 3), dtype="u2", chunks=2) as a:
        a.extend(axis=1, by=5)
        expected = str(a.info())
    assert cli.main(["info", f"{path}{suffix}"]) == 0
    out = capsys.readouterr().out
    assert "uint16" in out
    assert "4 x 8" in out or "(4, 8)" in out
    assert len(out.splitlines()) == len(expected.splitlines())


def test_info_has_the_attributes(script, path):
    """Each attribute takes one line, whatever it contains and the output can show."""
    attrs = {
        "unit": "µm",
        "e\x1b[2J": "\x9b",
        "gain": [0] * 100,
        **dict.fromkeys(map(str, range(30))),
    }
    xa.create(path, shape=(2,), dims=["x"], attrs=attrs).close()
    with xa.open(path) as a:
        assert a.info()["attrs"] == {**attrs, "dims": ["x"]}
    done = subprocess.run(
        [sys.executable, "-m", "extarray", "info", path],
        capture_output=True,
        env={**script.environment, "PYTHONIOENCODING": "ascii"},
        timeout=250,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode("ascii").partition("\nattrs ")[2].splitlines()
    assert [line.strip() for line in lines[:4]] == [
        r"unit: '\xb5m'",
        r"e\x1b[2J: '\x9b'",
        f"gain: [{'0, ' * 16}0,...",
        "0: None",
    ]
    assert len(lines) == 21
    assert lines[-1].strip() == "... and 13 more"


def test_info_while_a_writer_has_the_array(path, capsys):
    with xa.create(path, shape=(4, 3), dtype="u2", chunks=2):
        assert cli.main(["info", str(path)]) == 0
    assert capsys.readouterr().err == ""


def damaged(path):
    xa.create(path, shape=(4, 3), dtype="u2").close()
    metadata = path.with_name(path.name + ".xmd")
    metadata.write_bytes(b"\x00" * metadata.stat().st_size)


@pytest.mark.parametrize("prepare", [lambda path: None, damaged], ids=["missing", "damaged"])
def test_an_error_is_one_line_and_status_1(path, prepare, capsys):
    prepare(path)
    assert cli.main(["info", str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("extarray info: ")
    assert captured.err.count("\n") == 1


def folder_of_arrays(path):
    path.mkdir()
    for name in "ab":
        xa.create(path / name, shape=(2,)).close()


@pytest.mark.parametrize(
    ("prepare", "what", "commands"),
    [
        (lambda path: None, "there is no file", ("info", "check")),
        (
            lambda path: path.write_text("x"),
            "extarray import makes one of a file of another format",
            ("info", "check"),
        ),
        (folder_of_arrays, "it is a folder, with the arrays 'a', 'b'; open one", ("info",)),
    ],
    ids=["missing", "a file", "a folder"],
)
def test_what_is_no_array(path, prepare, what, commands, capsys):
    """`check` gives the same message as `info`, once; in a folder, it checks the arrays."""
    prepare(path)
    texts = []
    for command in commands:
        assert cli.main([command, str(path)]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        texts.append(captured.err.removeprefix(f"extarray {command}: "))
    assert len(set(texts)) == 1
    assert what in texts[0]
    assert texts[0].count("\n") == 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "value"), [("EXTARRAY_ENGINE", "foo"), ("EXTARRAY_MAX_MEMORY", "much")]
)
def test_an_environment_that_cannot_be_is_one_line(script, path, name, value):
    xa.create(path, shape=(2,)).close()
    done = subprocess.run(
        [sys.executable, "-m", "extarray", "info", path],
        capture_output=True,
        text=True,
        env={**script.environment, name: value},
        timeout=250,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"extarray info: environment variable {name}='{value}': ")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_is_status_130(monkeypatch, capsys):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(xa, "open", interrupted)
    assert cli.main(["info", "scene"]) == 130
    assert capsys.readouterr().err == "extarray info: interrupted\n"


def test_a_fault_of_the_program_is_not_hidden(monkeypatch):
    def wrong(*args, **options):
        raise ZeroDivisionError

    monkeypatch.setattr(xa, "open", wrong)
    with pytest.raises(ZeroDivisionError):
        cli.main(["info", "scene"])


def test_python_m(script, path):
    with xa.create(path, shape=(4, 3), dtype="u2") as a:
        a[...] = np.arange(12).reshape(4, 3)
    done = subprocess.run(
        [sys.executable, "-m", "extarray", "info", path],
        capture_output=True,
        text=True,
        env=script.environment,
        timeout=250,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "uint16" in done.stdout


def test_output_that_nobody_reads(script, path):
    """A closed pipe, as in `extarray info scene | head -0`, causes no traceback."""
    xa.create(path, shape=(4, 3), dtype="u2").close()
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "extarray", "info", path],
            stdout=write,
            stderr=subprocess.PIPE,
            env=script.environment,
            timeout=250,
            check=False,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


@needs_posix("shell that starts a program without outputs")
@pytest.mark.sampled(1)
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_outputs_that_are_closed(script, path, closed):
    """Some services start programs with closed outputs."""
    xa.create(path, shape=(4, 3), dtype="u2").close()
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "extarray", "info", path],
        capture_output=True,
        env=script.environment,
        timeout=250,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_without_click_the_package_is_named(script):
    script(
        "import sys\n"
        "sys.modules['click'] = None\n"
        "import contextlib, io, extarray.cli\n"
        "with contextlib.redirect_stderr(io.StringIO()) as err:\n"
        "    assert extarray.cli.main(['show', 'scene']) == 1\n"
        "assert err.getvalue() == (\"extarray show: the command line needs 'click'; install it "
        'with: pip install click\\n"), err.getvalue()\n'
        "import extarray\n"
        "assert extarray.zeros(2).shape == (2,)\n"
    )


def test_version_and_info_need_numpy_alone(script, path):
    xa.create(path, shape=(4, 3), dtype="u2").close()
    script(
        "import sys\n"
        "for name in ('click', 'rich', 'tqdm'):\n"
        "    sys.modules[name] = None\n"
        "import contextlib, io, json, extarray.cli\n"
        "def run(*words):\n"
        "    out, err = io.StringIO(), io.StringIO()\n"
        "    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):\n"
        "        status = extarray.cli.main(list(words))\n"
        "    return status, out.getvalue(), err.getvalue()\n"
        f"path = {str(path)!r}\n"
        "assert run('--version') == (0, f'extarray {extarray.__version__}\\n', '')\n"
        "with extarray.open(path) as a:\n"
        "    assert run('info', path) == (0, f'{a.info()}\\n', '')\n"
        "status, out, err = run('info', path, '--json')\n"
        "assert (status, json.loads(out)['shape'], err) == (0, [4, 3], '')\n"
        "status, out, err = run('info', '-h')\n"
        "assert (status, err) == (0, '') and 'usage: extarray info' in out\n"
        "status, out, err = run('info')\n"
        "assert (status, out) == (2, '') and 'PATH' in err\n"
        "status, out, err = run('info', 'nothere')\n"
        "assert (status, out) == (1, '') and 'nothere' in err\n"
    )


@pytest.mark.slow
def test_building_the_parser_imports_nothing_optional(script):
    script(
        "import sys, extarray.cli\n"
        "extarray.cli.command_line()\n"
        "optional = {'h5py', 'matplotlib', 'rich', 'scipy', 'tensorly', 'tornado'}\n"
        "found = optional & set(sys.modules)\n"
        "assert not found, found\n"
    )
