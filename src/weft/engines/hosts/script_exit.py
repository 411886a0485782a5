"""Finds the exit code of a script that Weft has not started, before its process ends.

When SystemExit ends a script, the interpreter handles it in C and calls no hook. What can be observed:

| the script                    | `__file__` of `__main__` at exit | its code is known from                         |
|-------------------------------|----------------------------------|------------------------------------------------|
| ran to its end                | removed by the interpreter       | 0, even if it called sys.exit and caught it    |
| called sys.exit, exit or quit | still there                      | these functions, which are replaced            |
| raised SystemExit             | still there                      | the exception, which still exists when the     |
|                               |                                  | interpreter flushes stdout at the end          |
| is a module (`python -m`)     | still there, always              | the replaced functions only                    |
"""

import builtins
import gc
import sys
from typing import Any, NoReturn


class ScriptExit:
    """Replaces sys.exit, exit, quit and stdout.flush, and finds `code` from them once the script has ended."""

    def __init__(self) -> None:
        self._main = vars(sys.modules["__main__"])
        self._is_file = "__file__" in self._main and self._main.get("__spec__") is None
        self._called: object = None
        self._raised: object = None
        self._exit = sys.exit
        sys.exit = self._note_call
        for name in ("exit", "quit"):
            setattr(builtins, name, self._note_call)
        stream: Any = sys.stdout
        self._flush = stream.flush
        stream.flush = self._flush_and_look

    def _note_call(self, code: str | int | None = None) -> NoReturn:
        self._called = code
        self._exit(code)

    def _flush_and_look(self) -> None:
        self._flush()
        if sys._getframe().f_back is None:  # no Python caller: the interpreter flushes, because the script has ended
            raised = [each for each in gc.get_objects() if issubclass(type(each), SystemExit)]
            self._raised = raised[-1].code if raised else None

    @property
    def code(self) -> object:
        """The argument of sys.exit or SystemExit; None for a script that ran to its end."""
        if self._is_file and "__file__" not in self._main:
            return None
        return self._called if self._raised is None else self._raised
