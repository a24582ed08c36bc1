"""What the compiled engine is made with: loops in vector instructions, and how a function is compiled once.

numba leaves vectors to LLVM, which does not find them in these loops; they take a fifth of the time so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

LEAF = 16  # rows of a leaf, leaves of a block
LANES = 8  # columns of a map are stored in multiples of these
BOXED = 12  # leading dimensions that have boxes; the norm of the others has one too
STAGE = 8  # dimensions after which a leaf may be abandoned

_SOURCES = crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("_*.py"))))


def array(dtype: Any, n_dimensions: int, *, readonly: bool = True) -> Any:
    """numba's type of a C-contiguous array; one that may be written to passes for a readonly one."""
    return types.Array(dtype, n_dimensions, "C", readonly=readonly)


def compiled(*signature: Any) -> Callable[[Any], Any]:
    """Compiles a function for one signature, now; or takes it from numba's copy on disk, which knows these sources.

    Without a place on disk, or with a copy that is damaged, it is compiled in memory.
    """

    def decorate(function: Any) -> Any:
        function.__qualname__ += f"_{_SOURCES:08x}"  # the copy's name: numba itself looks at one file's time alone
        try:
            return njit(signature, nogil=True, cache=True)(function)
        except Exception:  # whatever the disk did; a mistake in the function is raised again here
            return njit(signature, nogil=True)(function)

    return decorate


def part(**options: Any) -> Any:
    """Decorates what numba puts into compiled functions: what owns no memory, and so counts no references.

    numba counts a reference, atomically, for each array that is passed on or cut: a third of what a search took.
    """
    return njit(error_model="numpy", _nrt=False, **options)


def _splat(builder: Any, value: Any, width: int) -> Any:
    vector = ir.VectorType(value.type, width)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


def _at(builder: Any, data: Any, offset: Any, vector: Any) -> Any:
    return builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())


def _arrays(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    pairs = zip(signature.args, arguments, strict=True)
    return [context.make_array(kind)(context, builder, value) for kind, value in pairs if isinstance(kind, types.Array)]


@intrinsic
def add_squares(typingctx: Any, rows: Any, y: Any, start: Any, stop: Any, out: Any) -> Any:
    """out[:16] += sum over j in start..stop of (rows[j] - y[j])^2, j after j, in the precision of y and out."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, place, target = (array.data for array in _arrays(context, builder, signature, arguments))
        single = ir.VectorType(ir.FloatType(), LEAF)
        vector = ir.VectorType(context.get_value_type(signature.args[1].dtype), LEAF)
        count = arguments[2].type
        total = cgutils.alloca_once(builder, vector)
        target = _at(builder, target, count(0), vector)
        builder.store(builder.load(target, align=4), total)
        with cgutils.for_range_slice(builder, arguments[2], arguments[3], count(1)) as (j, _):
            row = builder.load(_at(builder, data, builder.mul(j, count(LEAF)), single), align=4)
            if vector != single:
                row = builder.fpext(row, vector)
            t = builder.fsub(row, _splat(builder, builder.load(builder.gep(place, [j])), LEAF))
            builder.store(builder.fadd(builder.load(total), builder.fmul(t, t)), total)
        builder.store(builder.load(total), target, align=4)
        return context.get_dummy_value()

    return types.void(rows, y, start, stop, out), generate


@intrinsic
def box_squares(typingctx: Any, low: Any, high: Any, y: Any, out: Any) -> Any:
    """out[:16] = squared distances of y (B,) to 16 boxes, low and high (B, 16), in the precision of y and out."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments)
        low, high, place, target = (array.data for array in arrays)
        (count,) = cgutils.unpack_tuple(builder, arrays[2].shape)
        single = ir.VectorType(ir.FloatType(), LEAF)
        vector = ir.VectorType(context.get_value_type(signature.args[2].dtype), LEAF)
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * LEAF))

        def larger(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        def at(data: Any, j: Any) -> Any:
            edge = builder.load(_at(builder, data, builder.mul(j, count.type(LEAF)), single), align=4)
            return edge if vector == single else builder.fpext(edge, vector)

        with cgutils.for_range(builder, count) as loop:
            one = _splat(builder, builder.load(builder.gep(place, [loop.index])), LEAF)
            below, above = builder.fsub(at(low, loop.index), one), builder.fsub(one, at(high, loop.index))
            t = larger(larger(below, above), builder.fsub(one, one))  # 0, or NaN where y is infinite
            builder.store(builder.fadd(builder.load(total), builder.fmul(t, t)), total)
        builder.store(builder.load(total), _at(builder, target, count.type(0), vector), align=4)
        return context.get_dummy_value()

    return types.void(low, high, y, out), generate


@intrinsic
def not_above(typingctx: Any, values: Any, limit: Any) -> Any:
    """Bits of those of 16 values that are not above the limit: NaN is not."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (data,) = (array.data for array in _arrays(context, builder, signature, arguments))
        vector = ir.VectorType(arguments[1].type, LEAF)
        row = builder.load(_at(builder, data, ir.IntType(64)(0), vector), align=4)
        is_near = builder.fcmp_unordered("<=", row, _splat(builder, arguments[1], LEAF))
        return builder.zext(builder.bitcast(is_near, ir.IntType(LEAF)), ir.IntType(64))

    return types.int64(values, values.dtype), generate


@intrinsic
def lowest_bit(typingctx: Any, bits: Any) -> Any:
    """The number of the lowest bit that is set, of bits other than 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.int64), generate


@intrinsic
def eight_sums(typingctx: Any, x: Any, matrix: Any, first: Any, out: Any) -> Any:
    """out[first : first + 8] = x @ matrix[:, first : first + 8], summed as numpy's add.reduce does, to the bit.

    That is 8 sums over every eighth product, these by pairs, then the products that are left; up to 128.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = _arrays(context, builder, signature, arguments)
        x, matrix, out = (array.data for array in arrays)
        (n,), (_, width) = (cgutils.unpack_tuple(builder, array.shape) for array in arrays[:2])
        vector, add = ir.VectorType(ir.DoubleType(), LANES), builder.fadd

        def product(j: Any) -> Any:
            row = _at(builder, matrix, builder.add(builder.mul(j, width), arguments[2]), vector)
            return builder.fmul(_splat(builder, builder.load(builder.gep(x, [j])), LANES), builder.load(row, align=8))

        sums = [cgutils.alloca_once(builder, vector) for _ in range(LANES)]
        for each in sums:
            builder.store(ir.Constant(vector, [0.0] * LANES), each)
        even = builder.and_(n, n.type(-LANES))
        with cgutils.for_range_slice(builder, n.type(0), even, n.type(LANES)) as (j, _):
            for i, each in enumerate(sums):
                builder.store(add(builder.load(each), product(builder.add(j, n.type(i)))), each)
        values = [builder.load(each) for each in sums]
        while len(values) > 1:
            values = [add(left, right) for left, right in zip(values[::2], values[1::2], strict=True)]
        builder.store(values[0], sums[0])
        with cgutils.for_range_slice(builder, even, n, n.type(1)) as (j, _):
            builder.store(add(builder.load(sums[0]), product(j)), sums[0])
        builder.store(builder.load(sums[0]), _at(builder, out, arguments[2], vector), align=8)
        return context.get_dummy_value()

    return types.void(x, matrix, first, out), generate


@intrinsic
def lane_sum(typingctx: Any, x: Any, first: Any, stop: Any) -> Any:
    """Sum of x[first:stop], a positive multiple of 8 values: eight sums side by side, then these by pairs."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (data,) = (array.data for array in _arrays(context, builder, signature, arguments))
        vector, (first, stop) = ir.VectorType(ir.DoubleType(), LANES), arguments[1:]
        total = cgutils.alloca_once(builder, vector)
        builder.store(builder.load(_at(builder, data, first, vector), align=8), total)
        second = builder.add(first, first.type(LANES))
        with cgutils.for_range_slice(builder, second, stop, first.type(LANES)) as (j, _):
            row = builder.load(_at(builder, data, j, vector), align=8)
            builder.store(builder.fadd(builder.load(total), row), total)
        lanes = builder.load(total)
        values = [builder.extract_element(lanes, ir.Constant(ir.IntType(32), i)) for i in range(LANES)]
        while len(values) > 1:
            values = [builder.fadd(left, right) for left, right in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    return types.float64(x, first, stop), generate
