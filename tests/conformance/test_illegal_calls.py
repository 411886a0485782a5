"""A call where a script may not call is refused in the same words by both drivers."""

from pathlib import Path

import pytest
from support.processes.real import real
from support.scripts.training_scripts import ARRAYS, TORCH, TORCH_JOIN, simulated, write

from weft.core.errors import IllegalCall
from weft.core.script_state import EVALUATING, FILL, FILLING_FIRST, REPORT, SAVE, SHARE, STEP, refusal

STEPS = "\nworker.step({'w': w - 1.0}, samples=1)\n"
HOOKED = """
model[0].weight.register_hook(lambda gradient: worker.{call})
loss = model(torch.ones(2, 4)).sum()
worker.count(2)
loss.backward()
optimizer.step()
"""
TRAINS = """
worker.count(2)
model(torch.ones(2, 4)).sum().backward()
optimizer.step()
worker.report(slope=lambda: model(torch.ones(2, 4)).sum().backward() or 1.0)
"""
SHARES = """
for rows in worker.share(8, batch_size=2):
    worker.step({'w': w - 1.0})
worker.report(sum=lambda: sum(1.0 for rows in worker.share(8, batch_size=2)))
"""
CASES = {
    "a report in a report": (
        ARRAYS,
        STEPS,
        "worker.report(a=lambda: worker.report(b=1.0) or 1.0)\n",
        EVALUATING,
        REPORT,
    ),
    "a save in a report": (ARRAYS, STEPS, "worker.report(a=lambda: worker.save('m.x') or 1.0)\n", EVALUATING, SAVE),
    "a step in a report": (
        ARRAYS,
        STEPS,
        "from weft.core.seat import current\nworker.report(a=lambda: current().step_finished(1.0, None) or 1.0)\n",
        EVALUATING,
        STEP,
    ),
    "a share in a report": (ARRAYS, SHARES, "", EVALUATING, SHARE),
    "a report in backward": (TORCH, TORCH_JOIN, HOOKED.format(call="report(a=1.0)"), FILLING_FIRST, REPORT),
    "a save in backward": (TORCH, TORCH_JOIN, HOOKED.format(call="save('m.x')"), FILLING_FIRST, SAVE),
    "backward in a report": (TORCH, TORCH_JOIN, TRAINS, EVALUATING, FILL),
}


@pytest.mark.parametrize("driver", [simulated, real], ids=["simulated", "real"])
@pytest.mark.parametrize("case", CASES)
def test_a_call_that_may_not_be_is_refused_in_the_same_words(case: str, driver: object, tmp_path: Path) -> None:
    *pieces, state, call = CASES[case]
    strategy = "sandblaster" if call is SHARE else "allreduce"
    with pytest.raises(IllegalCall) as refused:
        driver(write(tmp_path, *pieces), 2, strategy)  # type: ignore[operator]
    assert str(refusal(state, call)) in str(refused.value)
