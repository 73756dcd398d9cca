"""What every room may use: errors, strict tables, dice, estimates, files, quantities."""
