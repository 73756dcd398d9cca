"""The paper: its figures as experiments, and its sentences judged by them."""
