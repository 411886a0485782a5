"""LLVM intrinsics for what numba's loops do not become by themselves: bit casts, parts of arrays, and short vectors.

Loads and stores have an alignment of 1, since arrays may be parts of frames.
"""

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from weft.codecs.kernels.compiling import DOUBLE, SINGLE, float32, types, uint8, uint16, uint64, void

LANES = 8


def _integers(kind: Any) -> Any:
    """The integer type of the size of a floating-point type."""
    return next(kinds.bits for kinds in (SINGLE, DOUBLE) if kinds.real == kind)


def _bits_of(typing: Any, number: Any) -> Any:
    """A number's bits as an integer of its size: no instruction, only another type (bitcast)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    return _integers(number)(number), generate


def _number_of(typing: Any, bits: Any) -> Any:
    """The number that has these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(signature.return_type))

    real = next(kinds.real for kinds in (SINGLE, DOUBLE) if kinds.bits == bits)
    return real(bits), generate


def _half_bits(typing: Any, number: Any) -> Any:
    """The bits of the float16 nearest to a float32 (fptrunc: one instruction with F16C)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return uint16(float32), generate


def _half_number(typing: Any, bits: Any) -> Any:
    """The float32 of a float16's bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return float32(uint16), generate


def _brain_bits(typing: Any, number: Any) -> Any:
    """The bits of the bfloat16 nearest to a float32, ties to even; the caller makes sure that it does not overflow.

    Adding 0x7FFF, and 1 if the lowest kept bit is odd, carries into the upper 16 bits exactly when it has to round up.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        bits = builder.bitcast(arguments[0], word)
        odd = builder.and_(builder.lshr(bits, word(16)), word(1))
        rounded = builder.add(builder.add(bits, word(0x7FFF)), odd)
        return builder.trunc(builder.lshr(rounded, word(16)), ir.IntType(16))

    return uint16(float32), generate


def _brain_number(typing: Any, bits: Any) -> Any:
    """The float32 of a bfloat16's bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(32)
        return builder.bitcast(builder.shl(builder.zext(arguments[0], word), word(16)), ir.FloatType())

    return float32(uint16), generate


def _part(typing: Any, array: Any, start: Any, stop: Any) -> Any:
    """array[start:stop] that does not count as a reference; it must lie within the array, and is valid as long as that.

    A slice counts its references by atomic instructions, each of which waits for all stores before it to reach the
    cache: 5 to 15 % of a kernel's time, if each block of an array is sliced a few times.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, stop = arguments
        whole = context.make_array(signature.args[0])(context, builder, array)
        made = context.make_array(signature.return_type)(context, builder)
        data, size = builder.gep(whole.data, [start]), whole.itemsize
        shape, strides = [builder.sub(stop, start)], [size]
        populate_array(made, data, shape, strides, size, meminfo=None)  # type: ignore[no-untyped-call]
        return made._getvalue()

    return array(array, types.intp, types.intp), generate


def _vector_at(context: Any, builder: Any, kind: Any, array: Any, index: Any, lanes: int = LANES) -> Any:
    """A pointer to the `lanes` numbers of an array from `index` on, and their vector type."""
    data = context.make_array(kind)(context, builder, array).data
    vector = ir.VectorType(context.get_value_type(kind.dtype), lanes)
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer()), vector


def _spread(builder: Any, number: Any, vector: Any) -> Any:
    """A vector of the same number."""
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    order = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, nothing, order)


def _signs(typing: Any, array: Any, index: Any) -> Any:
    """A byte: bit i is 1 where number index + i is 0 or above. Eight comparisons become one mask."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, vector = _vector_at(context, builder, signature.args[0], *arguments)
        zeros = ir.Constant(vector, [0.0] * LANES)
        return builder.bitcast(builder.fcmp_ordered(">=", builder.load(pointer, align=1), zeros), ir.IntType(8))

    return uint8(array, types.intp), generate


def _reaching(word: Any) -> Any:
    """An integer: bit i is 1 where integer index + i is `least` or above."""

    def typed(typing: Any, array: Any, index: Any, least: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer, vector = _vector_at(context, builder, signature.args[0], arguments[0], arguments[1], word.bitwidth)
            numbers, leasts = builder.load(pointer, align=1), _spread(builder, arguments[2], vector)
            return builder.bitcast(builder.icmp_signed(">=", numbers, leasts), ir.IntType(word.bitwidth))

        return word(array, types.intp, array.dtype), generate

    return intrinsic(typed)


def _num_ones(typing: Any, word: Any) -> Any:
    """How many bits of a word are 1."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(uint64), generate


def _first_one(typing: Any, word: Any) -> Any:
    """Which bit of a word is the lowest that is 1; 64 if none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(uint64), generate


def _put_signs(typing: Any, array: Any, index: Any, byte: Any, high: Any, low: Any, adds: Any) -> Any:
    """Eight numbers become `high` where a bit is 1 and `low` where it is 0, or are increased by that."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, index, byte, high, low, adds = arguments
        pointer, vector = _vector_at(context, builder, signature.args[0], array, index)
        are_high = builder.bitcast(byte, ir.VectorType(ir.IntType(1), LANES))
        chosen = builder.select(are_high, _spread(builder, high, vector), _spread(builder, low, vector))
        with builder.if_else(builder.icmp_unsigned("!=", adds, adds.type(0))) as (adding, writing):
            with adding:
                builder.store(builder.fadd(builder.load(pointer, align=1), chosen), pointer, align=1)
            with writing:
                builder.store(chosen, pointer, align=1)
        return context.get_dummy_value()

    return void(array, types.intp, uint8, array.dtype, array.dtype, types.boolean), generate


bits_of: Any = intrinsic(_bits_of)
number_of: Any = intrinsic(_number_of)
half_bits: Any = intrinsic(_half_bits)
half_number: Any = intrinsic(_half_number)
brain_bits: Any = intrinsic(_brain_bits)
brain_number: Any = intrinsic(_brain_number)
part: Any = intrinsic(_part)
signs: Any = intrinsic(_signs)
reach: Any = _reaching(uint8)
reach_64: Any = _reaching(uint64)
num_ones: Any = intrinsic(_num_ones)
first_one: Any = intrinsic(_first_one)
put_signs: Any = intrinsic(_put_signs)
