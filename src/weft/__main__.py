"""python -m weft: the same as the `weft` command."""

import os
import sys

if __name__ == "__main__":
    if sys.path[:1] == [os.getcwd()]:  # put there by `python -m`: a rich.py in that folder would be imported
        del sys.path[0]
    from weft.cli.app import main

    main()
