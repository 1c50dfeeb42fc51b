"""PPO and its relatives: collect, estimate advantages, update."""
