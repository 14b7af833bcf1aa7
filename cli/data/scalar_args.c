/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar arguments of the command line. A number that the type of its parameter cannot represent
 * is an error. */
#include "cli/data/array_args.h"
#include "cli/session.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int does_not_fit(const TesseraParam *param, const char *text)
{
    return fail_code(FAIL_NOT_REPRESENTABLE, TESSERA_USAGE, "%s=%.60s: %s cannot hold it",
                     param->name, text, param->type);
}

static int read_bool(const TesseraParam *param, const char *text, Array *array)
{
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s=%.60s: expected true or false", param->name,
                         text);
    }
    array->integer = yes;
    return 0;
}

/* A u64 above the range of i64 is stored with its bits in an i64. */
static int read_integer(const TesseraParam *param, TesseraType type, const char *text, Array *array)
{
    char *end;
    errno = 0;
    bool wide = type == TESSERA_U64;
    int base = strpbrk(text, "xX") ? 16 : 10; /* 010 is ten */
    array->integer = wide ? (int64_t)strtoull(text, &end, base) : strtoll(text, &end, base);
    if (end == text || *end) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s=%.60s: expected a whole number for %s",
                         param->name, text, param->type);
    }
    int bits = (int)tessera_type_size(type, 8);
    bool is_signed = type <= TESSERA_I64 || type == TESSERA_I4;
    int magnitude_bits = is_signed ? bits - 1 : bits;
    int64_t most = bits == 64 ? INT64_MAX : ((int64_t)1 << magnitude_bits) - 1;
    int64_t least = is_signed ? -most - 1 : 0;
    bool inside = wide ? !strchr(text, '-') : array->integer >= least && array->integer <= most;
    return errno == ERANGE || !inside ? does_not_fit(param, text) : 0;
}

static int read_float(const TesseraParam *param, TesseraType type, const char *text, Array *array)
{
    char *end;
    _Alignas(8) char stored[8];
    array->number = strtod(text, &end);
    if (end == text || *end) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s=%.60s: expected a number", param->name,
                         text);
    }
    tessera_put(type, stored, 0, array->number);
    bool spelled = strpbrk(text, "nN") != NULL; /* inf, nan: no digit has an n */
    return isinf(tessera_get(type, stored, 0)) && !spelled ? does_not_fit(param, text) : 0;
}

int scalar_read(const TesseraParam *param, const char *text, Array *array)
{
    TesseraType type;
    if (!tessera_type_find(param->type, &type)) {
        return fail(TESSERA_INTERNAL, "'%s' has no type", param->name);
    }
    if (isspace((unsigned char)text[0])) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE, "%s=%.60s: expected a number", param->name,
                         text);
    }
    array->number = 0;
    array->integer = 0;
    if (type == TESSERA_BOOL) {
        return read_bool(param, text, array);
    }
    if (tessera_type_is_float(type)) {
        return read_float(param, type, text, array);
    }
    return read_integer(param, type, text, array);
}

void scalar_show(FILE *to, const Array *array)
{
    TesseraType type = TESSERA_F64;
    tessera_type_find(array->param->type, &type);
    if (tessera_type_is_float(type)) {
        fprintf(to, "%s  %.9g", array->param->type, array->number);
    } else if (type == TESSERA_U64) {
        fprintf(to, "%s  %llu", array->param->type, (unsigned long long)array->integer);
    } else {
        fprintf(to, "%s  %lld", array->param->type, (long long)array->integer);
    }
}
