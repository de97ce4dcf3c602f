"""One file per noun. Each gives a router for a context, and each route names the role it needs."""
