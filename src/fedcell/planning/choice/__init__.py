"""The best K and E_l: the grid, its limits, the plan and its file."""
