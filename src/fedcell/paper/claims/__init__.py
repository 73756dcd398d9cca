"""Claims of the paper, with a verdict on each from its panel."""
