/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of .npy files in NumPy's notation: `x=f.npy[::2, 1:]`, `x=f.npy.T`. A slice is a view
 * with strides; no element is copied. */
#include "cli/data/array_args.h"
#include "cli/options.h"
#include "cli/session.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *slice_after(const char *text)
{
    static const char ends[] = ".npy";
    const char *found = NULL;
    for (const char *at = strstr(text, ends); at; at = strstr(at + 1, ends)) {
        const char *rest = at + sizeof ends - 1;
        found = !found && (*rest == '[' || strncmp(rest, ".T", 2) == 0) ? rest : found;
    }
    return found && access(text, F_OK) != 0 ? found : NULL;
}

/* ---- one axis ---- */

typedef struct Reader {
    const char *text, *at;
    TesseraTensor tensor;
    int64_t strides[TESSERA_MAX_RANK], offset; /* in elements */
    char wrong[128];                           /* what is, once something is */
} Reader;

/* Returns false, to be returned. */
__attribute__((format(printf, 2, 3))) static bool complain(Reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!r->wrong[0]) {
        vsnprintf(r->wrong, sizeof r->wrong, format, args);
    }
    va_end(args);
    return false;
}

static bool expected(Reader *r, const char *what)
{
    return *r->at ? complain(r, "expected %s at \"%.20s\"", what, r->at)
                  : complain(r, "expected %s at its end", what);
}

static bool take_char(Reader *r, char c)
{
    r->at += strspn(r->at, " ");
    bool here = *r->at == c;
    r->at += here;
    return here;
}

/* False when there is none. */
static bool take_number(Reader *r, int64_t *number)
{
    char *end;
    errno = 0;
    r->at += strspn(r->at, " ");
    if (!isdigit((unsigned char)*r->at) && *r->at != '-') {
        return false;
    }
    *number = strtoll(r->at, &end, 10);
    bool good = end != r->at && errno == 0;
    r->at = good ? end : "?";
    return true;
}

/* An end of a slice, counted from the end if negative, clamped to the axis. */
static int64_t clamped(int64_t end, int64_t extent, int64_t least, int64_t most)
{
    end = end < 0 ? end + extent : end;
    if (end < least) {
        return least;
    }
    return end > most ? most : end;
}

static void keep_axis(Reader *r, int to, int64_t extent, int64_t stride)
{
    r->tensor.dims[to] = extent;
    r->strides[to] = stride;
}

/* `a:b:c` after its first number; false: no such slice. */
static bool take_slice(Reader *r, int axis, int to, bool has_first, int64_t first)
{
    int64_t extent = r->tensor.dims[axis], last = 0, step = 1, stride = r->strides[axis];
    bool has_last = take_number(r, &last);
    if (take_char(r, ':')) {
        take_number(r, &step);
    }
    if (step == 0 || step == INT64_MIN) {
        return complain(r, "the step must not be 0");
    }
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? extent - 1 : extent;
    int64_t begin = step < 0 ? high : low, end = step < 0 ? low : high;
    first = has_first ? clamped(first, extent, low, high) : begin;
    last = has_last ? clamped(last, extent, low, high) : end;

    int64_t far = step < 0 ? first - last : last - first, by = step < 0 ? -step : step;
    int64_t count = far > 0 ? (far - 1) / by + 1 : 0;
    r->offset += count ? first * stride : 0;
    keep_axis(r, to, count, count > 1 ? stride * step : stride);
    return true;
}

/* An index, which drops the axis, or a slice. -1: neither; else how many axes are left of it. */
static int take_axis(Reader *r, int axis, int to)
{
    int64_t first = 0, extent = r->tensor.dims[axis];
    bool has_first = take_number(r, &first);
    if (take_char(r, ':')) {
        return take_slice(r, axis, to, has_first, first) ? 1 : -1;
    }
    if (!has_first || first < -extent || first >= extent) {
        has_first ? complain(r, "axis %d has %lld elements: there is no index %lld", axis,
                             (long long)extent, (long long)first)
                  : expected(r, "a number or a `:`");
        return -1;
    }
    r->offset += (first < 0 ? first + extent : first) * r->strides[axis];
    return 0;
}

/* ---- all ---- */

static bool take_brackets(Reader *r)
{
    int to = 0, axis = 0;
    do {
        if (axis == r->tensor.rank) {
            return complain(r, "that is more than its %d ax%s", axis, axis == 1 ? "is" : "es");
        }
        int kept = take_axis(r, axis++, to);
        if (kept < 0) {
            return false;
        }
        to += kept;
    } while (take_char(r, ','));
    for (; axis < r->tensor.rank; axis++) {
        keep_axis(r, to++, r->tensor.dims[axis], r->strides[axis]);
    }
    r->tensor.rank = to;
    return take_char(r, ']') || expected(r, "a `,` or `]`");
}

static bool take_parts(Reader *r)
{
    bool good = true;
    while (good && *r->at) {
        if (strncmp(r->at, ".T", 2) == 0) {
            r->at += 2;
            for (int i = 0, j = r->tensor.rank - 1; i < j; i++, j--) {
                int64_t extent = r->tensor.dims[i], stride = r->strides[i];
                keep_axis(r, i, r->tensor.dims[j], r->strides[j]);
                keep_axis(r, j, extent, stride);
            }
        } else {
            good = take_char(r, '[') ? take_brackets(r) : expected(r, "`[` or `.T`");
        }
    }
    return good;
}

int slice_apply(const char *text, TesseraTensor *tensor)
{
    Reader r = {.text = text, .at = text, .tensor = *tensor};
    if (tessera_type_size(tensor->type, 2) == 1) {
        return fail_code(FAIL_SLICE, TESSERA_USAGE, "%.60s: two elements share a byte of %s", text,
                         tessera_type_name(tensor->type));
    }
    strides_of_tensor(tensor, r.strides);
    if (!take_parts(&r)) {
        return fail_code(FAIL_SLICE, TESSERA_USAGE,
                         "%.60s: %s; a part is written like [::2, 1:], [0] or .T", text, r.wrong);
    }
    int64_t *strides = session_alloc(sizeof r.strides);
    memcpy(strides, r.strides, sizeof r.strides);
    r.tensor.strides = strides;
    r.tensor.data = (char *)tensor->data + r.offset * (int64_t)tessera_type_bytes(tensor->type);
    *tensor = r.tensor;
    return 0;
}
