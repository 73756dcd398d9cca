"""Builds the documentation site and checks it; writes the generated pages of docs.

    python docs/site.py             # build/site; fails on a warning, a broken link, another host
    python docs/site.py --pages     # write generated pages, notebooks and the navigation again

The site has the pages of docs and those of the root. Links to other files of the repository
become links to their source on the project's page.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from generated import DOCS, FROM_OUTSIDE, ROOT, update

PAGES, SITE = ROOT / "build" / "pages", ROOT / "build" / "site"
SOURCE = "https://github.com/fedcell/fedcell"
COPIED = (
    *(".md", ".png", ".svg", ".webp", ".css", ".js", ".woff2"),
    *(".csv", ".toml", ".json", ".ipynb"),
)
LINK = re.compile(r"(?<!`)(!?\[(?:[^\[\]]|\[[^\]]*\]|!\[[^\]]*\]\([^)]*\))*\]\()([^()\s]+)(\))")
# Attributes by which a browser loads something without a click.
LOADS = {("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "manifest", "preconnect"}


def stage() -> list[str]:
    """Copy all pages with links that work on the site; return links that do not."""
    shutil.rmtree(PAGES, ignore_errors=True)
    places = {
        file.relative_to(ROOT).as_posix(): file.relative_to(DOCS).as_posix()
        for file in sorted(DOCS.rglob("*"))
        if file.is_file() and file.suffix in (*COPIED, "") and "__pycache__" not in file.parts
    }
    places |= FROM_OUTSIDE
    broken: list[str] = []
    for name in list(places):
        if name.endswith(".md"):  # pictures beside the pages
            for target in _targets(ROOT / name):
                if target.startswith("experiments/results/") and (ROOT / target).is_file():
                    places[target] = f"images/{Path(target).name}"
    for name, place in places.items():
        (PAGES / place).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            text, faults = on_site(name, (ROOT / name).read_text("utf-8"), places)
            (PAGES / place).write_text(text, "utf-8")
            broken += faults
        else:
            shutil.copy(ROOT / name, PAGES / place)
    return broken


def _targets(file: Path) -> Iterator[str]:
    """Yield the files that a page links to, relative to the root."""
    for found in LINK.finditer(file.read_text("utf-8")):
        if ":" not in found[2] and not found[2].startswith("#"):
            yield os.path.relpath(file.parent / found[2].split("#")[0], ROOT)


def on_site(name: str, text: str, places: dict[str, str]) -> tuple[str, list[str]]:
    """Return a page with its links rewritten, and the links to files that do not exist."""
    here, broken = Path(places[name]).parent, []

    def moved(found: re.Match[str]) -> str:
        before, target, after = found.groups()
        if ":" in target or target.startswith("#"):
            return found[0]
        # The picture inside a link: [![...](picture) title](page)
        before = before[0] + LINK.sub(moved, before[1:-2]) + "](" if "![" in before[1:] else before
        path, _, anchor = target.partition("#")
        file = os.path.normpath((ROOT / name).parent / path)
        full = os.path.relpath(file, ROOT).replace(os.sep, "/")
        if full in places:
            to = os.path.relpath(places[full], here)
        elif (ROOT / full).exists():
            to = f"{SOURCE}/{'tree' if (ROOT / full).is_dir() else 'blob'}/main/{full}"
        else:
            broken.append(f"{name} links to {target}")
            return found[0]
        return before + to + ("#" + anchor if anchor else "") + after

    parts = re.split(r"(^```.*?^```$|^    [^\n]*$|`[^`\n]*`)", text, flags=re.M | re.S)
    # Code spans inside a link's text keep the link whole.
    whole = "".join(parts)
    code = [part for part in parts[1::2] if "](" in part]
    for number, part in enumerate(code):
        whole = whole.replace(part, f"\0{number}\0", 1)
    whole = LINK.sub(moved, whole)
    whole = re.sub(r"\0(\d+)\0", lambda found: code[int(found[1])], whole)
    if places[name].startswith("tutorials/") and Path(name).name != "index.md":
        title, rest = whole.split("\n", 1)
        book = Path(places[name]).with_suffix(".ipynb").name
        whole = f"{title}\n\n[As a notebook]({book})\n{rest}"
    return whole, broken


# What a browser would find.


@dataclass
class Page(HTMLParser):
    """The anchors of a built page, its links, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        kinds = set(values.get("rel", "").split())
        for name, value in values.items():
            if (tag, name) in LOADS and (tag != "link" or kinds & LOADED_LINKS):
                self.loads.append(value)


def read(site: Path) -> dict[str, Page]:
    """Return all pages of a built site by path."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        pages[file.relative_to(site).as_posix()] = page = Page()
        page.feed(file.read_text("utf-8"))
    return pages


def faults_of(site: Path) -> Iterator[str]:
    """Yield broken links and anchors, and what is loaded from elsewhere."""
    pages = read(site)
    for name, page in pages.items():
        if name == "404.html":
            continue
        for target in dict.fromkeys([*page.links, *page.loads]):
            where = urlsplit(target)
            if where.scheme or where.netloc:
                if target in page.loads and where.scheme != "data":
                    yield f"{name} loads {target}"
                continue
            path = unquote(where.path)
            full = os.path.normpath(Path(name).parent / path) if path else name
            full = f"{full}/index.html" if (site / full).is_dir() else full
            if not (site / full).exists():
                yield f"{name} links to {target}, which does not exist"
            elif (
                where.fragment
                and full in pages
                and unquote(where.fragment) not in pages[full].anchors
            ):
                yield f"{name} links to {target}: there is no such anchor"
    for file in sorted(site.rglob("*.css")):
        for target in re.findall(r"url\(\s*['\"]?([^'\")]+)", file.read_text("utf-8")):
            if re.match(r"(?:https?:)?//", target):
                yield f"{file.relative_to(site)} loads {target}"
            elif (
                not target.startswith(("data:", "#"))
                and not (file.parent / re.split(r"[?#]", target)[0]).exists()
            ):
                yield f"{file.relative_to(site)} loads {target}, which does not exist"


def build() -> list[str]:
    """Build the site; return the warnings."""
    shutil.rmtree(SITE, ignore_errors=True)
    tool = Path(sys.executable).with_name("zensical")
    if not tool.exists():
        return ["zensical is not installed: pip install -e '.[docs]', or use `make docs`"]
    ended = subprocess.run(
        [tool, "build", "--clean"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    said = re.sub(r"\x1b\[[\d;]*m", "", ended.stdout + ended.stderr)
    warnings = [line for line in said.splitlines() if re.search(r"warn|error", line, re.I)]
    if ended.returncode or warnings:
        print(said)
    return warnings or ([said] if ended.returncode else [])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pages", action="store_true", help="only write generated pages")
    parser.add_argument("--links", action="store_true", help="only check links between files")
    options = parser.parse_args()
    if options.pages:
        for name in update():
            print(f"{name}: written")
        return
    faults = stage()
    if not options.links:
        faults += build()
        if SITE.exists():
            faults += faults_of(SITE)
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults and not options.links:
        count = len(list(SITE.rglob("*.html")))
        print(f"{count} pages in build/site: no broken links, no foreign hosts")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
