"""python -m weft: the same as the `weft` command."""

from weft.cli.app import main

main()
