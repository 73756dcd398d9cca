"""Figures and tables: values in, pictures and text out. Nothing is simulated here."""
