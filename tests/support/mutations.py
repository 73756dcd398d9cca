"""Inputs that are nearly right: values, texts and bytes with one or a few things changed."""

import copy
import json
import random
from typing import Any

NASTY: list[Any] = [
    *(
        None,
        True,
        False,
        "",
        "x",
        "5",
        "nan",
        "../..",
        "/dev/null",
        "\x1b[2J",
        "\ud800",
        "a" * 9999,
    ),
    *(0, -1, 1, 2, 1.7, -0.0, 1e308, -1e308, 1e-320, 1e60, 5e-61, 2**31, 2**63, 2**64, 10**400),
    *(float("nan"), float("inf"), float("-inf"), [], {}, [[]], [1, "2", None], {"a": {"b": 1}}),
]
LITERALS = [
    *("0x" + "f" * 4000, "0b" + "1" * 20_000, "0o" + "7" * 6000, "9" * 5000, "1e9999", "-inf"),
    *("nan", "true", '"\\u0007"', '"$x$"', "1979-05-27", "[1, 2]", "{a = 1}", "''", "-1", "1_0"),
]


def changed_tree(tree: Any, rng: random.Random) -> Any:
    """Tables with one to three of their values, keys or items changed."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        _change(tree, rng)
    return tree


def _change(tree: Any, rng: random.Random) -> None:
    places = list(_places(tree))
    if not places:
        return
    inside, key = rng.choice(places)
    value = inside[key]
    match rng.randrange(8):
        case 0:
            del inside[key]
        case 1 if isinstance(inside, dict):
            inside[f"{key}{rng.choice(['s', '_', chr(27), ''])}x"] = inside.pop(key)
        case 2 if isinstance(value, list) and value:
            value += rng.choices(value, k=rng.choice([1, 100]))
        case 3 if isinstance(value, int | float) and abs(value) < 1e300:
            inside[key] = value * rng.choice([-1, 0, 2, 1e-9, 1e9, 1e300, 0.999999])
        case 4:
            other, place = rng.choice(places)
            if isinstance(other, dict | list) and (isinstance(other, dict) or place < len(other)):
                inside[key] = copy.deepcopy(other[place])
        case _:
            inside[key] = copy.deepcopy(rng.choice(NASTY))


def _places(tree: Any) -> Any:
    """Every value inside, as what holds it and where."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(items):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _places(value)


def changed_json(tree: Any, rng: random.Random) -> bytes:
    """The same as the text of a file, itself damaged now and then."""
    text = json.dumps(changed_tree(tree, rng)).encode()
    return changed_bytes(text, rng) if rng.random() < 0.2 else text


def changed_toml(text: str, rng: random.Random) -> bytes:
    """A TOML file with the value of a line replaced, or lines moved about."""
    lines = text.splitlines()
    for _ in range(rng.choice([1, 1, 2])):
        i = rng.randrange(len(lines))
        key, equals, _value = lines[i].partition("=")
        if equals and rng.random() < 0.8:
            lines[i] = f"{key}= {rng.choice(LITERALS)}"
        elif rng.random() < 0.5:
            lines.insert(rng.randrange(len(lines)), lines[i])
        else:
            del lines[i]
    raw = "\n".join(lines).encode()
    return changed_bytes(raw, rng) if rng.random() < 0.2 else raw


def changed_csv(text: str, rng: random.Random) -> bytes:
    """A table with a cell replaced, or a line or a column too many or too few."""
    rows = [line.split(",") for line in text.splitlines()]
    row = rng.choice(rows)
    match rng.randrange(5):
        case 0:
            row.append("1")
        case 1:
            row.pop()
        case 2:
            rows.remove(row)
        case _:
            cells = [
                "",
                "x",
                "nan",
                "-1",
                "1e999",
                '"',
                "\x1b[2J",
                "1 2",
                "0x10",
                "9" * 5000,
                "1,5",
            ]
            row[rng.randrange(len(row))] = rng.choice(cells)
    raw = "\n".join(map(",".join, rows)).encode()
    return changed_bytes(raw, rng) if rng.random() < 0.2 else raw


def changed_bytes(raw: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, cut out, repeated or put in; more often near the beginning, where headers
    are."""
    raw = bytes(raw)
    for _ in range(rng.choice([1, 1, 2, 5])):
        end = len(raw) if rng.random() < 0.5 else min(len(raw), 200)
        i = rng.randrange(end + 1)
        some = rng.choice([1, 1, 4, 64])
        match rng.randrange(5):
            case 0 if i < len(raw):
                raw = raw[:i] + bytes([raw[i] ^ (1 << rng.randrange(8))]) + raw[i + 1 :]
            case 1:
                raw = raw[:i] + raw[i + some :]
            case 2:
                raw = raw[:i] + raw[i : i + some] * 2 + raw[i + some :]
            case 3:
                raw = raw[:i]
            case _:
                raw = raw[:i] + rng.randbytes(some) + raw[i:]
    return raw
