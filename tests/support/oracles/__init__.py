"""The same again, slow and obvious, and strict readers: what results are held against."""
