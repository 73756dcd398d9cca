"""What a round costs over K and E_l, and what each device spends."""
