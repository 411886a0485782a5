"""Links of which more was read than received: their sockets may be empty, so an eventfd tells selectors of them."""

import os
import selectors

from weft.transports.link import SocketLink


class Unread:
    """Whoever sleeps on the selector wakes while there are such links."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._links: set[SocketLink] = set()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._selector = selector
        selector.register(self._bell, selectors.EVENT_READ, self)

    def add(self, link: SocketLink) -> None:
        """This link's turn is over, though more of it can be received at once."""
        self._links.add(link)
        os.eventfd_write(self._bell, 1)

    def take(self) -> set[SocketLink]:
        """The links that wait for their next turn, which they get now."""
        os.eventfd_read(self._bell)
        links, self._links = self._links, set()
        return links

    def close(self) -> None:
        self._selector.unregister(self._bell)
        os.close(self._bell)
