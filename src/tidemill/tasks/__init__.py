"""Tasks: queues of durable work, run by nodes and remote workers, each with an attempt and a fence."""
