/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's file format, versions 1 to 3. The format has no names for bf16 and the 8-bit floats:
 * they are written as two bytes and one byte without a type ('<V2', '|V1'), which NumPy loads and
 * ml_dtypes uses. The name '<f1' for f8e5m2, which NumPy does not load, is only read, and their
 * bits may also come as u2 and u1. Elements of i4 and u4 are stored in files of i8 and u8. Any
 * bytes may be the input, so each failure has its own message. */
#include "cli/data/array_args.h"
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_HEADER = 1 << 20, MAGIC_BYTES = 6, ALIGN_HEADER = 64 };
static const char MAGIC[] = "\x93NUMPY";
enum { N_HEADER_KEYS = 3 }; /* HEADER_KEYS */

typedef struct Header {
    const char *path;
    const char *at, *end; /* the text between the braces */
    TesseraTensor tensor;
    bool fortran, seen[N_HEADER_KEYS];
} Header;

static int bad(const char *path, const char *what)
{
    return fail_code(FAIL_NPY, TESSERA_USAGE, "%s: not a .npy file that can be read: %s", path,
                     what);
}

/* ---- the header: a Python dictionary ---- */

static void skip_space(Header *h)
{
    while (h->at < h->end && strchr(" \t\r\n", *h->at)) {
        h->at++;
    }
}

static bool take_char(Header *h, char c)
{
    skip_space(h);
    if (h->at < h->end && *h->at == c) {
        h->at++;
        return true;
    }
    return false;
}

static bool take_word(Header *h, const char *word)
{
    size_t n = strlen(word);
    skip_space(h);
    if ((size_t)(h->end - h->at) >= n && memcmp(h->at, word, n) == 0) {
        h->at += n;
        return true;
    }
    return false;
}

/* Quoted, without escapes. */
static bool take_string(Header *h, char *text, size_t capacity)
{
    skip_space(h);
    char quote = h->at < h->end ? *h->at : '\0';
    if (quote != '\'' && quote != '"') {
        return false;
    }
    size_t n = 0;
    for (h->at++; h->at < h->end && *h->at != quote; h->at++) {
        if (n + 1 >= capacity || *h->at == '\\' || *h->at == '\0') {
            return false;
        }
        text[n++] = *h->at;
    }
    text[n] = '\0';
    return take_char(h, quote);
}

static bool take_size(Header *h, int64_t *size)
{
    skip_space(h);
    int64_t value = 0;
    const char *start = h->at;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *h->at - '0', &value)) {
            return false;
        }
    }
    *size = value;
    return h->at > start;
}

static const struct {
    const char *descr;
    TesseraType type;
} DESCRS[] = {
    {"b1", TESSERA_BOOL}, {"i1", TESSERA_I8},     {"i2", TESSERA_I16},    {"i4", TESSERA_I32},
    {"i8", TESSERA_I64},  {"u1", TESSERA_U8},     {"u2", TESSERA_U16},    {"u4", TESSERA_U32},
    {"u8", TESSERA_U64},  {"f2", TESSERA_F16},    {"f4", TESSERA_F32},    {"f8", TESSERA_F64},
    {"V2", TESSERA_BF16}, {"V1", TESSERA_F8E4M3}, {"f1", TESSERA_F8E5M2},
};

static int read_descr(Header *h)
{
    char text[32];
    if (!take_string(h, text, sizeof text)) {
        return bad(h->path, "its type is not a plain one");
    }
    if (text[0] == '>') {
        return bad(h->path, "its bytes are in big-endian order; convert it with "
                            "a.astype(a.dtype.newbyteorder('<'))");
    }
    const char *kind = text[0] && strchr("<|=", text[0]) ? text + 1 : text;
    for (size_t i = 0; i < sizeof DESCRS / sizeof *DESCRS; i++) {
        if (strcmp(kind, DESCRS[i].descr) == 0) {
            h->tensor.type = DESCRS[i].type;
            return 0;
        }
    }
    return fail_code(FAIL_NPY, TESSERA_USAGE, "%s: no element type for NumPy's '%s'", h->path,
                     text);
}

static int read_shape(Header *h)
{
    if (!take_char(h, '(')) {
        return bad(h->path, "its shape is not a tuple");
    }
    while (!take_char(h, ')')) {
        if (h->tensor.rank == TESSERA_MAX_RANK) {
            return fail_code(FAIL_NPY, TESSERA_USAGE, "%s: more than %d axes", h->path,
                             TESSERA_MAX_RANK);
        }
        if (!take_size(h, &h->tensor.dims[h->tensor.rank])) {
            return bad(h->path, "its shape has an entry that is no size");
        }
        h->tensor.rank++;
        if (!take_char(h, ',') && (h->at >= h->end || *h->at != ')')) {
            return bad(h->path, "its shape is not a tuple");
        }
    }
    return 0;
}

static int read_order(Header *h)
{
    h->fortran = take_word(h, "True");
    return h->fortran || take_word(h, "False") ? 0 : bad(h->path, "fortran_order is no bool");
}

static const struct {
    const char *name;
    int (*read)(Header *h);
} HEADER_KEYS[N_HEADER_KEYS] = {
    {"descr", read_descr}, {"fortran_order", read_order}, {"shape", read_shape}};

static int read_entry(Header *h)
{
    char key[32];
    if (!take_string(h, key, sizeof key) || !take_char(h, ':')) {
        return bad(h->path, "its header is not a dictionary");
    }
    for (int i = 0; i < N_HEADER_KEYS; i++) {
        if (strcmp(key, HEADER_KEYS[i].name) == 0 && !h->seen[i]) {
            h->seen[i] = true;
            return HEADER_KEYS[i].read(h);
        }
    }
    return bad(h->path, "its header has an unknown or repeated key");
}

static int read_dictionary(Header *h)
{
    if (!take_char(h, '{')) {
        return bad(h->path, "its header is not a dictionary");
    }
    while (!take_char(h, '}')) {
        int code = read_entry(h);
        if (code != 0) {
            return code;
        }
        if (!take_char(h, ',') && (h->at >= h->end || *h->at != '}')) {
            return bad(h->path, "its header is not a dictionary");
        }
    }
    bool all = h->seen[0] && h->seen[1] && h->seen[2];
    return all ? 0 : bad(h->path, "its header lacks descr, fortran_order or shape");
}

/* Length of the header's text, or -1. */
static long read_length(FILE *file)
{
    unsigned char head[MAGIC_BYTES + 2], length[4] = {0};
    if (fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, MAGIC, MAGIC_BYTES) != 0 ||
        head[6] < 1 || head[6] > 3) {
        return -1;
    }
    size_t bytes = head[6] == 1 ? 2 : 4;
    if (fread(length, 1, bytes, file) != bytes) {
        return -1;
    }
    unsigned long n = length[0] | (unsigned long)length[1] << 8 | (unsigned long)length[2] << 16 |
                      (unsigned long)length[3] << 24;
    return n <= MAX_HEADER ? (long)n : -1;
}

static int read_header(FILE *file, Header *h)
{
    long n = read_length(file);
    if (n < 0) {
        return bad(h->path, "it does not begin as one");
    }
    char *text = alloc_or_exit((size_t)n + 1);
    int code;
    if (fread(text, 1, (size_t)n, file) != (size_t)n) {
        code = bad(h->path, "it ends within its header");
    } else {
        h->at = text;
        h->end = text + n;
        code = read_dictionary(h);
    }
    free(text);
    return code;
}

/* ---- the data ---- */

/* False if the file is known to be shorter than its header requires. */
static bool long_enough(FILE *file, size_t bytes)
{
    struct stat info;
    long at = ftell(file);
    if (at < 0 || fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode)) {
        return true;
    }
    return info.st_size >= at && (size_t)(info.st_size - at) >= bytes;
}

static int read_data(FILE *file, Header *h)
{
    size_t elements, bytes;
    TesseraTensor *tensor = &h->tensor;
    if (!tensor_bytes(tensor, &elements, &bytes)) {
        return fail_code(FAIL_NPY, TESSERA_USAGE,
                         "%s: its shape has more elements than memory can hold", h->path);
    }
    if (!long_enough(file, bytes)) {
        return fail_code(FAIL_NPY, TESSERA_USAGE, "%s: it ends before its %zu bytes of data",
                         h->path, bytes);
    }
    tensor->data = malloc(bytes ? bytes : 1);
    if (!tensor->data) {
        return fail(TESSERA_ENVIRONMENT, "%s: no memory for its %zu bytes", h->path, bytes);
    }
    if (fread(tensor->data, 1, bytes, file) != bytes) {
        free(tensor->data);
        return fail(ferror(file) ? TESSERA_ENVIRONMENT : TESSERA_USAGE,
                    "%s: it ends before its %zu bytes of data", h->path, bytes);
    }
    if (h->fortran && tensor->rank > 1) {
        /* The first axis is the contiguous one. */
        int64_t *strides = session_alloc(sizeof *strides * TESSERA_MAX_RANK), stride = 1;
        for (int axis = 0; axis < tensor->rank; axis++) {
            strides[axis] = stride;
            stride = (int64_t)((uint64_t)stride * (uint64_t)tensor->dims[axis]);
        }
        tensor->strides = strides;
    }
    return 0;
}

/* ---- types that NumPy has no name for ---- */

/* True for bits whose type the parameter gives, because the file cannot name it. */
static bool is_bits_of(TesseraType file, int wanted)
{
    bool byte = file == TESSERA_F8E4M3 || file == TESSERA_U8;
    return wanted == TESSERA_BF16 ? file == TESSERA_U16
                                  : byte && (wanted == TESSERA_F8E4M3 || wanted == TESSERA_F8E5M2);
}

static bool packs(TesseraType file, int wanted)
{
    bool bytes = file == TESSERA_I8 || file == TESSERA_U8 || file == TESSERA_F8E4M3;
    return bytes && (wanted == TESSERA_I4 || wanted == TESSERA_U4);
}

/* Bytes of small numbers; of those without a type, the low halves. */
static int pack(const char *path, TesseraType type, TesseraTensor *tensor)
{
    size_t elements, bytes;
    TesseraType from = tensor->type == TESSERA_U8 ? TESSERA_U8 : TESSERA_I8;
    TesseraTensor to = *tensor;
    void *from_data = tensor_packed(tensor);
    to.type = type;
    to.strides = NULL;
    tensor_bytes(&to, &elements, &bytes);
    to.data = alloc_or_exit(bytes ? bytes : 1);
    for (size_t i = 0; i < elements; i++) {
        double value = tessera_get(from, from_data, i);
        bool fits =
            value >= (type == TESSERA_I4 ? -8 : 0) && value <= (type == TESSERA_I4 ? 7 : 15);
        if (!fits && tensor->type != TESSERA_F8E4M3) {
            free(to.data);
            free(from_data);
            return fail_code(FAIL_NOT_REPRESENTABLE, TESSERA_USAGE,
                             "%s: element %zu is %g, which %s cannot hold", path, i, value,
                             tessera_type_name(type));
        }
        int bits = (int)value & 0xf;
        tessera_put(type, to.data, i, type == TESSERA_I4 && bits > 7 ? bits - 16 : bits);
    }
    free(from_data);
    free(tensor->data);
    *tensor = to;
    return 0;
}

int npy_read(const char *path, int wanted, TesseraTensor *tensor)
{
    Header h = {.path = path};
    struct stat info;
    FILE *file = fopen(path, "rbe");
    if (!file) {
        return fail_code(FAIL_READ, TESSERA_ENVIRONMENT, "cannot read %s: %s",
                         *path ? path : "a file of no name", strerror(errno));
    }
    int code = fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)
                   ? fail_code(FAIL_READ, TESSERA_ENVIRONMENT, "cannot read %s: %s", path,
                               strerror(EISDIR))
                   : read_header(file, &h);
    if (code == 0) {
        code = read_data(file, &h);
    }
    fclose(file);
    if (code == 0 && packs(h.tensor.type, wanted)) {
        code = pack(path, (TesseraType)wanted, &h.tensor);
    }
    if (code == 0 && is_bits_of(h.tensor.type, wanted)) {
        h.tensor.type = (TesseraType)wanted;
    }
    if (code == 0) {
        *tensor = h.tensor;
    }
    return code;
}

/* ---- writing ---- */

static const char *descr_of(TesseraType type)
{
    switch (type) {
    case TESSERA_I4: return "i1";
    case TESSERA_U4: return "u1";
    case TESSERA_F8E5M2: return "V1";
    default: break;
    }
    for (size_t i = 0; i < sizeof DESCRS / sizeof *DESCRS; i++) {
        if (DESCRS[i].type == type) {
            return DESCRS[i].descr;
        }
    }
    return "";
}

int npy_write(const char *path, const TesseraTensor *tensor)
{
    OutFile out;
    size_t elements, bytes;
    int code = out_open(path, &out);
    if (code != 0) {
        return code;
    }
    tensor_bytes(tensor, &elements, &bytes);
    void *packed = tensor_packed(tensor);
    char text[512];
    size_t capacity = sizeof text;
    bool byte = tessera_type_bytes(tensor->type) == 1;
    int n = snprintf(text, capacity, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                     byte ? '|' : '<', descr_of(tensor->type));
    for (int i = 0; i < tensor->rank; i++) {
        n += snprintf(text + n, capacity - (size_t)n, "%s%lld%s", i ? ", " : "",
                      (long long)tensor->dims[i], tensor->rank == 1 ? "," : "");
    }
    n += snprintf(text + n, capacity - (size_t)n, "), }");
    while ((MAGIC_BYTES + 4 + n + 1) % ALIGN_HEADER != 0) {
        text[n++] = ' ';
    }
    text[n++] = '\n';
    fwrite(MAGIC, 1, MAGIC_BYTES, out.file);
    fputc(1, out.file);
    fputc(0, out.file);
    fputc(n & 0xff, out.file);
    fputc(n >> 8, out.file);
    fwrite(text, 1, (size_t)n, out.file);

    if (tessera_type_size(tensor->type, 2) == 1) {
        for (size_t i = 0; i < elements; i++) {
            fputc((int)tessera_get(tensor->type, packed, i) & 0xff, out.file);
        }
    } else {
        fwrite(packed, 1, bytes, out.file);
    }
    free(packed);
    return out_close(&out);
}
