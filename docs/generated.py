"""Pages and files of docs that follow from the code and from other pages.

    python docs/site.py --pages     # write them again where they differ

The command line, the scenario keys, the API, the lists of pages, the gallery, the navigation of
mkdocs.yml, and the notebooks of the tutorials. tests/test_site.py compares all of them.
"""

import ast
import html
import inspect
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
KINDS = {
    "tutorials": ("Tutorials", "Learn by doing: each begins from nothing and ends with a result."),
    "how-to": ("How-to guides", "Steps to a goal, for readers who know the basics."),
    "explanation": ("Explanation", "Why fedcell does what it does, and how well."),
    "reference": ("Reference", "Facts to look up."),
}
# Pages that the site takes from outside docs, with their place in it.
FROM_OUTSIDE = {
    "DECISIONS.md": "reference/decisions.md",
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "reference/contributing.md",
    "SECURITY.md": "reference/security.md",
    "RELEASING.md": "reference/releasing.md",
}
SPACES = ("", "policies", "selectors", "network", "learning", "simulation", "experiments")
SPACES += ("planning", "deploy", "errors")
# Figures of examples in the gallery; tutorials show their own first one.
PICTURES = {
    "1_plan_a_round": "round.png",
    "2_own_policy": "policies.png",
    "3_own_data": "pumps.png",
    "4_own_learner": "pumps-loss.png",
    "5_torch_module": "torch-loss.png",
    "6_pilot_and_plan": "plan-digits.png",
    "7_from_pilot_to_figures": "cost-cnn.png",
    "9_torch_batchnorm": "torch-loss.png",
}
NOTE = "<!-- Written by `python docs/site.py --pages`. -->\n\n"


def generated() -> dict[str, str]:
    """Return all generated files by path: those of docs first, then what lists the pages."""
    files = {
        "docs/reference/command-line.md": command_line(),
        "docs/reference/scenario.md": scenario_keys(),
        **api_pages(),
        "docs/gallery.md": gallery(),
    }
    for kind in KINDS:
        files[f"docs/{kind}/index.md"] = list_of_pages(kind, files)
    files["mkdocs.yml"] = navigation(files)
    for page in tutorials():
        files[f"docs/tutorials/{page.stem}.ipynb"] = notebook(page.read_text("utf-8"))
    return files


def update() -> Iterator[str]:
    """Write files that differ, and yield their paths."""
    for name, text in generated().items():
        file = ROOT / name
        if not file.exists() or file.read_text("utf-8") != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            yield name


# The command line and the scenario.


def command_line() -> str:
    """Return a section for each command, with its options as it declares them."""
    from fedcell.cli.commands import COMMANDS
    from fedcell.cli.main import load_command

    parts = [
        "# Command line\n\n"
        + NOTE
        + "`fedcell COMMAND --help` prints the same. `fedcell --version` prints the version. "
        "Exit codes: 0, 2 after an error (one line each on standard error), 130 after Ctrl-C.\n"
    ]
    for name in COMMANDS:
        command = load_command(name)
        function = inspect.unwrap(command.callback)
        hints = get_type_hints(function, include_extras=True)
        words = [f"fedcell {name}"]
        for param in command.params:
            if param.param_type_name == "argument":
                word = param.name.upper()
                words.append(word if param.required else f"[{word}]")
        lines = [f"## `fedcell {name}`\n", f"```text\n{' '.join(words)} [OPTIONS]\n```\n"]
        lines += [inspect.getdoc(function) or "", ""]
        lines += ["| argument or option | value | meaning |", "|---|---|---|"]
        lines += [_row(p, hints[p.name]) for p in command.params if p.name in hints]
        examples = re.findall(r"```\n(.*?)```", command.epilog or "", re.DOTALL)
        if examples:
            lines += ["", "```sh", *(e for e in examples[0].split("\n") if e), "```"]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _row(param: Any, hint: Any) -> str:
    """Return the line of an argument or option, by its type and declaration."""
    kind, *_, declared = get_args(hint)
    names = ", ".join([*param.opts, *param.secondary_opts])
    if param.param_type_name == "argument":
        names = param.name.upper()
    # Literal, or one of it: Literal | None
    choices = [word for part in (kind, *get_args(kind)) for word in get_args(part)]
    value = declared.metavar or "|".join(word for word in choices if isinstance(word, str))
    if value and declared.min is not None:
        value += f", from {declared.min}" if declared.max is None else ""
        value += f", {declared.min} to {declared.max}" if declared.max is not None else ""
    text = (declared.help or "").rstrip()
    default = getattr(param.default, "value", param.default)
    if param.required:
        text += " Required."
    elif isinstance(default, (str, int, float, Path)) and not isinstance(default, bool):
        text += f" Default: `{default}`."
    cells = (f"`{names}`", f"`{value}`" if value else "", text)
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def scenario_keys() -> str:
    """Return the page with its generated part, which begins at the first table."""
    from fedcell.show.tables.reference import scenario_reference

    reference = scenario_reference()
    page = (DOCS / "reference" / "scenario.md").read_text("utf-8")
    return page[: page.index(reference.split("\n", 1)[0])] + reference


# The API, without an import: extras need not be installed.


def public_names(space: str) -> dict[str, str]:
    """Return the public names of a namespace, each with the module that defines it."""
    folder = ROOT / "src" / "fedcell" / space if space else ROOT / "src" / "fedcell"
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    declared = next(n for n in ast.parse(file.read_text("utf-8")).body if isinstance(n, ast.If))
    return {
        alias.name: str(node.module)
        for node in declared.body
        if isinstance(node, ast.ImportFrom) and node.module != "fedcell"
        for alias in node.names
    }


def first_line(module: str, name: str) -> str:
    """Return the first sentence of a definition's docstring."""
    file = ROOT / "src" / Path(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    body = ast.parse(file.read_text("utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " ")
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            value = after.value if isinstance(after, ast.Expr) else None  # the text below a name
            return str(value.value) if isinstance(value, ast.Constant) else ""
    return ""


def api_pages() -> dict[str, str]:
    """Return a page for each namespace, and one that lists them."""
    found, lines = {}, []
    for space in SPACES:
        path, stem = f"fedcell.{space}".rstrip("."), space or "top"
        names = dict(sorted(public_names(space).items(), key=lambda item: item[0].lower()))
        rows = [
            f"| [`{name}`](#{module}.{name}) | {_cell(first_line(module, name))} |"
            for name, module in names.items()
        ]
        entries = [f"::: {module}.{name}" for name, module in names.items()]
        table = "\n".join(["| name | what it is |", "|---|---|", *rows])
        found[f"docs/reference/api/{stem}.md"] = "\n\n".join(
            [f"# {path}", NOTE.strip(), f"`from {path} import ...`", table, *entries, ""]
        )[:-1]
        lines.append(f"| [`{path}`]({stem}.md) | {', '.join(f'`{n}`' for n in names)} |")
    table = "\n".join(["| namespace | names |", "|---|---|", *lines])
    found["docs/reference/api/index.md"] = (
        f"# API\n\n{NOTE}Names of the four jobs (declare, plan, run, compare) are in `fedcell`, "
        f"the rest in namespaces. Other modules may change without notice.\n\n{table}\n"
    )
    return found


# Lists of pages.


def title_of(text: str) -> str:
    return re.sub(r"[`*]", "", re.findall(r"^# (.*)$", text, re.MULTILINE)[0])


def opening_of(text: str) -> str:
    """Return the first sentence below the title of a page, if prose begins there."""
    body = re.split(r"^# .*$", text, maxsplit=1, flags=re.MULTILINE)[1]
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL).lstrip("\n")
    words = " ".join(re.split(r"\n\s*\n", body)[0].split())
    if not words or body.startswith(("|", "!", "`", "#", "    ", ":::", "- ", "[!")):
        return ""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words)
    first = re.split(r"(?<=[.?!])\s+(?=[A-Z`(])|:$", words)[0].rstrip(":")
    return first if len(first) <= 160 else ""


def tutorials() -> list[Path]:
    """Return the tutorials: those with a number first, in its order."""
    found = [file for file in (DOCS / "tutorials").glob("*.md") if file.name != "index.md"]
    number = re.compile(r"(\d*)")
    return sorted(found, key=lambda file: (int(number.match(file.name)[1] or 10**9), file.name))


def pages_of(kind: str, files: dict[str, str]) -> list[tuple[str, str]]:
    """Return names and texts of the pages of a kind, as they will be; tutorials in their order."""
    here = {
        file.relative_to(DOCS / kind).as_posix(): file.read_text("utf-8")
        for file in (DOCS / kind).glob("*.md")
        if file.name != "index.md"
    }
    start = f"docs/{kind}/"
    here |= {
        p[len(start) :]: t for p, t in files.items() if p.startswith(start) and p.count("/") == 2
    }
    here.pop("index.md", None)
    if kind == "reference":
        here["api/index.md"] = files["docs/reference/api/index.md"]
        here |= {
            Path(place).name: (ROOT / name).read_text("utf-8")
            for name, place in FROM_OUTSIDE.items()
        }
    if kind == "tutorials":
        return [(page.name, here[page.name]) for page in tutorials()]
    return sorted(here.items(), key=lambda item: title_of(item[1]).lower())


def list_of_pages(kind: str, files: dict[str, str]) -> str:
    title, about = KINDS[kind]
    outside = {Path(place).name: f"../../{name}" for name, place in FROM_OUTSIDE.items()}
    lines = [f"# {title}\n", NOTE + f"{about}\n"]
    for name, text in pages_of(kind, files):
        target = outside.get(name, name) if kind == "reference" else name
        opening = opening_of(text)
        lines.append(f"- [{title_of(text)}]({target})" + (f": {opening}" if opening else ""))
    return "\n".join(lines) + "\n"


def navigation(files: dict[str, str]) -> str:
    """Return mkdocs.yml with the navigation of all pages."""
    lines = ["nav:", "  - Home: index.md", "  - Gallery: gallery.md"]
    for kind, (title, _) in KINDS.items():
        lines += [f"  - {title}:", f"      - {kind}/index.md"]
        for name, text in pages_of(kind, files):
            if name == "api/index.md":
                lines += ["      - API:", "          - reference/api/index.md"]
                for space in SPACES:
                    path = f"fedcell.{space}".rstrip(".")
                    lines.append(f"          - {path}: reference/api/{space or 'top'}.md")
            else:
                lines.append(f"      - {json.dumps(title_of(text))}: {kind}/{name}")
    before = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[0]
    return before + "\n" + "\n".join(lines) + "\n"


def gallery() -> str:
    """Return a card for each tutorial and example, with its figure."""
    cards = []
    for page in tutorials():
        text = page.read_text("utf-8")
        picture = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
        place = os.path.relpath(page.parent / picture[0], DOCS) if picture else ""
        cards.append(_card(f"tutorials/{page.name}", title_of(text), place))
    for file in sorted((ROOT / "examples").glob("[0-9]*.py")):
        about = (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").split("\n")[0]
        picture = f"images/{PICTURES[file.stem]}" if file.stem in PICTURES else ""
        cards.append(_card(f"../examples/{file.name}", about.rstrip("."), picture))
    return (
        f"# Gallery\n\n{NOTE}Tutorials explain each step and show their figure; examples "
        "are single files, with a figure of the kind that they draw.\n\n"
        '<div class="gallery" markdown="1">\n\n' + "\n\n".join(cards) + "\n\n</div>\n"
    )


def _card(target: str, title: str, picture: str) -> str:
    title = title.replace("[", "(").replace("]", ")")
    shown = f"![{html.escape(title)}]({picture}) " if picture else ""
    return f"[{shown}{title}]({target})"


# Notebooks.


def notebook(page: str) -> str:
    """Return a tutorial as a notebook: its prose, and its code with the output that the page
    shows."""
    cells: list[dict[str, Any]] = []
    for kind, text in parts_of(page):
        if kind == "python":
            source = re.sub(r"^# > .*\n?", "", text, flags=re.MULTILINE).rstrip("\n")
            said = re.findall(r"^# > (.*)$", text, re.MULTILINE)
        elif kind == "command":
            first, *said = text.split("\n")
            source = "!" + first
        elif kind == "sh":
            source, said = "%%bash\n" + text.rstrip("\n"), []
        else:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(text)})
            continue
        outputs = [
            {"name": "stdout", "output_type": "stream", "text": _lines("\n".join(said) + "\n")}
        ]
        cells.append(
            {
                "cell_type": "code",
                "execution_count": None,
                "metadata": {},
                "outputs": outputs if said else [],
                "source": _lines(source),
            }
        )
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    about = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    whole = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def parts_of(page: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a page in order: prose, and what runs (python, sh, command)."""
    pattern = re.compile(
        r"^```(?P<kind>python|sh)\n(?P<code>.*?)^```$"
        r"|^    \$ (?P<words>[^\n]*)(?P<shown>(?:\n+    (?!\$ )[^\n]*)*)",
        re.MULTILINE | re.DOTALL,
    )
    end = 0
    for found in pattern.finditer(page):
        if prose := page[end : found.start()].strip("\n"):
            yield "prose", prose
        if found["kind"]:
            yield found["kind"], found["code"]
        else:
            said = "\n".join(line[4:] for line in found["shown"].strip("\n").split("\n"))
            yield "command", found["words"].split("  #")[0].rstrip() + ("\n" + said if said else "")
        end = found.end()
    if prose := page[end:].strip("\n"):
        yield "prose", prose


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
