"""All-reduces random gradients by Gloo and exactly, in turn, and times both.

torchrun --nproc-per-node 4 benchmarks/jobs/exact_sums.py --elements 10000000 --repeats 9 --out times
"""

import argparse
import json
import time
from pathlib import Path

import torch
import torch.distributed as dist

from failuremap.aggregate.torch.exact import Wire, reduce_values


def measure(elements: int, repeats: int) -> list[dict[str, object]]:
    """Return wall and CPU seconds of each all-reduce."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    values = torch.randn(elements, generator=generator) * torch.randn(elements, generator=generator).exp()
    wire = Wire(dist.group.WORLD, torch.device("cpu"))
    steps, given = [], values.clone()
    for repeat in range(2 * repeats):
        exact = repeat % 2 == 1
        given.copy_(values)
        dist.barrier()
        wall, cpu = time.perf_counter(), time.process_time()
        if exact:
            reduce_values(given, 1, wire)
        else:
            dist.all_reduce(given)
        steps.append({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "exact": exact})
    return steps


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--elements", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", required=True, help="what each rank measured: OUT.RANK.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    measured = measure(options.elements, options.repeats)
    rank = dist.get_rank()
    dist.barrier()
    dist.destroy_process_group()
    Path(f"{options.out}.{rank}.json").write_text(json.dumps(measured))
