"""Published rules of selection, one idea a file: source, constants, where we differ and why."""
