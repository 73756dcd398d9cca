"""Plain technical English: phrases that readers stumble over, with what to say instead.

Checked are comments, docstrings and other strings of the code, the names of tests, and the prose
of the pages. What programs print in fenced or indented blocks of a page is not prose.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CODE = ("src/fedcell", "tests", "examples", "benchmarks", "experiments")

# A phrase as a regular expression, matched at word boundaries, and the words to use instead.
DENIED = {
    r"(?:gone|go|goes|going|went) on with": "resume, continue",
    r"anew": "again, or re-plan, redraw, ...",
    r"one's own": "custom, or: your own",
    r"of ours": "built-in, or: of fedcell",
    r"whoever": "name the program, the caller or the user",
    r"(?:nobody|somebody)(?:'s)?": "name it: no client, another process, the user",
    r"(?:is|are|was|were) told": "receives, reads, is given",
    r"told of": "conditioned on, given",
    r"so many": "a number: `count` rounds, this many",
    r"(?:blew|blow|blows|blown|blowing) up": "diverge",
    r"lest": "so that ... not",
    r"hears of": "receives, is notified",
    r"in good order": "valid, well-formed",
    r"minds no": "ignores, does not check",
    r"taken at its word": "trusted, used unchecked",
    r"comes to nothing": "fails, has no effect",
    r"dice": "random numbers, seed, common random numbers",
    r"look(?:s|ed) at": "evaluate, consider, check",
    r"under way": "in progress, running",
    r"(?:is|are) to be least": "is minimised",
    r"got there": "reached the target",
    r"what is there": "existing files, existing results",
    r"said so": "reported it",
}
# The only page that may use a word: it defines it.
DEFINED_ONCE = {"docs/reference/glossary.md": "dice"}
PATTERN = re.compile(
    r"\b(?:" + "|".join(phrase.replace(" ", r"\s+") for phrase in DENIED) + r")\b", re.IGNORECASE
)


def hint(phrase: str) -> str:
    plain = re.sub(r"\s+", " ", phrase)
    return next(say for deny, say in DENIED.items() if re.fullmatch(deny, plain, re.IGNORECASE))


def denied(text: str, first_line: int = 1) -> Iterator[tuple[int, str]]:
    """Yield the line and the words of each denied phrase of a text."""
    for match in PATTERN.finditer(text):
        yield first_line + text.count("\n", 0, match.start()), match.group()


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield runs of comment lines with their first line; a phrase may be wrapped over two."""
    start = 0
    lines: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, words = token.start[0], token.string.removeprefix("#")
            if lines and line == start + len(lines):
                lines.append(words)
                continue
            if lines:
                yield start, "\n".join(lines)
            start, lines = line, [words]
    if lines:
        yield start, "\n".join(lines)


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module: docstrings, messages and the fixed parts of f-strings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def names_of_tests(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")


def denied_in_code(text: str) -> list[tuple[int, str]]:
    tree = ast.parse(text)
    parts = [*comments(text), *literals(tree), *names_of_tests(tree)]
    return sorted(phrase for line, words in parts for phrase in denied(words, line))


def prose(page: str) -> str:
    """Blank out code, output and quotes of a page; line numbers stay."""
    kept: list[str] = []
    fence = ""
    for line in page.splitlines():
        if line.startswith("```"):
            fence = "" if fence else line
            kept.append("")
        elif fence:
            is_comment = re.match(r"\s*#(?! >)|.*\s# ", line) and fence != "```text"
            kept.append(line if is_comment else "")
        else:
            kept.append("" if line.startswith(("    ", "> ")) else line)
    text = "\n".join(kept)
    return re.sub(r"`[^`]*`", lambda code: re.sub(r"[^\n]", " ", code.group()), text)


def unreleased(changelog: str) -> str:
    """Drop the sections of older releases of a changelog: they are history."""
    return "".join(re.split(r"^(?=## \[\d)", changelog, flags=re.MULTILINE)[:2])


def denied_on_page(path: str, text: str) -> list[tuple[int, str]]:
    text = unreleased(text) if path == "CHANGELOG.md" else text
    phrases = sorted(denied(prose(text)))
    defined = [i for i, (_, words) in enumerate(phrases) if words.lower() == DEFINED_ONCE.get(path)]
    return [phrase for i, phrase in enumerate(phrases) if i not in defined[:1]]


def checked_files() -> list[str]:
    code = [file for folder in CODE for file in (ROOT / folder).rglob("*.py")]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    paths = sorted({file.relative_to(ROOT).as_posix() for file in [*code, *pages]})
    return [path for path in paths if path != "tests/test_words.py"]


@pytest.mark.parametrize("path", checked_files())
def test_words_are_plain(path: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    phrases = denied_in_code(text) if path.endswith(".py") else denied_on_page(path, text)
    report = [f"{path}:{line}: {words!r}; say: {hint(words)}" for line, words in phrases]
    assert not report, "\n" + "\n".join(report)


@pytest.mark.parametrize("phrase", ["nobody", "gone on with", "blew up", "said so", "Dice"])
def test_a_planted_phrase_is_reported(phrase: str) -> None:
    wrapped = phrase.replace(" ", "\n")
    assert denied_on_page("docs/x.md", f"One.\n\nIt {wrapped} here.") == [(3, wrapped)]
    name = phrase.lower().replace(" ", "_")
    wrapped_comment = phrase.replace(" ", "\n# ")
    code = f'def test_{name}_works():\n    """It {phrase}."""\n    # {wrapped_comment}\n'
    assert [line for line, _ in denied_in_code(code)] == [1, 2, 3]
    assert hint(phrase)


def test_words_inside_longer_words_and_printed_blocks_pass() -> None:
    assert denied_in_code("# modest dicey canew\n") == []
    page = "Text\n\n    $ fedcell\n    nobody\n\n```text\ndice\n```"
    assert denied_on_page("docs/x.md", page) == []
    assert len(denied_on_page("docs/reference/glossary.md", "dice and dice")) == 1
