"""Radios and devices as data sheets describe them: rates, powers, joules by state, timelines."""
