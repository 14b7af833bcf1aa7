/* SPDX-License-Identifier: Apache-2.0 */
/* One array in host memory: its size in bytes, copies to and from row-major memory, random values
 * for it, and how it is printed. */
#include "cli/data/array_args.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN = 6,
    MAX_ROWS = 16,
    MAX_COLUMNS = 8,
    REPEATED = 1048573 /* a prime: no axis is a multiple of it */
};

bool tensor_bytes(const TesseraTensor *tensor, size_t *elements, size_t *bytes)
{
    size_t product = 1;
    bool over = false, empty = false;
    for (int i = 0; i < tensor->rank; i++) {
        empty = empty || tensor->dims[i] == 0;
        over = __builtin_mul_overflow(product, (size_t)tensor->dims[i], &product) || over;
    }
    *elements = empty ? 0 : product;
    *bytes = 0;
    if (empty) {
        return true;
    }
    over = __builtin_mul_overflow(product, tessera_type_bytes(tensor->type), bytes) || over;
    *bytes = tessera_type_size(tensor->type, product);
    return !over && *bytes <= PTRDIFF_MAX;
}

/* ---- strides ---- */

void strides_of_tensor(const TesseraTensor *tensor, int64_t *strides)
{
    int64_t stride = 1;
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        strides[axis] = tensor->strides ? tensor->strides[axis] : stride;
        stride = (int64_t)((uint64_t)stride * (uint64_t)tensor->dims[axis]);
    }
}

/* Copies the elements of a strided tensor to row-major memory, or back. */
static void copy_elements(const TesseraTensor *tensor, char *packed, bool pack)
{
    size_t elements, bytes, width = tessera_type_bytes(tensor->type);
    int64_t strides[TESSERA_MAX_RANK], index[TESSERA_MAX_RANK] = {0}, offset = 0;
    tensor_bytes(tensor, &elements, &bytes);
    strides_of_tensor(tensor, strides);
    for (size_t i = 0; i < elements; i++) {
        char *at = (char *)tensor->data + offset * (int64_t)width;
        memcpy(pack ? packed + i * width : at, pack ? at : packed + i * width, width);
        for (int axis = tensor->rank - 1; axis >= 0; axis--) {
            offset += strides[axis];
            if (++index[axis] < tensor->dims[axis]) {
                break;
            }
            offset -= index[axis] * strides[axis];
            index[axis] = 0;
        }
    }
}

void *tensor_packed(const TesseraTensor *tensor)
{
    size_t elements, bytes;
    tensor_bytes(tensor, &elements, &bytes);
    void *packed = alloc_or_exit(bytes);
    if (tensor->strides) {
        copy_elements(tensor, packed, true);
    } else {
        memcpy(packed, tensor->data, bytes);
    }
    return packed;
}

void tensor_spread(const TesseraTensor *tensor, void *packed)
{
    size_t elements, bytes;
    tensor_bytes(tensor, &elements, &bytes);
    if (tensor->strides) {
        copy_elements(tensor, packed, false);
    } else {
        memcpy(tensor->data, packed, bytes);
    }
}

/* ---- random ---- */

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_value(TesseraType type, uint64_t *state)
{
    if (type == TESSERA_BOOL) {
        return (double)(next_bits(state) & 1);
    }
    /* The cosine half of the Box-Muller transform gives a normal value. */
    double u = (double)((next_bits(state) >> 11) + 1) * 0x1p-53;
    double v = (double)(next_bits(state) >> 11) * 0x1p-53;
    double value = sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
    return tessera_type_is_float(type) ? value : nearbyint(value * 4);
}

void tensor_random(TesseraTensor *tensor, uint64_t seed, const char *name, bool repeat)
{
    size_t elements, bytes, width = tessera_type_bytes(tensor->type);
    /* Each parameter has its own stream: the FNV-1a hash of its name. */
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++) {
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    }
    uint64_t state = hash ^ (seed * 0x9e3779b97f4a7c15u);
    tensor_bytes(tensor, &elements, &bytes);
    bool packed = tessera_type_size(tensor->type, 2) == 1;
    size_t piece = packed ? 2 * REPEATED : REPEATED; /* whole bytes */
    size_t n_random = repeat && elements > piece ? piece : elements;
    for (size_t i = 0; i < n_random; i++) {
        tessera_put(tensor->type, tensor->data, i, next_value(tensor->type, &state));
    }
    for (size_t i = n_random; i < elements; i += n_random) {
        size_t n = elements - i < n_random ? elements - i : n_random;
        char *to = (char *)tensor->data + (packed ? i / 2 : i * width);
        memcpy(to, tensor->data, packed ? (n + 1) / 2 : n * width);
    }
}

/* ---- showing ---- */

static void show_value(FILE *to, TesseraType type, const void *packed, size_t i)
{
    /* Integers of 64 bits have all their digits, which a double would round. */
    double value = tessera_get(type, packed, i);
    if (tessera_type_is_float(type)) {
        fprintf(to, "%.6g", isnan(value) ? (double)NAN : value); /* of either sign */
    } else if (type == TESSERA_I64) {
        fprintf(to, "%" PRId64, ((const int64_t *)packed)[i]);
    } else if (type == TESSERA_U64) {
        fprintf(to, "%" PRIu64, ((const uint64_t *)packed)[i]);
    } else {
        fprintf(to, "%.0f", value);
    }
}

void tensor_show(FILE *to, const TesseraTensor *tensor, bool values)
{
    size_t elements, bytes;
    tensor_bytes(tensor, &elements, &bytes);
    fputs(tessera_type_name(tensor->type), to);
    fputc('[', to);
    for (int i = 0; i < tensor->rank; i++) {
        fprintf(to, "%s%lld", i ? ", " : "", (long long)tensor->dims[i]);
    }
    fputc(']', to);
    if (!values) {
        return;
    }
    void *packed = tensor_packed(tensor);
    fputs("  ", to);
    for (size_t i = 0; i < elements && i < SHOWN; i++) {
        fputs(i ? ", " : "", to);
        show_value(to, tensor->type, packed, i);
    }
    free(packed);
    fputs(elements > SHOWN ? ", ..." : "", to);
}

void tensor_show_rows(FILE *to, const TesseraTensor *tensor)
{
    size_t elements, bytes, last = tensor->rank > 0 ? (size_t)tensor->dims[tensor->rank - 1] : 1;
    tensor_bytes(tensor, &elements, &bytes);
    tensor_show(to, tensor, false);
    fputc('\n', to);
    void *packed = tensor_packed(tensor);
    for (size_t at = 0, row = 0; at < elements; at += last, row++) {
        if (row == MAX_ROWS) {
            fputs("...\n", to);
            break;
        }
        for (size_t i = 0; i < last && i < MAX_COLUMNS; i++) {
            fputs(i ? "  " : "", to);
            show_value(to, tensor->type, packed, at + i);
        }
        fputs(last > MAX_COLUMNS ? "  ...\n" : "\n", to);
    }
    free(packed);
}
