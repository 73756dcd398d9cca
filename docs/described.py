"""An extension of griffe: the `Doc` in `Annotated[type, Doc("meaning", "symbol", "unit")]`
documents a field, as in `help` and error messages."""

import ast
from typing import Any

import griffe


class Described(griffe.Extension):
    """Gives such a field its meaning as docstring, and shows its type without the `Doc`."""

    def on_attribute_instance(self, *, node: Any, attr: griffe.Attribute, **_: Any) -> None:
        declared = getattr(node, "annotation", None)
        if not isinstance(declared, ast.Subscript) or attr.docstring:
            return
        for call in ast.walk(declared):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Doc":
                words = [a.value for a in call.args if isinstance(a, ast.Constant)]
                text = ast.unparse(call.args[0]) if not words else str(words[0])
                text = text[0].upper() + text[1:]
                more = [f"`{word}`" for word in words[1:3] if word]
                text += f" ({', in '.join(more) if words[1] else 'in ' + more[0]})" if more else ""
                attr.docstring = griffe.Docstring(text, parent=attr)
                kind = getattr(attr.annotation, "slice", None)
                attr.annotation = getattr(kind, "elements", [attr.annotation])[0]
                return
