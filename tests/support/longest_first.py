"""Which process of parallel tests is given which: a file or a group of files at a time, the longest first.

The tests of a file share what they have computed or imported, and a process that is given a file asks once for all
of them. Nobody waits long for the last process to end if what takes longest has begun first.
"""

from collections.abc import Mapping

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

GROUPS = ("engines/ray/",)
"""Folders below tests/ whose files share what is costly to start: a cluster."""

SECONDS: Mapping[str, int] = {
    "engines/ray/": 110,
    "conformance/test_torchrun.py": 70,
    "conformance/test_replaced_workers.py": 70,
    "conformance/test_resumed_runs.py": 60,
    "conformance/test_foreign_loops.py": 60,
    "engines/local/test_launcher.py": 60,
    "conformance/test_real_training.py": 37,
    "conformance/test_quarantined_workers.py": 35,
    "engines/hosts/test_bootstrap.py": 37,
    "conformance/test_real_strategies.py": 34,
    "conformance/test_lost_workers.py": 30,
    "bench/test_recovery.py": 27,
    "adapters/test_keeping.py": 25,
    "conformance/test_maths_of_lost_workers.py": 24,
    "properties/test_planted_bugs.py": 23,
    "conformance/test_torch_shares.py": 22,
    "runtime/reduce/test_agreed.py": 22,
    "engines/diagnose/cluster/test_participant.py": 20,
    "fuzz/test_auditor.py": 19,
    "conformance/test_coded_strategies.py": 19,
    "conformance/test_lost_controllers.py": 18,
    "properties/test_interrupted_welcomes.py": 18,
    "conformance/test_shares.py": 16,
    "cli/verbs/test_compare.py": 16,
    "adapters/torch/test_real_face.py": 15,
    "engines/test_checkpointed_script.py": 15,
    "examples/test_digits_softmax.py": 15,
    "runtime/seats/test_live_seat.py": 15,
    "examples/test_ring_gan.py": 14,
    "properties/test_planted_bugs_of_served_newcomers.py": 14,
    "adapters/torch/test_join.py": 13,
    "support/network/test_machines.py": 13,
    "cli/options/test_run_checkpoints.py": 12,
    "cli/verbs/test_run.py": 11,
    "collectives/test_recovery.py": 11,
    "conformance/test_codecs.py": 11,
    "conformance/test_hosts.py": 11,
    "fuzz/test_run.py": 11,
    "observe/report/test_page.py": 11,
    "conformance/test_faults.py": 10,
    "conformance/test_own_writes.py": 10,
    "properties/test_replay.py": 10,
    "runtime/reduce/test_device.py": 10,
    "conformance/test_torn_updates.py": 9,
}
"""Of groups and other files below tests/ that take long, measured; what is not here takes less."""


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]
    """Like `--dist loadfile`, but files of a folder of GROUPS are given to one process."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0].removeprefix("tests/")
        return next((group for group in GROUPS if file.startswith(group)), file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        longest = max(self.workqueue, key=lambda scope: SECONDS.get(scope, 0))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: WorkerController) -> str | None:
        """Returns the test that ended its process; unlike xdist's own, does not give it to the next process as well."""
        assigned: Mapping[str, dict[str, bool]] = self.assigned_work[node]
        for tests in assigned.values():
            for nodeid, ended in tests.items():
                if not ended:
                    tests[nodeid] = True
                    super().remove_node(node)
                    return nodeid
        super().remove_node(node)
        return None
