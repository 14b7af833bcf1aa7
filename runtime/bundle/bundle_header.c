/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the C header of a bundle, with one typed function per kernel. */
#include "runtime/api/api_objects.h"
#include "runtime/bundle/bundle_build.h"

#include <inttypes.h>
#include <string.h>

/* ---- names ---- */

/* True for names that C and C++ reserve and for the names of the header's own parameters. */
static bool is_taken(const char *name)
{
    static const char *const taken[] = {
        "alignas",
        "alignof",
        "and",
        "and_eq",
        "asm",
        "auto",
        "bitand",
        "bitor",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "compl",
        "concept",
        "const",
        "consteval",
        "constexpr",
        "constinit",
        "const_cast",
        "continue",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "dynamic_cast",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "not_eq",
        "nullptr",
        "operator",
        "or",
        "or_eq",
        "private",
        "protected",
        "public",
        "register",
        "reinterpret_cast",
        "requires",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "static_assert",
        "static_cast",
        "struct",
        "switch",
        "template",
        "this",
        "thread_local",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "typeof",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "xor",
        "xor_eq",
        "device",
        "stream",
        "launch",
        "char8_t",
        "char16_t",
        "char32_t",
        "co_await",
        "co_return",
        "co_yield",
        "NULL",
        "errno",
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (text_equal(taken[i], name)) {
            return true;
        }
    }
    return false;
}

void bundle_name_args(BundleBuilder *builder, BundleFunctionInfo *function)
{
    Arena *arena = &builder->work->arena;
    size_t n = function->n_params + (size_t)function->of.n_sizes;
    function->args = ARENA_ARRAY(arena, const char *, n);
    for (size_t i = 0; i < n; i++) {
        const char *name = i < function->n_params ? function->params[i].name
                                                  : function->of.sizes[i - function->n_params];
        bool repeated = is_taken(name);
        for (size_t j = 0; j < i; j++) {
            repeated = repeated || text_equal(function->args[j], name);
        }
        function->args[i] = repeated ? arena_printf(arena, "%s_%zu", name, i) : name;
    }
}

const char *bundle_name_twice(const BundleBuilder *builder)
{
    Arena *arena = &builder->work->arena;
    for (size_t i = 0; i < builder->functions.n; i++) {
        const char *name = builder->functions.items[i].of.name;
        const char *other = arena_printf(arena, "%s_prepare", name);
        if (text_equal(name, "bundle") || text_equal(other, "bundle")) {
            return name;
        }
        for (size_t j = 0; j < builder->functions.n; j++) {
            const char *next = builder->functions.items[j].of.name;
            if (text_equal(next, other) || (j > i && text_equal(next, name))) {
                return next;
            }
        }
    }
    return NULL;
}

/* ---- the text ---- */

static const char *c_type(DType dtype)
{
    switch (dtype) {
    case DT_BOOL: return "bool";
    case DT_I8:
    case DT_I4: return "int8_t";
    case DT_I16: return "int16_t";
    case DT_I32: return "int32_t";
    case DT_I64: return "int64_t";
    case DT_U32: return "uint32_t";
    case DT_U64: return "uint64_t";
    case DT_U16:
    case DT_F16:
    case DT_BF16: return "uint16_t";
    case DT_F32: return "float";
    case DT_F64: return "double";
    default: return "uint8_t";
    }
}

static DType type_of(const TesseraParam *param)
{
    DType dtype = DT_F32;
    dtype_from_name(param->type, strlen(param->type), &dtype);
    return dtype;
}

/* "sm_90a", "sm_80 (cubin, PTX)": the target, for NVIDIA with the forms of code in the object. */
static const char *target_words(const BundleBuilder *builder, const BundleVariant *of)
{
    bool object = false, ptx = false;
    for (size_t i = 0; i < builder->variants.n; i++) {
        const BundleVariant *at = &builder->variants.items[i];
        bool same = at->function == of->function && text_equal(at->target, of->target);
        object |= same && at->kind == BUNDLE_OBJECT;
        ptx |= same && at->kind == BUNDLE_PTX;
    }
    bool nvidia = strncmp(of->target, "sm_", 3) == 0;
    if (!nvidia || !(object || ptx)) {
        return of->target;
    }
    return arena_printf(&builder->work->arena, "%s (%s%s%s)", of->target, object ? "cubin" : "",
                        object && ptx ? ", " : "", ptx ? "PTX" : "");
}

static bool is_listed(const BundleBuilder *builder, size_t function, size_t variant, bool target)
{
    const BundleVariant *of = &builder->variants.items[variant];
    for (size_t i = 0; i < variant; i++) {
        const BundleVariant *at = &builder->variants.items[i];
        if ((size_t)at->function == function &&
            text_equal(target ? at->target : at->about, target ? of->target : of->about)) {
            return true;
        }
    }
    return false;
}

static void add_variants(const BundleBuilder *builder, size_t function, bool targets, Text *out)
{
    bool any = false;
    for (size_t i = 0; i < builder->variants.n; i++) {
        const BundleVariant *variant = &builder->variants.items[i];
        if ((size_t)variant->function == function && !is_listed(builder, function, i, targets)) {
            text_printf(out, "%s%s", any ? (targets ? ", " : "; ") : "",
                        targets ? target_words(builder, variant) : variant->about);
            any = true;
        }
    }
}

/* Appends a parameter, on a new line if the line would exceed 100 columns. */
static void add_param(Text *out, size_t column, const char *text)
{
    size_t at = out->n;
    while (at > 0 && out->data[at - 1] != '\n') {
        at--;
    }
    bool wide = out->n - at + strlen(text) + strlen(", );") > 100;
    text_add(out, wide ? ",\n" : ", ");
    text_repeat(out, ' ', wide ? (int)column : 0);
    text_add(out, text);
}

static void add_params(const BundleFunctionInfo *function, size_t column, Text *out)
{
    size_t n = function->n_params + (size_t)function->of.n_sizes;
    for (size_t i = 0; i < n; i++) {
        Text text = text_new(out->arena);
        const TesseraParam *param = i < function->n_params ? &function->params[i] : NULL;
        if (param && param->rank >= 0) {
            text_printf(&text, "%svoid *", param->io == TESSERA_IN ? "const " : "");
        } else {
            text_printf(&text, "%s ", param ? c_type(type_of(param)) : "int64_t");
        }
        text_add(&text, function->args[i]);
        add_param(out, column, text.data);
    }
}

static void add_function(const BundleBuilder *builder, size_t index, Text *out)
{
    const BundleFunctionInfo *function = &builder->functions.items[index];
    const char *symbol = function->launcher.symbol;
    size_t line = strlen("TesseraStatus (") + strlen(symbol);
    text_printf(out, "/* %s%s%s:\n", function->of.kernel, *function->bound ? " with " : "",
                function->bound);
    for (size_t i = 0; i < function->n_params; i++) {
        /* Each parameter of the kernel has a line with its type and shape. */
        const TesseraParam *param = &function->params[i];
        const char *arg = function->args[i];
        static const char *const ios[] = {"", ", written", ", read and written"};
        text_printf(out, " *   %s: %s", arg, param->type);
        for (int axis = 0; axis < param->rank; axis++) {
            text_printf(out, "%s%s", axis ? ", " : "[", param->dims[axis]);
        }
        DType dtype = type_of(param);
        bool bits = param->rank < 0 && dtype_is_float(dtype) && dtype_bytes(dtype) < 4;
        const char *close = param->rank > 0 ? "]" : "";
        text_printf(out, "%s%s%s\n", param->rank == 0 ? "[]" : close, ios[param->io],
                    bits ? ", its bits" : "");
    }
    text_add(out, " * for ");
    add_variants(builder, index, true, out);
    text_add(out, "; made for ");
    add_variants(builder, index, false, out);
    text_add(out, ". */\n");
    text_printf(out, "TesseraStatus %s(TesseraDevice *device", symbol);
    add_param(out, line, "void *stream");
    add_params(function, line, out);
    line += strlen("_prepare");
    text_printf(out, ");\nTesseraStatus %s_prepare(TesseraDevice *device", symbol);
    add_params(function, line, out);
    add_param(out, line, "TesseraLaunch **launch");
    text_add(out, ");\n\n");
}

void bundle_header(const BundleBuilder *builder, Text *out)
{
    Text guard = text_new(out->arena);
    for (const char *at = builder->name; *at; at++) {
        text_char(&guard, *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at);
    }
    text_printf(out,
                "/* Made by tessera %s from %s; do not change it. How these are used stands in\n"
                " * <tessera/launch.h>. */\n#ifndef %s_BUNDLE_H\n#define %s_BUNDLE_H\n\n"
                "#include <tessera/launch.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n"
                "extern const TesseraBundle %s_bundle;\n\n",
                TESSERA_VERSION, path_file(builder->program->name), guard.data, guard.data,
                builder->name);
    for (size_t i = 0; i < builder->functions.n; i++) {
        add_function(builder, i, out);
    }
    text_add(out, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}
