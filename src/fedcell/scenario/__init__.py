"""The world as a user declares it: tables, the files they come from, and their identity."""
