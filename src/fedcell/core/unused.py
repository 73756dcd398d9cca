"""Options of a table that are given where they mean nothing."""

from collections.abc import Mapping, Sequence

import msgspec

from .schema import Table


def unused_options(
    table: Table,
    users: Mapping[str, tuple[str, Sequence[str]]],
    chosen: Mapping[str, str] | None = None,
) -> list[str]:
    """Options that are given where they mean nothing: `users` says for each which key, with which
    of its values, has a use for it. `chosen` has values of keys that are left out."""
    default = {field.name: field.default for field in msgspec.structs.fields(type(table))}
    keys = {key for key, _ in users.values()}
    values = {key: getattr(table, key) for key in keys} | dict(chosen or {})
    return [
        f"{name} is for {' and '.join(choices)}, and "
        f'{table.table_name}.{key} is "{values[key]}": leave it out'
        for name, (key, choices) in users.items()
        if getattr(table, name) != default[name] and values[key] not in choices
    ]
