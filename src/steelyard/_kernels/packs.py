"""Packs: eight float64 in one value, so that code written for one sample runs on eight samples at a time (SIMD).

What. A pack is a Numba type whose machine representation is the LLVM vector <8 x double>. Each of its eight lanes
is a separate sample. LLVM maps it to the available registers: one of AVX-512, two of AVX2, four of SSE2 or NEON.

Why. LLVM turns a loop over lanes into vector instructions only where it can prove that no two rows of a workspace
overlap. A sparse elimination finds its rows through index tables, for which this cannot be proven; a pack needs no
proof, because it is a vector by its type.

Operations, for both packs and floats:

    + - * /, unary -, += -= *=     lane by lane; a float with a pack applies to all lanes
    root(x), with_sign(x, sign)    √x; |x| with the sign of `sign`
    smaller(x, y), larger(x, y)    y where either is NaN
    load(like, array, offset)      the value, as wide as `like`, that starts at array[offset]
    store(array, offset, value)    the reverse
    spread(x)                      a pack with the float x in all lanes
    width(like)                    8 or 1, a constant at compile time

How. A function takes a zero `like` as first argument: 0.0 compiles its scalar version, `spread(0.0)` the one for eight
samples, from the same source. Workspaces are flat: quantity k starts at array[k * width(like)], its lanes contiguous.

Who. The kernels of loops (`loops/`): `constraints`, `elimination`, `posture` and `tracking` are written once for both
widths; `newton.close` processes eight stretches of a log in packs, `newton.close_one` one posture with floats, for
simulation.

Limits.
- Packs exist in compiled code only: they cannot be passed to or from Python, nor stored in arrays.
- Other operands are float64: write 2.0 * x, not 2 * x. There is no power, no absolute value, no sine: compute these
  number by number in a flat array and load them.
- No comparison and no branch: all lanes compute until the slowest is done. The results of a finished or idle lane must
  be harmless and are not read.
- `load` and `store` take contiguous one-dimensional float64 arrays and check no bounds.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, lower_builtin, models, overload, register_model, type_callable

WIDTH = 8


class _Pack(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Pack")


PACK = _Pack()
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


@register_model(_Pack)
class _PackModel(models.PrimitiveModel):
    def __init__(self, manager, kind) -> None:
        super().__init__(manager, kind, _VECTOR)


def _spread(builder, value):
    """A pack with a float in all lanes; a pack is returned unchanged."""
    if value.type == _VECTOR:
        return value
    first = ir.IntType(32)(0)
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, first)
    return builder.shuffle_vector(
        one, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
    )


def _numbers(*kinds) -> bool:
    return PACK in kinds and all(kind in (PACK, types.float64) for kind in kinds)


def _register(operation, instruction: str) -> None:
    @type_callable(operation)
    def typed(context):
        def typer(a, b):
            return PACK if _numbers(a, b) else None

        return typer

    def lowered(context, builder, sig, args):
        return getattr(builder, instruction)(_spread(builder, args[0]), _spread(builder, args[1]))

    for a, b in ((_Pack, _Pack), (_Pack, types.Float), (types.Float, _Pack)):
        lower_builtin(operation, a, b)(lowered)


for _operation, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
    (operator.iadd, "fadd"),
    (operator.isub, "fsub"),
    (operator.imul, "fmul"),
):
    _register(_operation, _instruction)


@type_callable(operator.neg)
def _type_neg(context):
    def typer(a):
        return PACK if a == PACK else None

    return typer


@lower_builtin(operator.neg, _Pack)
def _neg(context, builder, sig, args):
    return builder.fneg(args[0])


def _address(context, builder, array_type, array, offset):
    data = context.make_array(array_type)(context, builder, value=array).data
    return builder.gep(data, [offset])


def _load(typingctx, like, array, offset):
    """The number, or the pack of numbers, that starts at array[offset]; as wide as `like`."""
    sig = like(like, array, types.int64)

    def codegen(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[1], args[1], args[2])
        if signature.return_type != PACK:
            return builder.load(pointer)
        return builder.load(builder.bitcast(pointer, _VECTOR.as_pointer()), align=8)

    return sig, codegen


def _store(typingctx, array, offset, value):
    """Write a number or a pack to array[offset] and following."""
    sig = types.void(array, types.int64, value)

    def codegen(context, builder, signature, args):
        pointer = _address(context, builder, signature.args[0], args[0], args[1])
        if signature.args[2] != PACK:
            builder.store(args[2], pointer)
        else:
            builder.store(args[2], builder.bitcast(pointer, _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return sig, codegen


def _pack_of(typingctx, value):
    """A pack with `value` in all lanes."""
    return PACK(types.float64), lambda context, builder, signature, args: _spread(builder, args[0])


def _called(name: str):
    """An LLVM function that exists for floats and for vectors."""

    def codegen(context, builder, signature, args):
        kind = args[0].type
        suffix = f"v{WIDTH}f64" if kind == _VECTOR else "f64"
        shape = ir.FunctionType(kind, [kind] * len(args))
        return builder.call(cgutils.get_or_insert_function(builder.module, shape, f"{name}.{suffix}"), args)

    return codegen


def _root(typingctx, x):
    """√x."""
    return x(x), _called("llvm.sqrt")


def _with_sign(typingctx, x, sign):
    """|x| with the sign of `sign`."""
    return x(x, x), _called("llvm.copysign")


def _chosen(comparison: str):
    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(comparison, args[0], args[1]), args[0], args[1])

    return codegen


def _smaller(typingctx, x, y):
    """The smaller of two numbers, lane by lane."""
    return x(x, x), _chosen("<")


def _larger(typingctx, x, y):
    """The larger of two numbers, lane by lane."""
    return x(x, x), _chosen(">")


# Numba calls an intrinsic without its first argument, which a type checker cannot know.
load: Any = intrinsic(_load)
store: Any = intrinsic(_store)
spread: Any = intrinsic(_pack_of)
root: Any = intrinsic(_root)
with_sign: Any = intrinsic(_with_sign)
smaller: Any = intrinsic(_smaller)
larger: Any = intrinsic(_larger)


def width(like: Any) -> int:
    """Numbers in a value like this: 1 or WIDTH, known at compile time; packs exist only in compiled code."""
    return 1


@overload(width, inline="always")
def _width(like):
    lanes = WIDTH if like == PACK else 1
    return lambda like: lanes
