# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling over one to three axes, with their gradients. Channels are the second
axis. A gradient of a pooling is read from the windows that reach an element: nothing is scattered,
so it has the same bits in each run."""

from ._pointwise import operand
from ._writer import Uncovered, cast, dims_of, element_type, emits, wide, wide_type

WHERE = ["i", "j", "k"]  # places in the result
TAPS = ["r", "s", "t"]


def each(numbers, n, default=0):
    """One number for each axis; torch repeats a single one."""
    numbers = [numbers] if isinstance(numbers, int) else list(numbers) or [default]
    numbers = numbers * n if len(numbers) == 1 else numbers
    if not all(isinstance(k, int) for k in numbers):
        raise Uncovered("a stride or padding that is not known")
    return numbers


def argument(numbers):
    """For the library's functions: one number, or a tuple."""
    return str(numbers[0]) if len(numbers) == 1 else f"({', '.join(map(str, numbers))})"


def convolved(function, x, w, stride, pad, dilation, groups, extra=()):
    given = [("stride", stride, 1), ("pad", pad, 0), ("dilation", dilation, 1),
             ("groups", [groups], 1), ("output_pad", extra, 0)]
    said = "".join(f", {name}={argument(numbers)}" for name, numbers, usual in given
                   if any(n != usual for n in numbers))
    return f"{function}{len(stride)}d({x}, {w}{said}, channels_first=true)"


def _same_type(*values):
    if len({v.dtype for v in values}) != 1 or values[0].dtype not in ("f16", "bf16", "f32", "f64"):
        raise Uncovered("these types")


def _batched(*values):
    n = values[0].rank - 2
    if not 1 <= n <= 3:
        raise Uncovered(f"{n} axes")
    return n


@emits("aten.convolution.default")
def _convolution(writer, node, x, w, bias, stride, pad, dilation, transposed, output_pad, groups):
    x, w = writer.tensor(x), writer.tensor(w)
    _same_type(x, w)
    n = _batched(x)
    stride, pad, dilation = each(stride, n, 1), each(pad, n), each(dilation, n, 1)
    extra = each(output_pad, n) if transposed else ()
    text = convolved("conv_transpose" if transposed else "conv", x.text, w.text, stride, pad,
                     dilation, groups, extra)
    if bias is not None:
        at = ", ".join(["None", ":", *["None"] * n])
        text += f" + {operand(writer, bias, wide_type(x.dtype))}[{at}]"
    return cast(text, wide_type(x.dtype), element_type(node))


def stepped(name, step):
    return name if step == 1 else f"{name} * {step}"


def _without(text, pad):
    return f"{text} - {pad}" if pad else text


def _filter_gradient(writer, image, gradient, dims, stride, pad, dilation, groups):
    """Of a convolution of the image: sums over all places of products. dims: [out, in of a group,
    taps]; the image has `in` channels of each group, the gradient `out`."""
    n = len(stride)
    taps, places = TAPS[:n], WHERE[:n]
    if groups != 1 and not (dims[0].isdigit() and dims[1].isdigit()):
        raise Uncovered("a number of channels that is not known")
    inside = [_without(f"{stepped(p, s)} + {stepped(t, d)}", e)
              for p, t, s, d, e in zip(places, taps, stride, dilation, pad)]
    walk = ", ".join(f"{a} in {e}" for a, e in
                     zip(["b", *places], [image.dims[0], *gradient.dims[2:]]))
    if groups == 1:
        image_at, gradient_at = "c", "o"
        axes = ["o", "c", *taps]
        shape = dims
    else:
        of_group, per = int(dims[0]) // groups, int(dims[1])
        image_at, gradient_at = f"g * {per} + c", f"g * {of_group} + o"
        axes = ["g", "o", "c", *taps]
        shape = [str(groups), str(of_group), *dims[1:]]

    def element(*_):
        return f"sum({walk}) {gradient.text}[b, {gradient_at}, {', '.join(places)}]" \
            f" * ({image.text}[b, {image_at}, {', '.join(inside)}] else 0)"
    made = writer.by_index("by_filter", shape, element, wide_type(image.dtype), axes)
    if groups == 1:
        return made.text
    return f"reshape({made.text}, [{', '.join(dims)}])"


@emits("aten.convolution_backward.default")
def _convolution_backward(writer, node, gradient, x, w, bias, stride, pad, dilation, transposed,
                          output_pad, groups, wanted):
    g, x, w = writer.tensor(gradient), writer.tensor(x), writer.tensor(w)
    _same_type(g, x, w)
    n, wide_, to = _batched(x), wide_type(x.dtype), x.dtype
    stride, pad, dilation = each(stride, n, 1), each(pad, n), each(dilation, n, 1)
    found = [None, None, None]
    if wanted[0] and transposed:
        text = convolved("conv", g.text, w.text, stride, pad, dilation, groups)
        found[0] = cast(text, wide_, to)
    elif wanted[0]:
        rest = _left_over(x, w, g, stride, pad, dilation)
        text = convolved("conv_transpose", g.text, w.text, stride, pad, dilation, groups,
                         rest)
        found[0] = cast(text, wide_, to)
    if wanted[1]:
        image, other = (g, x) if transposed else (x, g)
        text = _filter_gradient(writer, image, other, w.dims, stride, pad, dilation, groups)
        found[1] = cast(text, wide_, to)
    if wanted[2]:
        axes = [0, *range(2, 2 + n)]
        at = ", ".join("0" if k in axes else ":" for k in range(2 + n))
        found[2] = cast(f"sum({wide(g)}, axis={axes})[{at}]", wide_, to)
    return tuple(found)


def _left_over(x, w, g, stride, pad, dilation):
    """How many elements at the end the last window of each axis does not reach."""
    found = []
    for k in range(len(stride)):
        if stride[k] == 1:
            found.append(0)
            continue
        extents = (x.dims[2 + k], w.dims[2 + k], g.dims[2 + k])
        if not all(e.isdigit() for e in extents):
            raise Uncovered("the gradient of a convolution over a size that is not known")
        all_, taps, places = map(int, extents)
        found.append(all_ + 2 * pad[k] - (places - 1) * stride[k] - dilation[k] * (taps - 1) - 1)
    return found


# ---- pooling ----

class Window:
    """Of a pooling over the last n axes of an array."""

    def __init__(self, value, n, size, stride, pad, dilation=1):
        self.n, self.size = n, each(size, n)
        self.stride = each(stride, n) if stride not in ([], None, ()) else self.size
        self.pad, self.dilation = each(pad, n), each(dilation, n, 1)
        self.lead = [f"n{k}x" for k in range(value.rank - n)]  # the axes before
        self.extents = value.dims[value.rank - n:]
        self.places, self.taps = WHERE[:n], TAPS[:n]

    def first(self, k):
        """Where the window begins."""
        return _without(stepped(self.places[k], self.stride[k]), self.pad[k])

    def at(self):
        """Where its taps are."""
        return ", ".join([*self.lead, *[f"{self.first(k)} + {stepped(t, d)}" for k, (t, d) in
                                        enumerate(zip(self.taps, self.dilation))]])

    def walk(self):
        return ", ".join(f"{t} in {s}" for t, s in zip(self.taps, self.size))


def _is_floats(value):
    if value.dtype not in ("f16", "bf16", "f32", "f64"):
        raise Uncovered(f"the type {value.dtype}")


def _max_pool(n):
    def emit(writer, node, x, size, stride=(), pad=0, dilation=1, ceil=False):
        value = writer.tensor(x)
        _is_floats(value)
        w = Window(value, n, size, stride, pad, dilation)
        dims = [writer.sizes.text(k) for k in node.meta["val"][0].shape]
        names = [*w.lead, *w.places]

        def greatest(*_):
            return f"max({w.walk()}) ({value.text}[{w.at()}] else -inf)"
        pooled = writer.by_index("pooled", dims, greatest, value.dtype, names)
        if not any(u.target.__name__ == "getitem" and u.args[1] == 1 for u in node.users):
            return pooled, None
        taps, rest = [], 1
        for k in reversed(range(n)):
            taps.insert(0, f"tap // {rest} % {w.size[k]}" if k else f"tap // {rest}")
            rest *= w.size[k]
        at = [f"{w.first(k)} + {taps[k]} * {w.dilation[k]}" for k in range(n)]
        inside = " and ".join(f"({a}) >= 0 and ({a}) < {e}" for a, e in zip(at, w.extents))

        def winner(*_):
            return f"argmax(tap in {rest} if {inside})" \
                f" ({value.text}[{', '.join([*w.lead, *at])}] else -inf)"
        tap = writer.by_index("tap", dims, winner, "i64", names)
        here = f"{tap.text}[{', '.join(names)}]"

        def place(*_):
            text = ""
            for k in range(n):
                one = f"({at[k].replace('tap', here)})"
                text = f"({text}) * {w.extents[k]} + {one}" if text else one
            return text
        return pooled, writer.by_index("place", dims, place, "i64", names)
    return emit


emits("aten.max_pool2d_with_indices.default")(_max_pool(2))
emits("aten.max_pool3d_with_indices.default")(_max_pool(3))


def _reaching(w, size):
    """For a gradient: which windows reach the element (h, …): (loops, places, inside). A window
    that begins `back` windows before the last one that begins at or before the element."""
    names = ["h", "l", "m"][:w.n]
    backs = ["u", "v", "w"][:w.n]
    walk = ", ".join(f"{b} in {(w.dilation[k] * (size[k] - 1)) // w.stride[k] + 1}"
                     for k, b in enumerate(backs))
    places = [(f"({h} + {w.pad[k]})" if w.pad[k] else h)
              + (f" // {w.stride[k]}" if w.stride[k] != 1 else "") + f" - {b}"
              for k, (h, b) in enumerate(zip(names, backs))]
    return names, walk, places


def _max_pool_backward(n):
    def emit(writer, node, gradient, x, size, stride, pad, dilation, ceil, indices):
        g, at = writer.tensor(gradient), writer.tensor(indices)
        dims = dims_of(writer, node)
        value = writer.tensor(x)
        w = Window(value, n, size, stride, pad, dilation)
        names, walk, places = _reaching(w, w.size)
        place = names[0]
        for k in range(1, n):
            place = f"({place}) * {w.extents[k]} + {names[k]}"
        where = ", ".join([*w.lead, *places])
        # -1 is no place: a window that is not there took nothing.
        taken = f"({at.text}[{where}] else -1) == {place}"

        def element(*_):
            return f"sum({walk} if {taken}) {cast_of(g, where)}"
        made = writer.by_index("spread", dims, element, wide_type(g.dtype), [*w.lead, *names])
        return cast(made.text, made.dtype, element_type(node))
    return emit


def cast_of(value, where):
    text = f"({value.text}[{where}] else 0)"
    return f"f32({text})" if value.dtype in ("f16", "bf16") else text


emits("aten.max_pool2d_with_indices_backward.default")(_max_pool_backward(2))
emits("aten.max_pool3d_with_indices_backward.default")(_max_pool_backward(3))


def _divisor(w, places, ceil, with_pad, divisor, dtype):
    """By what the sum of the window at these places is divided."""
    if divisor:
        return repr(float(divisor))
    plain = not any(w.pad) or with_pad
    if plain and not ceil:
        return repr(float(_size(w.size)))
    lengths = []
    for k in range(w.n):
        first = f"(({places[k]}) * {w.stride[k]} - {w.pad[k]})"
        last = f"min({first} + {w.size[k]}, {w.extents[k]} + {w.pad[k] if with_pad else 0})"
        lengths.append(f"({last} - {first if with_pad else f'max({first}, 0)'})")
    return f"{dtype}({' * '.join(lengths)})"


def _size(numbers):
    found = 1
    for n in numbers:
        found *= n
    return found


def _avg_pool(n):
    def emit(writer, node, x, size, stride=(), pad=0, ceil=False, with_pad=True, divisor=None):
        value = writer.tensor(x)
        _is_floats(value)
        w = Window(value, n, size, stride, pad)
        dtype = wide_type(value.dtype)
        by = _divisor(w, w.places, ceil, with_pad, divisor, dtype)

        def element(*_):
            return f"(sum({w.walk()}) {cast_of(value, w.at())}) / {by}"
        made = writer.by_index("pooled", dims_of(writer, node), element, dtype,
                               [*w.lead, *w.places])
        return cast(made.text, dtype, element_type(node))
    return emit


emits("aten.avg_pool1d.default")(_avg_pool(1))
emits("aten.avg_pool2d.default")(_avg_pool(2))
emits("aten.avg_pool3d.default")(_avg_pool(3))


def _avg_pool_backward(n):
    def emit(writer, node, gradient, x, size, stride, pad, ceil, with_pad, divisor):
        g, value = writer.tensor(gradient), writer.tensor(x)
        w = Window(value, n, size, stride, pad)
        names, walk, places = _reaching(w, w.size)
        dtype = wide_type(g.dtype)
        by = _divisor(w, places, ceil, with_pad, divisor, dtype)
        where = ", ".join([*w.lead, *places])
        inside = " and ".join(f"{h} + {w.pad[k]} < ({places[k]}) * {w.stride[k]} + {w.size[k]}"
                              for k, h in enumerate(names))

        def element(*_):
            return f"sum({walk} if {inside}) ({cast_of(g, where)} / {by})"
        made = writer.by_index("spread", dims_of(writer, node), element, dtype, [*w.lead, *names])
        return cast(made.text, dtype, element_type(node))
    return emit


emits("aten.avg_pool2d_backward.default")(_avg_pool_backward(2))
emits("aten.avg_pool3d_backward.default")(_avg_pool_backward(3))


@emits("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def _adaptive_avg_pool(writer, node, x, size):
    value = writer.tensor(x)
    _is_floats(value)
    n, dims = len(size), dims_of(writer, node)
    dtype, walk, at, by = wide_type(value.dtype), [], [], []
    lead = [f"n{k}x" for k in range(value.rank - n)]
    for k in range(n):
        whole, parts = value.dims[value.rank - n + k], dims[value.rank - n + k]
        if not whole.isdigit() or not parts.isdigit() or int(whole) % int(parts):
            raise Uncovered("parts of different sizes")
        length = int(whole) // int(parts)
        walk.append(f"{TAPS[k]} in {length}")
        at.append(f"{WHERE[k]} * {length} + {TAPS[k]}")
        by.append(length)

    def element(*_):
        read = f"{value.text}[{', '.join([*lead, *at])}]"
        read = f"f32({read})" if dtype != value.dtype else read
        return f"(sum({', '.join(walk)}) {read}) / {float(_size(by))!r}"
    made = writer.by_index("pooled", dims, element, dtype, [*lead, *WHERE[:n]])
    return cast(made.text, dtype, element_type(node))


@emits("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def _adaptive_avg_pool_backward(writer, node, gradient, x):
    g, dims = writer.tensor(gradient), dims_of(writer, node)
    n = 3 if "3d" in str(node.target) else 2
    lead, names = [f"n{k}x" for k in range(g.rank - n)], ["h", "l", "m"][:n]
    by, at = 1, []
    for k in range(n):
        whole, parts = dims[g.rank - n + k], g.dims[g.rank - n + k]
        if not whole.isdigit() or not parts.isdigit() or int(whole) % int(parts):
            raise Uncovered("parts of different sizes")
        by *= int(whole) // int(parts)
        at.append(f"{names[k]} // {int(whole) // int(parts)}")

    def element(*_):
        return f"{g.text}[{', '.join([*lead, *at])}] / {float(by)!r}"
    made = writer.by_index("spread", dims, element, wide_type(g.dtype), [*lead, *names])
    return cast(made.text, made.dtype, element_type(node))
