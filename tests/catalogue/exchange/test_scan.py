"""What a stranger's script may use: modules that compute, and nothing behind which a file or a process may stand."""

from __future__ import annotations

import pytest

from failuremap.catalogue import STAGES, mechanisms, render
from failuremap.catalogue.exchange.scan import PURE_MODULES, refusal
from failuremap.catalogue.run import run

WITH_CODE = [entry for entry in mechanisms().values() if entry.stages]


@pytest.mark.parametrize("entry", WITH_CODE, ids=lambda entry: entry.slug)
def test_our_own_scripts_may_be_run(entry):
    assert {stage: refusal(render(entry, stage)) for stage in STAGES} == dict.fromkeys(STAGES, "")


@pytest.mark.parametrize(
    "source",
    [
        "import json, math\nfrom fractions import Fraction\nprint(json.dumps(math.pi))\n",
        "from math import *\nsqrt(2)\n",
        "import random\nrandom.Random(1).random()\n",
        "x = {1: 2}.copy()\n",
        "if __name__ == '__main__':\n    print(1)\n",
        "class A:\n    def __init__(self): self.value = 1\nA().value\n",
        "while True:\n    pass\n",
        "match [1]:\n    case [int(), *rest]: pass\n    case A(value=1): pass\n",
    ],
)
def test_what_computes_is_let_through(source):
    assert refusal(source) == ""


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("import os", "line 1: import of 'os', which is none of the pure modules that a script may use"),
        ("import os.path", "line 1: import of 'os.path'"),
        ("import numpy", "line 1: import of 'numpy'"),
        ("import json.decoder", "line 1: import of 'json.decoder'"),
        ("from . import a", "line 1: import of '.'"),
        ("from subprocess import run", "line 1: import of 'subprocess'"),
        ("from json import codecs", "line 1: import of 'codecs' from 'json', which is no public name"),
        ("from random import _os", "line 1: import of '_os' from 'random'"),
        ("from operator import attrgetter", "line 1: import of 'attrgetter' from 'operator'"),
        ("from operator import *\nattrgetter('a')", "line 2: the name 'attrgetter', which leads out of the script"),
        ("import json as j\nj.codecs.open('a')", "line 2: the attribute 'codecs'"),
        ("\n\nopen('a')", "line 3: the name 'open'"),
        ("eval('1')", "line 1: the name 'eval'"),
        ("__import__('os')", "line 1: the name '__import__'"),
        ("__builtins__", "line 1: the name '__builtins__'"),
        ("getattr(1, 'a')", "line 1: the name 'getattr'"),
        ("().__class__", "line 1: the attribute '__class__'"),
        ("(x for x in ()).gi_frame", "line 1: the attribute 'gi_frame'"),
        ("def f(e): e.tb_frame", "line 1: the attribute 'tb_frame'"),
        ("match 1:\n    case object(gi_frame=f): pass", "line 2: the attribute 'gi_frame'"),
        ("match 1:\n    case A(b): pass", "line 2: a class pattern with parts that have no name"),
        ("import functools\nfunctools.wraps(f, ('a',))", "line 2: the attribute 'wraps'"),
        ("import functools\nfunctools.update_wrapper(f, g)", "line 2: the attribute 'update_wrapper'"),
        ("from functools import singledispatch", "line 1: import of 'singledispatch' from 'functools'"),
        ("from functools import *\n@singledispatch\ndef f(x): pass", "line 2: the name 'singledispatch'"),
        ("def f(", "it is no Python: "),
        ("x = '\0'", "it is no Python: "),
        ("x = " + "(" * 3000 + ")" * 3000, "it is no Python: "),
    ],
)
def test_what_leads_out_is_refused_by_its_line(source, problem):
    assert refusal(source).startswith(problem)


def test_the_first_of_several_is_named():
    assert refusal("x = 1\nimport os\nimport sys\n").startswith("line 2: ")


@pytest.mark.parametrize("module", PURE_MODULES)
def test_a_pure_module_is_imported_in_the_guarded_interpreter(module):
    assert run(f"import {module}").exit_code == 0
