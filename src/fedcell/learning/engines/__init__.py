"""Learners that train: compiled kernels, quadratics, PyTorch."""
