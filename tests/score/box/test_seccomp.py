"""The filters decide as the kernel will: read back by a small interpreter, and tried on the kernel itself."""

from __future__ import annotations

import ctypes
import ctypes.util
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from failuremap.score.box import program, seccomp, syscalls
from failuremap.score.limits import Limits
from failuremap.score.wire import write_line

ALLOW, EPERM, ENOSYS, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
MACHINES = sorted(syscalls.ARCHITECTURES)
DENIED = {machine: syscalls.numbers(syscalls.DENIED, machine) for machine in MACHINES}
ALLOWED = {machine: syscalls.numbers(syscalls.ALLOWED, machine) for machine in MACHINES}


def decide(text: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Runs a filter on one call."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    at = loaded = 0
    while True:
        code, if_true, if_false, operand = struct.unpack_from("<HBBI", text, at * 8)
        at += 1
        if code == 0x06:
            return operand
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, operand)
            continue
        test = {0x15: loaded == operand, 0x25: loaded > operand, 0x45: bool(loaded & operand)}[code]
        at += if_true if test else if_false


def on(machine: str, text: bytes, number: int, *arguments: int) -> int:
    return decide(text, syscalls.ARCHITECTURES[machine], number, *arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_first_filter_denies_its_list_and_what_is_newer_and_nothing_else(machine):
    text = seccomp.denying_filter(machine)
    expected = dict.fromkeys(range(600), ALLOW) | dict.fromkeys(range(syscalls.NEWEST + 1, 600), ENOSYS)

    assert {number: on(machine, text, number) for number in range(600)} == expected | dict.fromkeys(
        DENIED[machine].values(), EPERM
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_the_second_filter_allows_its_list_and_nothing_else(machine):
    text = seccomp.allowing_filter(machine)
    calls = ALLOWED[machine]
    # write to 1; all others are allowed with arguments of 0.
    decided = {number: on(machine, text, number, int(number == calls["write"])) for number in range(600)}

    assert decided == dict.fromkeys(range(600), EPERM) | dict.fromkeys(calls.values(), ALLOW)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("call", "arguments", "decision"),
    [
        ("read", (0,), ALLOW),
        ("read", (1,), EPERM),
        ("read", (3,), EPERM),
        ("write", (1,), ALLOW),
        ("write", (0,), EPERM),
        ("write", (2,), EPERM),
        ("mmap", (0, 4096, 3), ALLOW),
        ("mmap", (0, 4096, 7), EPERM),
        ("mprotect", (0, 4096, 4), EPERM),
        ("exit_group", (0,), ALLOW),
        ("exit_group", (128,), ALLOW),
        ("exit_group", (137,), EPERM),
        ("exit_group", (0xFFFFFFFF,), EPERM),
    ],
)
def test_the_second_filter_looks_at_arguments(machine, call, arguments, decision):
    assert on(machine, seccomp.allowing_filter(machine), ALLOWED[machine][call], *arguments) == decision


@pytest.mark.parametrize("make", [seccomp.denying_filter, seccomp.allowing_filter])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_of_another_architecture_end_the_process(machine, make):
    i386 = 0x40000003

    assert decide(make(machine), i386, ALLOWED[machine]["brk"]) == KILL


@pytest.mark.parametrize("make", [seccomp.denying_filter, seccomp.allowing_filter])
def test_the_other_numbers_of_x86_64_are_not_allowed(make):
    x32 = 0x40000000

    assert on("x86_64", make("x86_64"), x32 | ALLOWED["x86_64"]["brk"]) in (EPERM, ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_filter_fits_into_what_the_kernel_takes(machine):
    assert max(len(seccomp.denying_filter(machine)), len(seccomp.allowing_filter(machine))) // 8 <= 4096


def test_no_call_is_both_denied_and_allowed():
    assert {machine: DENIED[machine].keys() & ALLOWED[machine].keys() for machine in MACHINES} == {
        machine: set() for machine in MACHINES
    }


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_libseccomp(machine):
    if not (path := ctypes.util.find_library("seccomp")):
        pytest.skip("libseccomp is absent; it is the reference for the numbers")
    resolve = ctypes.CDLL(path).seccomp_syscall_resolve_name_arch
    resolve.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    names = [entry.split(":")[0] for entry in f"{syscalls.DENIED} {syscalls.ALLOWED}".split()]
    theirs = {name: resolve(syscalls.ARCHITECTURES[machine], name.encode()) for name in names}

    assert DENIED[machine] | ALLOWED[machine] == {name: number for name, number in theirs.items() if number >= 0}


def test_the_kernel_runs_the_second_filter(tmp_path):
    if (machine := seccomp.this_machine()) is None:
        pytest.skip("filters are for Linux on x86_64 and aarch64")
    source = f"import posix\ndef solve(rows): return posix.open({str(tmp_path / 'x')!r}, posix.O_CREAT)"
    lines = [write_line(["1", *program.setup(source, Limits(), seccomp.allowing_filter(machine))])]
    lines += [write_line(["2", source]), write_line(["3", "call", None])]

    answers = subprocess.run(
        program.python_command(sys.executable), input=b"".join([program.first_line(), *lines]), capture_output=True
    )

    assert answers.stdout.splitlines()[-1] == b'["3","stop","raised","PermissionError"]'
    assert list(tmp_path.iterdir()) == []


def test_the_worker_runs_under_a_filter_that_it_cannot_take_off():
    if (machine := seccomp.this_machine()) is None:
        pytest.skip("filters are for Linux on x86_64 and aarch64")
    with subprocess.Popen(
        program.python_command(sys.executable), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        worker.stdin.write(program.first_line())
        worker.stdin.write(write_line(["1", *program.setup("", Limits(), seccomp.allowing_filter(machine))]))
        worker.stdin.flush()
        worker.stdout.readline()
        status = Path(f"/proc/{worker.pid}/status").read_text(encoding="ascii").split("\n")
        worker.stdin.close()

    assert {"NoNewPrivs:\t1", "Seccomp:\t2"} <= set(status)
