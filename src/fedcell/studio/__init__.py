"""A local page that shows plans while their questions change, and runs while they go on."""
