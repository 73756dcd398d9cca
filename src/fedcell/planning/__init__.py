"""Before training: how many rounds it takes, which K and E_l are best, how sure that is."""
