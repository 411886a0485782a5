"""How errors leave a command: as sentences, with an exit code."""

import errno
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from weft.cli.show.screen import show_error
from weft.cli.show.streams import enduring_streams
from weft.core.errors import TransportError, WeftError

ENOUGH = 4096
"""Open files, sockets and pipes for hundreds of workers."""


@contextmanager
def command_errors() -> Iterator[None]:
    """Run a command; 2 says that nothing was started, 1 that something failed, others are the script's own."""
    with enduring_streams():
        try:
            yield
        except WeftError as error:
            show_error(error)
            sys.exit(error.exit_code)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            show_error(out_of_descriptors(error))
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)


def out_of_descriptors(error: OSError) -> WeftError:
    """What is lacking when no more files, sockets or pipes can be opened, and how to get it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    can_rise = hard == resource.RLIM_INFINITY or hard > soft
    advice = f"Raise it: ulimit -n {hard if can_rise and 0 < hard < ENOUGH else ENOUGH}"
    advice += "" if can_rise else " (which the system's administrator has to allow)"
    return TransportError(
        f"no more files, sockets or pipes can be opened: {error.strerror}; a process may have {soft:,} (ulimit -n).\n"
        f"  {advice}, or use fewer workers."
    )
