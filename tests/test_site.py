"""Generated pages, notebooks and the navigation are up to date, and faults of a site are found."""

import json
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def scripts():
    """docs/generated.py and docs/site.py, which are no part of a package."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import generated

        spec = spec_from_file_location("docs_site", ROOT / "docs" / "site.py")
        site = module_from_spec(spec)
        sys.modules["docs_site"] = site  # "site" is a module of the standard library
        spec.loader.exec_module(site)
        return generated, site
    finally:
        sys.path.remove(str(ROOT / "docs"))


def test_generated_pages_are_up_to_date(scripts):
    generated, _ = scripts
    for name, text in generated.generated().items():
        assert (ROOT / name).read_text("utf-8") == text, f"{name}: python docs/site.py --pages"


def test_links_on_all_pages_lead_to_files_of_the_repository(scripts, tmp_path, monkeypatch):
    _, site = scripts
    monkeypatch.setattr(site, "PAGES", tmp_path)
    assert site.stage() == []
    assert len(list(tmp_path.rglob("*.md"))) > 60
    page = (tmp_path / "tutorials" / "1-plan-digits.md").read_text()
    assert "[As a notebook](1-plan-digits.ipynb)" in page


def test_a_link_to_a_missing_file_is_reported(scripts):
    _, site = scripts
    places = {"docs/a/x.md": "a/x.md", "DECISIONS.md": "reference/decisions.md"}
    text = "# T\n[y](y.md) [z](../../DECISIONS.md#n) [code](../../Makefile) `[no](no.md)`\n"
    text += "[![p](../../DECISIONS.md) t](../../DECISIONS.md)\n"
    moved, broken = site.on_site("docs/a/x.md", text, places)
    assert broken == ["docs/a/x.md links to y.md"]
    assert "[z](../reference/decisions.md#n)" in moved
    assert "[code](https://github.com/fedcell/fedcell/blob/main/Makefile)" in moved
    assert "`[no](no.md)`" in moved
    assert "[![p](../reference/decisions.md) t](../reference/decisions.md)" in moved


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="b.html#there">', ""),
        ('<a href="https://example.org">', ""),
        ('<link rel="canonical" href="https://example.org">', ""),
        ('<a href="c.html">', "c.html, which does not exist"),
        ('<a href="b.html#gone">', "there is no such anchor"),
        ('<img src="https://example.org/x.png">', "a.html loads https://example.org/x.png"),
        ('<script src="//example.org/x.js">', "a.html loads //example.org/x.js"),
        ('<link rel="stylesheet" href="https://example.org/x.css">', "a.html loads"),
    ],
)
def test_faults_of_a_built_page_are_found(scripts, tmp_path, body, fault):
    _, site = scripts
    (tmp_path / "a.html").write_text(body)
    (tmp_path / "b.html").write_text('<h2 id="there">')
    found = list(site.faults_of(tmp_path))
    assert len(found) == bool(fault)
    assert fault in "".join(found)


@pytest.mark.parametrize(
    ("style", "count"), [("url(x.woff2)", 1), ("url(//a.org/x)", 1), ("url(data:,)", 0)]
)
def test_faults_of_a_style_sheet_are_found(scripts, tmp_path, style, count):
    _, site = scripts
    (tmp_path / "a.css").write_text(f"a {{ src: {style} }}")
    assert len(list(site.faults_of(tmp_path))) == count


def test_a_site_without_its_builder_says_what_to_install(scripts, tmp_path, monkeypatch, capsys):
    _, site = scripts
    for name in ("PAGES", "SITE"):
        monkeypatch.setattr(site, name, tmp_path / name)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(sys, "argv", ["site.py"])
    with pytest.raises(SystemExit):
        site.main()
    assert "zensical is not installed: pip install -e '.[docs]'" in capsys.readouterr().err


def test_a_notebook_has_the_code_of_its_page_in_order(scripts):
    generated, _ = scripts
    page = (
        "# T\n\nText.\n\n```python\nprint(1)\n# > 1\n```\n\n"
        "    $ fedcell plan x  # why\n\n    out\n\nMore.\n\n```sh\nls\n```\n"
    )
    book = json.loads(generated.notebook(page))
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]
    assert cells == [
        ("markdown", "# T\n\nText."),
        ("code", "print(1)"),
        ("code", "!fedcell plan x"),
        ("markdown", "More."),
        ("code", "%%bash\nls"),
    ]
    shown = [cell["outputs"] for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [out[0]["text"] for out in shown if out] == [["1\n"], ["out\n"]]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "tutorials").glob("*[!x].md")))
def test_notebooks_hold_all_code_of_their_tutorials(page):
    book = json.loads(page.with_suffix(".ipynb").read_text("utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    code = "\n".join("".join(c["source"]) for c in book["cells"] if c["cell_type"] == "code")
    for block in re.findall(r"^```(?:python|sh)\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
        for line in block.splitlines():
            assert line.startswith("# > ") or line in code


def test_the_landing_page_is_short():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    assert len(text.split()) <= 700


def test_version_changelog_and_citation_agree():
    from fedcell import __version__

    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    (date,) = re.findall(r"^date-released: (.*)$", citation, re.MULTILINE)
    assert f"\nversion: {__version__}\n" in citation
    assert f"\n## [{__version__}] - {date}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")
