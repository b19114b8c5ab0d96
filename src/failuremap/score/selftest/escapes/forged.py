"""Tries to speak to the judge in the worker's place.

A candidate may well write its answer itself: that is answering. It is out when it answers what it has not been asked.
"""

from __future__ import annotations

import textwrap

from failuremap.score.selftest.escapes.escape import Escape, escape

_NUMBER = '''
import json, os
def number():
    """Returns the number of the line that is being answered."""
    frame = sys._getframe()
    while type(frame.f_locals.get("number")) is not str:
        frame = frame.f_back
    return frame.f_locals["number"]

def forge(*tree):
    os.write(1, json.dumps(tree).encode() + b"\\n")
'''


def _forging(name: str, body: str) -> Escape:
    return escape(name, _NUMBER + textwrap.dedent(body))


FORGED = (
    escape(
        "print an answer",
        """
        import json
        def solve(argument):
            for stream in (sys.stdout, sys.__stdout__, sys.stderr):
                print(json.dumps(["0" * 32, "value", "OUT", None, True]), file=stream, flush=True)
            return 1
        """,
    ),
    _forging(
        "answer the next line before it is read",
        """
        def solve(argument):
            forge(number(), "value", 1, None, True)
            forge(number(), "value", "OUT", None, True)
            return 1
        """,
    ),
    _forging(
        "answer every line to come",
        """
        def solve(argument):
            forge(number(), "value", 1, None, True)
            for guess in range(1000):
                forge(f"{guess:032x}", "value", "OUT", None, True)
            os._exit(0)
        """,
    ),
    _forging(
        "answer while being loaded",
        """
        forge(number(), "loaded")
        forge(number(), "value", "OUT", None, True)
        def solve(argument):
            return 1
        """,
    ),
    _forging(
        "say that the judge has failed",
        """
        def solve(argument):
            forge(number(), "stop", "judge-error", "the judge")
            os._exit(0)
        """,
    ),
    escape(
        "end as if killed from outside",
        """
        import os
        def solve(argument):
            os._exit(137)
        """,
    ),
    escape(
        "end as if the box had never started",
        """
        import os
        os.close(1)
        os._exit(1)
        """,
    ),
    _forging(
        "answer in a form that costs the judge its stack",
        """
        def solve(argument):
            os.write(1, b"[" * 1_000_000 + b"\\n")
            return 1
        """,
    ),
    _forging(
        "answer with numbers that JSON lacks",
        """
        def solve(argument):
            os.write(1, f'["{number()}","value",NaN,1e999]\\n'.encode())
            return 1
        """,
    ),
    _forging(
        "answer with a number that takes hours to read",
        """
        def solve(argument):
            os.write(1, f'["{number()}","value",{"9" * 1_000_000},null]\\n'.encode())
            return 1
        """,
    ),
    _forging(
        "answer with a dict of keys that all collide",
        """
        def solve(argument):
            entries = [[["i", hex(n * (2**61 - 1))], 0] for n in range(1, 20000)]
            forge(number(), "value", ["d", *entries], None, True)
            return 1
        """,
    ),
    escape(
        "answer without an end of line",
        """
        import os
        def solve(argument):
            while True:
                os.write(1, b"x" * 65536)
        """,
    ),
    escape(
        "read the next input before answering",
        """
        import os
        def solve(argument):
            os.set_blocking(0, False)
            try:
                os.read(0, 65536)
                return "OUT"
            except BlockingIOError:
                return "nothing there"
        """,
    ),
)
