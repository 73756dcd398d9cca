"""The command line: thin, for people first and with --json for programs."""
