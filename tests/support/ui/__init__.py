"""Pages in a browser, and what is shown on them."""
