"""The script of Weft's contenders in `weft bench recovery`."""

from pathlib import Path

from support.scripts.mnist_files import write_mnist

from weft.bench.contenders.recovery_weft import main
from weft.bench.step_log import LogFolder, RecoveryTask


def test_alone_it_trains_to_the_last_step_logs_every_batch_and_scores(tmp_path: Path) -> None:
    folder = LogFolder(tmp_path)
    folder.end_after(12)
    main(RecoveryTask(str(tmp_path), str(write_mnist(tmp_path, train=80)), 1, 8, 0.02, 5, 0, width=2))
    (log,) = folder.read()
    assert [logged.step for logged in log.steps] == list(range(1, 13))
    assert {logged.num_samples for logged in log.steps} == {8}
    assert log.accuracy is not None
