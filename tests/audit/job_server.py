"""A process that has imported torch once and forks the ranks of a job: about a second a job instead of ten.

What else it should import stands on its command line.

Reads one request a line (JSON) on its standard input and answers each with one line on its standard output.
It must never run a tensor operation itself: a fork of a process with a thread pool hangs.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any

FIRST_PORT, LAST_PORT = 12_000, 32_000  # below the range from which the kernel gives out ports
GRACE_SECONDS = 5.0  # what the other ranks get after one failed
_kept: list[object] = []


def serve() -> None:
    """Answer requests until the standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    _import_torch()
    gc.collect()
    gc.freeze()
    answers.write("ready\n")
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()


def _import_torch() -> None:
    import torch
    import torch._dynamo
    import torch.distributed.algorithms.ddp_comm_hooks.default_hooks
    import torch.distributed.fsdp
    import torch.distributed.optim
    import torch.distributed.tensor.parallel
    import torch.utils.checkpoint
    import torch.utils.data  # noqa: F401

    for name in sys.argv[1:]:
        importlib.import_module(name)
    threads = len(os.listdir("/proc/self/task"))
    assert threads == 1, f"importing torch left {threads} threads; ranks cannot be forked"


def _run(request: dict[str, Any]) -> dict[str, Any]:
    if request["trace_dir"]:
        import failuremap.audit.capture  # noqa: F401  once here, not in every rank
    started = time.monotonic()
    port = _free_port()
    pids = [_fork_rank(request, rank, port) for rank in range(request["nproc"] or 1)]
    codes = _wait(pids, started + request["timeout"])
    return {"exit_codes": [codes[pid] for pid in pids], "seconds": time.monotonic() - started}


def _free_port() -> int:
    span = LAST_PORT - FIRST_PORT
    first = (os.getpid() * 131 + time.monotonic_ns() // 1000) % span
    for offset in range(span):
        port = FIRST_PORT + (first + offset) % span
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port")


def _wait(pids: list[int], deadline: float) -> dict[int, int | None]:
    """Exit codes by pid; negative for a signal, None for a rank that was killed because its time was up."""
    codes: dict[int, int | None] = {}
    while len(codes) < len(pids) and time.monotonic() < deadline:
        for pid in set(pids) - set(codes):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                codes[pid] = os.waitstatus_to_exitcode(status)
                if codes[pid] != 0:
                    deadline = min(deadline, time.monotonic() + GRACE_SECONDS)
        time.sleep(0.003)
    for pid in pids:
        _kill_group(pid)
    for pid in set(pids) - set(codes):
        os.waitpid(pid, 0)
        codes[pid] = None
    return codes


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _fork_rank(request: dict[str, Any], rank: int, port: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)
    code = 1
    try:
        _enter(request, rank, port)
        code = _run_script(request)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _enter(request: dict[str, Any], rank: int, port: int) -> None:
    """Make this fork look like a rank that a launcher has started."""
    output = os.open(str(Path(request["output_dir"]) / f"rank{rank}.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    if request["nproc"] is not None:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        os.environ.update(WORLD_SIZE=str(request["nproc"]), LOCAL_WORLD_SIZE=str(request["nproc"]))
    os.environ.update(GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    os.environ.update(request["env"])
    os.chdir(request["output_dir"])
    sys.argv = [request["script"], *request["args"]]
    sys.path[0] = str(Path(request["script"]).parent)


def _run_script(request: dict[str, Any]) -> int:
    finish = _install_capture(request)
    try:
        _keep_wrappers()
        _kept.append(runpy.run_path(request["script"], run_name="__main__"))
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        finish()


def _keep_wrappers() -> None:
    """Let DDP's wrappers live to the end: one that is freed after its process group hangs now and then."""
    if "torch" not in sys.modules:
        return
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    destroy = dist.destroy_process_group

    @functools.wraps(destroy)
    def destroy_process_group(*args: Any, **options: Any) -> None:
        _kept.extend(each for each in gc.get_objects() if issubclass(type(each), DistributedDataParallel))
        destroy(*args, **options)

    dist.destroy_process_group = destroy_process_group


def _install_capture(request: dict[str, Any]) -> Any:
    """Start the audit of this rank and of the processes that it starts; the return value ends it."""
    if not request["trace_dir"]:
        return lambda: None
    from failuremap.audit import capture
    from failuremap.audit.capture import sampling
    from failuremap.audit.launch.job import BOOTSTRAP

    os.environ["PYTHONPATH"] = os.pathsep.join([str(BOOTSTRAP), os.environ["PYTHONPATH"]])
    os.environ["FAILUREMAP_TRACE_DIR"] = request["trace_dir"]
    os.environ["FAILUREMAP_RUN_ID"] = request["run_id"]
    os.environ.setdefault("FAILUREMAP_EVERY", "1")
    if first := os.environ.get("TESTS_FIRST_WINDOWS"):  # jobs of a few steps, read in part from early on
        sampling.FIRST = int(first)
    capture.install()
    return _finish


def _finish() -> None:
    """End the traces, as the end of a process does, which a fork of the server never reaches."""
    from failuremap.audit import capture

    capture.finish()
    if "jax" in sys.modules:
        from failuremap.audit.capture.jax import jax_recorder

        jax_recorder.finish()


if __name__ == "__main__":
    serve()
