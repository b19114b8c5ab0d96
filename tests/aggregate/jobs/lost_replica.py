"""Three replicas of torchft, one of which is lost in the middle of a step; prints what each step gave as JSON lines.

lost_replica.py         starts the lighthouse and the replicas, and waits for them
lost_replica.py INDEX   is one replica
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torchft import Manager, ProcessGroupGloo
from torchft.coordination import LighthouseServer

from failuremap.aggregate.torch.quorum import Quorum

LOST = 2
TIME = timedelta(seconds=10)
NAN = float("nan")
# Step -> rule, and each replica's count. In `lost` the last replica ends before it has sent anything.
STEPS: dict[str, tuple[str, tuple[int | None, ...]]] = {
    "sum": ("sum", (None, None, None)),
    "mean": ("mean", (None, None, None)),
    "weighted": ("weighted_mean", (1, 2, 3)),
    "zero count": ("weighted_mean", (1, 0, 3)),
    "no count": ("weighted_mean", (0, 0, 0)),
    "lost": ("weighted_mean", (1, 2, 3)),
    "weighted over two": ("weighted_mean", (1, 2, 3)),
    "sum over two": ("sum", (None, None, None)),
    "torchft's own mean": ("", (1, 2, 3)),
}


class Model(nn.Module):
    """Parameters of two dtypes; one that only replica 1 uses, and one that none does."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Parameter(torch.zeros(2))
        self.narrow = nn.Parameter(torch.zeros(1, dtype=torch.bfloat16))
        self.rare = nn.Parameter(torch.zeros(1))
        self.unused = nn.Parameter(torch.zeros(1))

    def backward(self, index: int, poisoned: bool) -> None:
        """Give the parameters gradients as a backward would."""
        self.zero_grad()
        self.wide.grad = torch.tensor([index + 1.0, NAN if poisoned else -index])
        self.narrow.grad = torch.tensor([256.0 if index == 0 else 0.75], dtype=torch.bfloat16)
        if index == 1:
            self.rare.grad = torch.tensor([6.0])


def main() -> int:
    """Start all processes and end with the worst of the survivors' exit codes."""
    lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=2, join_timeout_ms=30_000, heartbeat_timeout_ms=2000)
    port = lighthouse.address().rsplit(":", 1)[1]
    environment = {**os.environ, "TORCHFT_LIGHTHOUSE": f"http://127.0.0.1:{port}"}
    ready, say_ready = os.pipe()
    replicas = [
        subprocess.Popen(
            [sys.executable, __file__, str(index), str(say_ready)],
            env=environment,
            stdin=subprocess.PIPE,
            pass_fds=[say_ready],
        )
        for index in range(LOST + 1)
    ]
    os.close(say_ready)
    for _ in replicas:  # none starts before the lighthouse knows all of them
        os.read(ready, 1)
    for replica in replicas:
        replica.stdin.close()
    codes = [replica.wait(timeout=60) for replica in replicas]
    lighthouse.shutdown()
    del codes[LOST]
    return max(codes)


def train(index: int, say_ready: int) -> None:
    """Make the steps of one replica."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    model = Model()
    manager = Manager(
        pg=ProcessGroupGloo(timeout=TIME),
        load_state_dict=model.load_state_dict,
        state_dict=model.state_dict,
        min_replica_size=2,
        use_async_quorum=False,
        timeout=TIME,
        quorum_timeout=TIME,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        replica_id=f"replica{index}_",
        hostname="127.0.0.1",
    )
    quorums = {
        rule: Quorum(manager, model, rule, replica_count=LOST + 1 if rule == "sum" else None)
        for rule in ("sum", "mean", "weighted_mean")
    }
    os.write(say_ready, b".")
    sys.stdin.read()
    for step, (rule, counts) in STEPS.items():
        manager.start_quorum()
        model.backward(index, poisoned=counts[index] == 0)
        if (index, step) == (LOST, "lost"):
            os._exit(9)
        if rule:
            say(index, step, quorums[rule].step(counts[index]), quorums[rule], model)
            continue
        manager.allreduce(model.wide.grad).wait()
        say(index, step, manager.should_commit(), None, model)
    manager.shutdown(wait=False)
    os._exit(0)


def say(index: int, step: str, stepped: bool, quorum: Quorum | None, model: Model) -> None:
    """Print what a step gave, in one piece."""
    gradients = {name: p.grad if p.grad is None else p.grad.tolist() for name, p in model.named_parameters()}
    said = {}
    if quorum:
        said = {"counts": quorum.report and list(quorum.report.counts.values()), "reason": quorum.reason}
    line = {"replica": index, "step": step, "stepped": stepped, **said, **gradients}
    os.write(1, (json.dumps(line) + "\n").encode())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(int(sys.argv[1]), int(sys.argv[2]))
    raise SystemExit(main())
