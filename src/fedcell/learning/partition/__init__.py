"""Which client holds which training samples: dealt by a rule, or given."""
