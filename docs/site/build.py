"""The site, for `make site`: the same Markdown files as in the repository, with navigation and search.

The index docs/README.md is the navigation: each of its headings is a tab, and each page that it links is in it.
Files keep their places, so that a relative link leads to the same page here and in the repository.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build
from mkdocs.config import load_config

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs" / "README.md"
_LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)\s#]+)")


def notebook_page(notebook: Path, folder: Path) -> str:
    """Return a notebook as Markdown, with its pictures in a folder."""
    parts = []
    for i, cell in enumerate(json.loads(notebook.read_text("utf-8"))["cells"]):
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for data in (output["data"] for output in cell.get("outputs", [])):
            if "image/png" in data:
                (folder / f"cell{i}.png").write_bytes(b64decode("".join(data["image/png"])))
                parts.append(f"![What the cell shows](cell{i}.png)")
            elif "text/html" in data:
                parts.append(re.sub("\n+", "\n", "".join(data["text/html"])))
            else:
                parts.append(f"```text\n{''.join(data['text/plain'])}\n```")
    return "\n\n".join(parts) + "\n"


def staged(text: str) -> str:
    """Return a page whose links to notebooks lead to the pages made of them."""
    return _LINK.sub(lambda link: link[0].replace(".ipynb", ".md"), text)


def stage(folder: Path) -> None:
    """Copy all pages, and the files that they link, to where they are in the repository."""
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "sample_data" / "README.md"]:
        text = page.read_text("utf-8")
        _target(folder, page).write_text(staged(text), "utf-8")
        for linked in ((page.parent / link).resolve() for link in _LINK.findall(text)):
            if linked.is_file() and linked.suffix not in (".md", ".ipynb"):
                shutil.copyfile(linked, _target(folder, linked))
    for notebook in (ROOT / "docs").rglob("*.ipynb"):
        target = _target(folder, notebook.with_suffix(".md"))
        target.write_text(staged(notebook_page(notebook, target.parent)), "utf-8")
    shutil.copyfile(Path(__file__).with_name("site.css"), folder / "site.css")


def _target(folder: Path, path: Path) -> Path:
    target = folder / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def navigation() -> list[dict[str, Any]]:
    """Return the index as navigation: a tab for each heading, and in it the pages under the heading."""
    tabs: list[dict[str, Any]] = [{"Home": ["README.md", "docs/README.md"]}]
    seen = {*tabs[0]["Home"]}
    for section in re.split(r"^## ", staged(INDEX.read_text("utf-8")), flags=re.MULTILINE)[1:]:
        places = ((INDEX.parent / link).resolve() for link in _LINK.findall(section))
        found = [str(p.relative_to(ROOT)) for p in places if p.suffix == ".md"]
        fresh = [p for p in dict.fromkeys(found) if p not in seen]
        seen |= {*fresh}
        tabs.append({section.partition("\n")[0]: fresh})
    return [tab for tab in tabs if all(tab.values())]


def main(site: Path) -> None:
    """Build the site; any warning is an error."""
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    shutil.rmtree(site, ignore_errors=True)
    source = site.parent / f"{site.name}-pages"
    shutil.rmtree(source, ignore_errors=True)
    stage(source)
    settings = {"docs_dir": str(source), "site_dir": str(site), "nav": navigation(), "strict": True}
    config = load_config(str(Path(__file__).with_name("mkdocs.yml")), **settings)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    config.plugins.on_shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
