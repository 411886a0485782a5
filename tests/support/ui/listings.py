"""What a table of names, such as that of `weft strategies`, tells of one of them."""


def cells_of(listing: str, name: str) -> list[str]:
    """The cells of `name`'s row, each with all its lines put together."""
    lines = listing.splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith(f"│ {name} "))
    rows = [lines[row]]
    while (following := lines[row + len(rows)]).startswith("│  "):
        rows.append(following)
    columns = zip(*(line.split("│")[1:-1] for line in rows), strict=True)
    return ["".join(cell.strip() + " " for cell in column) for column in columns]
