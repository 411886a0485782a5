"""The script of Weft's contenders in `weft bench recovery`; nothing in it is about lost workers."""

from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import weft
from weft.bench.contenders.recovery_course import accuracy_of, load_images, model_and_optimizer
from weft.bench.step_log import RecoveryTask, StepLog, own_recovery_task

EPOCHS_MAX = 10_000


def main(task: RecoveryTask) -> None:
    """Train until the benchmark has seen enough; then one worker scores the trained model."""
    x, y, x_test, y_test = weft.once(load_images, task.data)
    model, optimizer = model_and_optimizer(task)
    loader = DataLoader(TensorDataset(x, y), batch_size=task.batch_size, shuffle=True)
    worker = weft.join(model, optimizer)
    log = StepLog(task.folder, worker.rank)
    is_last = False
    for _ in worker.epochs(EPOCHS_MAX):
        for images, labels in worker.share(loader):
            log.began(len(labels))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            is_last = log.committed(worker.steps)
            if is_last:
                break
        if is_last:
            break

    def accuracy() -> float:
        scored = accuracy_of(model, x_test, y_test)
        log.scored(scored)
        return scored

    worker.report(accuracy=accuracy)


if __name__ == "__main__":
    main(own_recovery_task())
