"""What goes to a package index: an sdist and a wheel, built, checked and installed in this environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import BytesParser
from email.policy import default
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ppdm_cli import __version__

ROOT = Path(__file__).parent.parent


def run(*args: object, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("dist")
    run("build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def test_twine_finds_nothing(built: tuple[Path, Path], tmp_path: Path) -> None:
    said = run("twine", "check", "--strict", *built, cwd=tmp_path, NO_COLOR="1")
    assert said.count("PASSED") == 2


def test_the_sdist_has_the_package_and_what_speaks_of_it(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {n.partition("/")[2] for n in archive.getnames()}
    outside = {n for n in names if not n.startswith("ppdm_cli/")}
    assert outside - {".gitignore"} == {"CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    source = [p for p in (ROOT / "ppdm_cli").rglob("*") if p.suffix in (".py", ".json", ".toml", ".typed")]
    assert names - outside == {p.relative_to(ROOT).as_posix() for p in source}


def test_the_wheel_has_the_package_its_types_and_the_schema(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        names = set(archive.namelist())
        [metadata] = [n for n in names if n.endswith(".dist-info/METADATA")]
        said = BytesParser(policy=default).parsebytes(archive.read(metadata))
    assert {"ppdm_cli/py.typed", "ppdm_cli/sidecar.schema.json"} <= names
    assert {n.partition("/")[0] for n in names} == {"ppdm_cli", metadata.partition("/")[0]}
    assert said["Version"] == __version__ and said["Author"] and said["License-Expression"] == "Apache-2.0"
    assert "Typing :: Typed" in said.get_all("Classifier", [])
    text = said.get_payload()
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert "## In 60 seconds" in text and [a for a in links if not a.startswith("https://")] == []


def test_the_wheel_runs_where_it_is_installed(built: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "installed"
    quiet = ("--quiet", "--no-index", "--no-deps", "--disable-pip-version-check", "--target", target)
    run("pip", "install", *quiet, built[1], cwd=tmp_path)
    assert run("ppdm_cli", "--version", cwd=tmp_path, PYTHONPATH=str(target)).strip() == f"ppdm {__version__}"
    made = ("ppdm_cli", "generate", "--function", 2, "--records", 50, "-o", "t.csv")
    run(*made, cwd=tmp_path, PYTHONPATH=str(target))
    where = subprocess.run(
        [sys.executable, "-c", "import ppdm_cli; print(ppdm_cli.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(target)},
    )
    assert Path(where.stdout.strip()).is_relative_to(target)


def test_the_constraints_pin_what_the_project_names() -> None:
    """One version for each dependency with its hashes, no host and no path, within the project's own bounds."""
    text = (ROOT / "constraints.txt").read_text("utf-8").replace(" \\\n", "")
    lines = [line for line in text.splitlines() if not line.startswith("# ")]
    pins = [re.fullmatch(r"([\w.-]+)==([\w.]+)( +--hash=sha256:[0-9a-f]{64})+", line) for line in lines]
    pinned = {canonicalize_name(pin[1]): pin[2] for pin in pins if pin is not None}
    assert len(pinned) == len(lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    for requirement in map(Requirement, [*project["dependencies"], *(r for extra in extras for r in extra)]):
        if requirement.name != "ppdm-cli":
            assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_the_demo_installs_no_test_tools() -> None:
    """`make demo` installs the first part of the constraints: what the package and its build need."""
    first, *rest = (ROOT / "constraints.txt").read_text("utf-8").split("\n# For the tests")
    assert len(rest) == 2
    names = {canonicalize_name(n) for n in re.findall(r"^([\w.-]+)==", first, re.MULTILINE)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {canonicalize_name(Requirement(r).name) for r in project["dependencies"]}
    extra = {canonicalize_name(Requirement(r).name) for r in project["optional-dependencies"]["dev"]}
    assert needed < names and names & extra <= {"editables", "hatch-fancy-pypi-readme", "hatchling"}
