"""Real processes on real stores, killed and stopped in the middle of what they do."""
