"""Network namespaces as hosts, and what crosses between them."""
