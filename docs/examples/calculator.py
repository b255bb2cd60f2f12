"""A calculator that walks the syntax tree, runs no code, and shows its working."""

from __future__ import annotations

import ast
import cmath
import operator
from typing import Any

from advisorchain import ToolError, tool

OPERATORS: dict[type[ast.AST], tuple[str, Any]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.Div: ("/", operator.truediv),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.Pow: ("**", operator.pow),
}
FUNCTIONS: dict[str, Any] = {
    "sqrt": cmath.sqrt,
    "exp": cmath.exp,
    "log": cmath.log,
    "sin": cmath.sin,
    "cos": cmath.cos,
    "abs": abs,
}
CONSTANTS = {"pi": cmath.pi, "e": cmath.e, "i": 1j}
MAX_CHARACTERS = 500
MAX_BITS = 10_000  # of an integer power: 9**9**9 would keep the machine busy for hours


@tool(return_direct=True, read_only=True)
def calculate(expression: str) -> str:
    """Calculate an arithmetic expression and show every step.

    Args:
        expression: numbers (complex: 3+4j), + - * / // % **, parentheses, pi, e, i,
            sqrt(), exp(), log(), sin(), cos(), abs().
    """
    if len(expression) > MAX_CHARACTERS:
        raise ToolError(
            f"The expression has {len(expression)} characters; "
            f"at most {MAX_CHARACTERS} are allowed."
        )
    steps: list[str] = []
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body, steps)
    except SyntaxError as error:
        raise ToolError(
            f"{expression!r} is not an arithmetic expression: {error.msg}."
        ) from None
    except (ArithmeticError, ValueError, TypeError) as error:
        raise ToolError(f"{expression!r} has no value: {error}.") from None
    return "\n".join(steps or [_text(value)])


def _value(node: ast.expr, steps: list[str]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | complex() as value) if not isinstance(
            value, bool
        ):
            return value
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, steps)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, steps)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            a, b = _value(left, steps), _value(right, steps)
            if (
                isinstance(op, ast.Pow)
                and isinstance(a, int)
                and isinstance(b, int)
                and a.bit_length() * b > MAX_BITS
            ):
                raise ToolError(f"{_text(a)} ** {_text(b)} is too large.")
            sign, function = OPERATORS[type(op)]
            result = function(a, b)
            steps.append(f"{_text(a)} {sign} {_text(b)} = {_text(result)}")
            return result
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if (
            name in FUNCTIONS
        ):
            a = _value(argument, steps)
            result = FUNCTIONS[name](a)
            steps.append(f"{name}({_text(a)}) = {_text(result)}")
            return result
        case _:
            raise ToolError(
                f"{ast.unparse(node)!r} is not allowed in an arithmetic expression."
            )


def _text(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) or value.imag == 0:
        return f"{value.real:.12g}"
    imaginary = f"{value.imag:.12g}j"
    return (
        imaginary
        if value.real == 0
        else f"({value.real:.12g}{'' if value.imag < 0 else '+'}{imaginary})"
    )
