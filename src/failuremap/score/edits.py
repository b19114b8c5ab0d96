"""The changes of one node of a syntax tree that make a mutant: name -> what stands there instead."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Edit = tuple[str, ast.AST]

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.GtE),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.LtE),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div, ast.Add),
    ast.Div: (ast.Mult, ast.FloorDiv),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.FloorDiv,),
}
_CALLED = {
    "sum": ("max", "len", "min"),
    "fsum": ("max",),
    "max": ("min",),
    "min": ("max",),
    "any": ("all",),
    "all": ("any",),
    "abs": ("",),
    "sorted": ("list",),
    "round": ("int",),
    "sqrt": ("",),
}


def edits_of(node: ast.AST, holder: ast.AST) -> list[Edit]:
    """Lists the changes of one node; the node itself stays as it is.

    Args:
        node: The node.
        holder: The one that it stands in, which names the change of a number.

    Example:
        >>> half = ast.parse("n / 2", mode="eval")
        >>> [name for name, _ in edits_of(half.body, half)]
        ['n / 2 -> n * 2', 'n / 2 -> n // 2', 'n / 2 -> n', 'n / 2 -> 2']
        >>> [name for name, _ in edits_of(half.body.right, half.body)]
        ['n / 2: 2 -> 3', 'n / 2: 2 -> 1']
    """
    if isinstance(holder, ast.keyword) and holder.arg == "strict":
        return []  # zip's: where a contract wants lists of one length, it never matters
    where = f"{_shown(holder)}: " if isinstance(node, ast.Constant) else ""
    makers = [make for kind, make in _MAKERS.items() if isinstance(node, kind)]
    found = [new for make in makers for new in make(node)]
    return [(f"{where}{_shown(node)} -> {_shown(new)}", new) for new in found]


def _comparisons(node: ast.Compare) -> Iterator[ast.AST]:
    for kind in _COMPARISONS[type(node.ops[0])]:
        yield ast.Compare(node.left, [kind(), *node.ops[1:]], node.comparators)


def _arithmetic(node: ast.BinOp) -> Iterator[ast.AST]:
    for kind in _ARITHMETIC.get(type(node.op), ()):
        yield ast.BinOp(node.left, kind(), node.right)
    yield node.left
    yield node.right


def _constants(node: ast.Constant) -> Iterator[ast.AST]:
    if isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
        yield ast.Constant(node.value - 1)


def _booleans(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    yield from node.values


def _unary(node: ast.UnaryOp) -> Iterator[ast.AST]:
    yield node.operand


def _choices(node: ast.IfExp) -> Iterator[ast.AST]:
    yield node.body
    yield node.orelse
    yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)


def _branches(node: ast.If) -> Iterator[ast.AST]:
    yield ast.Pass()
    yield ast.If(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    yield ast.If(ast.Constant(True), node.body, node.orelse)


def _filters(node: ast.comprehension) -> Iterator[ast.AST]:
    for place in range(len(node.ifs)):
        yield ast.comprehension(node.target, node.iter, node.ifs[:place] + node.ifs[place + 1 :], 0)
    yield ast.comprehension(node.target, _sliced(node.iter, ast.Constant(1), None), node.ifs, 0)
    yield ast.comprehension(node.target, _sliced(node.iter, None, ast.Constant(3)), node.ifs, 0)


def _calls(node: ast.Call) -> Iterator[ast.AST]:
    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
    for other in _CALLED.get(name, ()):
        yield ast.Call(ast.Name(other), node.args, []) if other else node.args[0]
    if name == "len":
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))
        yield ast.Call(ast.Name("max"), [ast.BinOp(node, ast.Sub(), ast.Constant(1)), ast.Constant(1)], [])
    if name in ("sum", "fsum", "max", "min"):
        yield ast.Call(node.func, [_sliced(node.args[0], ast.Constant(1), None)], node.keywords)
    if name == "range":
        yield ast.Call(node.func, [*node.args[:-1], ast.BinOp(node.args[-1], ast.Sub(), ast.Constant(1))], [])


def _subscripts(node: ast.Subscript) -> Iterator[ast.AST]:
    if isinstance(node.slice, ast.Slice):
        yield node.value


def _statements(_node: ast.AST) -> Iterator[ast.AST]:
    yield ast.Pass()


def _augmented(node: ast.AugAssign) -> Iterator[ast.AST]:
    yield ast.Pass()
    yield ast.Assign([node.target], node.value)
    for kind in _ARITHMETIC.get(type(node.op), ()):
        yield ast.AugAssign(node.target, kind(), node.value)


def _sliced(items: ast.expr, lower: ast.expr | None, upper: ast.expr | None) -> ast.expr:
    whole = ast.Call(ast.Name("list"), [items], [])
    return ast.Subscript(whole, ast.Slice(lower, upper))


_MAKERS: dict[type[ast.AST], Callable[..., Iterator[ast.AST]]] = {
    ast.Compare: _comparisons,
    ast.BinOp: _arithmetic,
    ast.Constant: _constants,
    ast.BoolOp: _booleans,
    ast.UnaryOp: _unary,
    ast.IfExp: _choices,
    ast.If: _branches,
    ast.comprehension: _filters,
    ast.Call: _calls,
    ast.Subscript: _subscripts,
    ast.Assign: _statements,
    ast.Expr: _statements,
    ast.AugAssign: _augmented,
}


def _shown(node: ast.AST) -> str:
    """Returns a node on one line, cut where it is long."""
    text = " ".join(ast.unparse(ast.fix_missing_locations(node)).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
