"""What a script's own functions see while they evaluate a model: writes of peers go to shadows meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from weft.core.script_state import ENDED, EVALUATE, ScriptState
from weft.store.live import LiveStore


@contextmanager
def evaluating(store: LiveStore, script: ScriptState, lock: RLock, *, lends_model: bool = False) -> Iterator[None]:
    """A context for reported functions: writes to `params` go to shadows meanwhile, even after the script's end."""
    before = script.at
    with lock:
        script.call(EVALUATE)
        if lends_model:
            store.lend_model()
    try:
        yield
    finally:
        with lock:
            if lends_model:
                store.take_model_back()
                store.let_user_run()
            script.at = before
            if before is ENDED:
                store.settle_shadows()
