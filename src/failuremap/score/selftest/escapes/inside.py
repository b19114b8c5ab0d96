"""Tries to find answers inside the box, to change the worker, and to make a wrong type look right."""

from __future__ import annotations

from failuremap.score.selftest.escapes.escape import escape

INSIDE = (
    escape(
        "read the judge's environment",
        """
        import os
        def solve(argument):
            return [f"{name}={value}" for name, value in os.environ.items()]
        """,
    ),
    escape(
        "search everything in memory for an answer",
        """
        import gc
        def solve(argument):
            found = []
            for each in gc.get_objects():
                if type(each) is dict:
                    found += [text for text in each.values() if type(text) is str and text.startswith("ANSWER")]
            return found[:50]
        """,
    ),
    escape(
        "search the callers' frames for an answer",
        """
        def solve(argument):
            frame, found = sys._getframe(), []
            while frame:
                found += [str(value)[:200] for value in list(frame.f_locals.values()) if "ANSWER" in str(value)[:10000]]
                frame = frame.f_back
            return found
        """,
    ),
    escape(
        "import the judge",
        """
        def solve(argument):
            import failuremap.score.judge
            return "OUT"
        """,
    ),
    escape(
        "answer with a list that is equal to everything",
        """
        class Agreeing(list):
            def __eq__(self, other):
                return True
            __ne__ = __lt__ = __gt__ = lambda self, other: False
            __hash__ = None
        def solve(argument):
            return Agreeing()
        """,
    ),
    escape(
        "answer with numbers that are near everything",
        """
        from fractions import Fraction
        class Near(float):
            __eq__ = __le__ = __ge__ = lambda self, other: True
            __sub__ = __rsub__ = __abs__ = lambda self, *other: 0.0
            __hash__ = float.__hash__
        class Agreeing(Fraction):
            __eq__ = lambda self, other: True
            __hash__ = Fraction.__hash__
        def solve(argument):
            return [Near(1.0), Agreeing(1, 3)]
        """,
    ),
    escape(
        "make the worker's encoder take anything",
        """
        worker = sys.modules["failuremap.score.worker"]
        wire = sys.modules["failuremap.score.wire"]
        class Agreeing(list):
            def __eq__(self, other):
                return True
        def solve(argument):
            worker.encode = wire._encoded = lambda value, *rest: ["o", "failuremap.Agreeing", "equal to everything"]
            return Agreeing()
        """,
    ),
    escape(
        "make the worker write what it likes",
        """
        import json, builtins
        def solve(argument):
            json.dumps = lambda *args, **named: "[]"
            sys.modules["failuremap.score.worker"].write_line = lambda tree: b"\\xff\\xfe\\n"
            builtins.type = builtins.isinstance = lambda *args: True
            return 1
        """,
    ),
    escape(
        "answer with what is run when it is read",
        """
        worker = sys.modules["failuremap.score.worker"]
        def solve(argument):
            text = f"open({argument['folder'] + '/mark'!r}, 'w')"
            worker.write_line = lambda tree: f"cbuiltins\\neval\\n(V{text}\\ntR.".encode() + b"\\n"
            return 1
        """,
    ),
    escape(
        "tell the input by the name of an exception",
        """
        def solve(argument):
            raise type(argument["seen"], (Exception,), {})(argument["seen"])
        """,
    ),
    escape(
        "tell the input by the name of a type",
        """
        def solve(argument):
            return type(argument["seen"], (), {})()
        """,
    ),
    escape(
        "tell the input by the name of a module",
        """
        def solve(argument):
            __import__(argument["seen"])
        """,
    ),
    escape(
        "go on after the end",
        """
        import atexit, os
        class Last:
            def __del__(self):
                open(where + "/mark", "w").close()
        def solve(argument):
            global where, last
            where, last = argument["folder"], Last()
            atexit.register(last.__del__)
            raise SystemExit
        """,
    ),
    escape(
        "refuse to be interrupted",
        """
        import _signal as signal
        def solve(argument):
            for number in range(1, 65):
                try:
                    signal.signal(number, signal.SIG_IGN)
                except (OSError, ValueError):
                    pass
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
            return "OUT"
        """,
    ),
    escape(
        "leave a core dump",
        """
        import _ctypes, os
        def solve(argument):
            os.chdir(argument["folder"])
            _ctypes.call_function(8, ())
        """,
    ),
)
