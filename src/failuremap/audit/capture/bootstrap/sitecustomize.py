"""Calls `failuremap.audit.capture.install()` after torch is imported, in a process started by an audit.

Python runs a `sitecustomize` at start-up; the audit puts this folder first on PYTHONPATH, so that the script stays as
it is and its child processes are seen too. The folder leaves sys.path again, and the sitecustomize that it hid is run.

Any Python that the script starts reads this file, so its syntax is old on purpose (no annotations), and it imports
next to nothing.
"""

# mypy: ignore-errors
# ruff: noqa: UP031

import atexit
import os
import sys
from importlib.machinery import PathFinder

_HERE = os.path.dirname(os.path.realpath(__file__))
_SOURCE = os.path.abspath(os.path.join(_HERE, os.pardir, os.pardir, os.pardir, os.pardir))


class _AfterTorch:
    """Finds torch as the other finders do, and starts the capture once torch has been executed."""

    def __init__(self):
        self.installed = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.installed:
            return None
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            spec = None if finder is self or find_spec is None else find_spec(name, path, target)
            if spec is not None:
                self.watch(spec.loader)
                return spec
        return None

    def watch(self, loader):
        """Replace `exec_module` on this one loader object: its type, which tools look at, stays."""
        execute = getattr(loader, "exec_module", None)
        if execute is None:
            return

        def exec_module(module):
            del loader.exec_module
            execute(module)
            self.install()

        loader.exec_module = exec_module

    def install(self):
        """Start the capture once; whatever goes wrong in it is one line on stderr, never the script's problem."""
        if self.installed:
            return
        self.installed = True
        try:
            _make_importable()
            from failuremap.audit import capture

            capture.install()
        except Exception as error:
            _say("%s: %s" % (type(error).__name__, error))


def _say(why):
    """Tell the person who watches, and leave a file for the verdict to read."""
    sys.stderr.write("failuremap: capture did not start: %s\n" % why)
    _leave(why)


def _leave(why):
    """Leave a file for the verdict to read where no trace is."""
    try:
        with open(os.path.join(os.environ["FAILUREMAP_TRACE_DIR"], "not-started-%d.txt" % os.getpid()), "w") as file:
            file.write(why)
    except OSError:
        pass


def _make_importable():
    """Append failuremap's folder to sys.path if it isn't found; last, so that it hides nothing of the script's."""
    spec = PathFinder.find_spec("failuremap")
    if spec is None or spec.origin is None:
        sys.path.append(_SOURCE)


def _at_exit():
    """Say why nothing was seen of a JAX script without the two lines: nothing of JAX can be watched from outside."""
    if "jax" in sys.modules and "failuremap.audit.capture.jax.jax_recorder" not in sys.modules:
        _leave("of JAX only the two lines of failuremap.audit.jax are heard, and the script has neither")


def _start_capture():
    atexit.register(_at_exit)
    finder = _AfterTorch()
    if "torch" in sys.modules:
        finder.install()
    else:
        sys.meta_path.insert(0, finder)


def _run_hidden_sitecustomize():
    """Leave sys.path and run the sitecustomize that this one hid, as Python would: its errors are its own."""
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != _HERE]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is None or spec.loader is None:
        return
    from importlib.util import module_from_spec

    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("FAILUREMAP_TRACE_DIR"):
    _start_capture()
_run_hidden_sitecustomize()
