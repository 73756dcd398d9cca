"""Files in and out: formats, atomic writes, checksums, locks, arrays."""
