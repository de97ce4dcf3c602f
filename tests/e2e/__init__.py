"""The product as its users meet it: the command line and HTTP, in real processes."""
