"""What a script runs in: `run` starts this file by itself, it takes the script from stdin, and imports nothing of ours.

It sets limits on processor time, memory, files and the clock, and ends the process where the script writes to the
disk, opens a socket, starts a process or leaves Python. It guards against accidents. It is no sandbox: a script written
to get out, gets out.
"""
# Every script pays for what is imported here: these four are in the interpreter, or as good as.

import _signal  # type: ignore[import-not-found]
import posix
import resource
import sys

REFUSED = 86
"""The exit code of a script that was ended here; its last line on stderr says why, and begins with `SUBJECT`."""
SUBJECT = "the script"

_WRITING = posix.O_WRONLY | posix.O_RDWR | posix.O_CREAT | posix.O_TRUNC | posix.O_APPEND
_OPEN_FILES = 32
_DISK = "chflags chmod chown link lockf mkdir remove removexattr rename rmdir setxattr symlink truncate utime"
_PROCESS = "exec fork forkpty kill killpg posix_spawn spawn startfile system"
_SILENT = "mkfifo", "mknod"  # the calls that write and raise no audit event
_SHARED = "_multiprocessing", "_posixshmem"  # whose files stand in /dev/shm
_KINDS = {
    **dict.fromkeys((f"os.{name}" for name in _DISK.split()), "writes to the disk"),
    **dict.fromkeys((f"os.{name}" for name in _PROCESS.split()), "starts or signals a process"),
    "shutil": "writes to the disk",
    "sqlite3": "writes to the disk",
    "tempfile": "writes to the disk",
    "pty": "starts or signals a process",
    "subprocess": "starts or signals a process",
    "signal": "starts or signals a process",
    "socket": "opens a socket",
    "ctypes": "leaves Python",
    "resource": "changes its limits",
}


def _watch(event: str, args: tuple[object, ...]) -> None:
    """Ends the process at an audit event that a script has no business with."""
    if event == "open":
        if isinstance((flags := args[2]), int) and flags & _WRITING:
            _end("writes to the disk", event, args)
        return
    if event == "import" and args[0] in _SHARED:
        _end("writes to the disk", event, args)
    kind = _KINDS.get(event) or _KINDS.get(event.partition(".")[0])
    if kind:
        _end(kind, event, args)


def _end(kind: str, event: str, args: tuple[object, ...]) -> None:
    shown = repr(args[0])[:100] if args and isinstance(args[0], str | bytes | int) else ""
    posix.write(2, f"\n{SUBJECT} {kind}: {event}({shown})\n".encode())
    posix._exit(REFUSED)


def _refusing(name: str) -> object:
    """Returns what stands in for a call of `posix`, and ends the process."""
    return lambda *args, **_named: _end("writes to the disk", f"os.{name}", args)


def _limit(kind: int, amount: int) -> None:
    try:  # noqa: SIM105 - contextlib would be one more import
        resource.setrlimit(kind, (amount, amount))
    except (ValueError, OSError):
        pass  # not every system has every limit; whoever started this process watches its clock and output besides


def main() -> None:
    """Runs the script that stdin holds, as `__main__`; its tracebacks don't show this file."""
    seconds, memory_bytes = int(sys.argv[1]), int(sys.argv[2])
    del sys.path[0], sys.modules["guard"]  # by which `run` found this file
    source = sys.stdin.read()
    _signal.alarm(seconds)  # ends a sleeping script even where the one who started it is gone
    _limit(resource.RLIMIT_CPU, seconds)
    _limit(resource.RLIMIT_AS, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, 0)
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)
    _limit(resource.RLIMIT_CORE, 0)
    script = type(sys)("__main__")
    sys.modules["__main__"], sys.argv = script, ["script.py"]
    for name in _SILENT:
        setattr(posix, name, _refusing(name))
    sys.addaudithook(_watch)
    try:
        exec(compile(source, "script.py", "exec", dont_inherit=True), script.__dict__)  # noqa: S102
    except Exception as error:  # noqa: BLE001
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
