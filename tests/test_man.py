"""Every command has a man page with all its options and both examples."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click

from ppdm_cli.commands import SUBCOMMANDS, cli
from tests.man import main


def test_every_command_has_a_page_with_its_options(tmp_path: Path) -> None:
    main(tmp_path)
    assert len(list(tmp_path.iterdir())) == len(SUBCOMMANDS) + 1
    for name in SUBCOMMANDS:
        path = tmp_path / f"ppdm-{name}.1"
        text = path.read_text("utf-8").replace("\\-", "-")
        command = cli.get_command(click.Context(cli), name)
        assert command is not None and text.count(f"ppdm {name} ") >= 3
        assert all(o.opts[-1] in text for o in command.params if isinstance(o, click.Option))
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", path], capture_output=True, check=True)
            assert done.stderr == b"" and len(done.stdout) > 1000
