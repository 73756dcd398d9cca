"""The paper: its figures as experiments, and verdicts on its claims."""
