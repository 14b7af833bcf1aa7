/* SPDX-License-Identifier: Apache-2.0 */
/* Input data of fuzz programs: the same for every way in which a case is run. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_bits(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_normal(uint64_t *state)
{
    double u = ((double)(next_bits(state) >> 11) + 1) * 0x1p-53;
    double v = (double)(next_bits(state) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

static const Data *data_of(const Case *c, const char *param)
{
    static const Data normal = {"", "normal", 0};
    for (size_t i = 0; i < c->n_data; i++) {
        if (strcmp(c->data[i].param, param) == 0) {
            return &c->data[i];
        }
    }
    return &normal;
}

static double special(TesseraType type, uint64_t *state)
{
    static const double floats[] = {0,   -0.0,  INFINITY, -INFINITY, NAN,  1,   -1,
                                    0.5, 1e-40, 65520,    1e18,      -448, 2.5, 1e-8};
    static const double integers[] = {
        0,      1,     -1,           127,           -128,         255, 32767,
        -32768, 65535, 2147483647.0, -2147483648.0, 4294967295.0, 7,   -7};
    size_t n = sizeof floats / sizeof *floats, at = next_bits(state) % (2 * n);
    if (at >= n) {
        double value = next_normal(state);
        return tessera_type_is_float(type) ? value : nearbyint(value * 4);
    }
    return tessera_type_is_float(type) ? floats[at] : integers[at];
}

/* Index arrays: seldom outside, on either side. */
static double small(int64_t most, uint64_t *state)
{
    uint64_t way = next_bits(state) % 16;
    if (way == 0) {
        return -1;
    }
    return way == 1 ? (double)(most + 1) : (double)(next_bits(state) % (uint64_t)(most + 1));
}

static double draw(const Data *data, TesseraType type, uint64_t *state)
{
    if (type == TESSERA_BOOL) {
        return (double)(next_bits(state) & 1);
    }
    if (strcmp(data->kind, "small") == 0) {
        return small(data->most, state);
    }
    if (strcmp(data->kind, "special") == 0) {
        return special(type, state);
    }
    if (strcmp(data->kind, "positive") == 0) {
        double value = fabs(next_normal(state));
        return tessera_type_is_float(type) ? value + 0.01 : 1 + floor(4 * value);
    }
    double value = next_normal(state);
    return tessera_type_is_float(type) ? value : nearbyint(value * 4);
}

static uint64_t stream(const Case *c, const char *param)
{
    uint64_t hash = 0xcbf29ce484222325u ^ (c->seed * 0x9e3779b97f4a7c15u);
    for (; *param; param++) {
        hash = (hash ^ (unsigned char)*param) * 0x100000001b3u;
    }
    return hash;
}

void data_fill(const Case *c, const char *param, TesseraType type, void *data, size_t n)
{
    const Data *how = data_of(c, param);
    uint64_t state = stream(c, param);
    if (strcmp(how->kind, "full") == 0 && !tessera_type_is_float(type) && type != TESSERA_BOOL) {
        for (size_t i = 0; i < tessera_type_size(type, n); i++) {
            ((unsigned char *)data)[i] = (unsigned char)next_bits(&state);
        }
        return;
    }
    for (size_t i = 0; i < n; i++) {
        tessera_put(type, data, i, draw(how, type, &state));
    }
}

void data_scalar(const Case *c, const char *param, TesseraType type, TesseraArg *arg)
{
    for (size_t i = 0; i < c->n_scalars; i++) {
        if (strcmp(c->scalars[i].name, param) == 0) {
            arg->number = strtod(c->scalars[i].value, NULL);
            arg->integer = (int64_t)arg->number;
            return;
        }
    }
    uint64_t state = stream(c, param);
    double value = draw(data_of(c, param), type, &state);
    arg->number = value;
    arg->integer = tessera_type_is_float(type) ? 0 : (int64_t)value;
}
