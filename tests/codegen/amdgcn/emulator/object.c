/* SPDX-License-Identifier: Apache-2.0 */
/* Reads code objects: ELF, the metadata (MessagePack in a note), kernel descriptors, code. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <elf.h>
#include <inttypes.h>
#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn static void bad(const char *what)
{
    fprintf(stderr, "emulator: the object is bad: %s\n", what);
    exit(1);
}

/* ---- MessagePack ---- */

typedef struct Reader {
    const uint8_t *at, *end;
} Reader;

typedef enum ValueKind { NUMBER, TEXT, ARRAY, MAP } ValueKind;
typedef struct Value {
    ValueKind kind;
    int64_t number; /* or the count of what follows */
    const uint8_t *text;
} Value;

static uint64_t big_endian(Reader *reader, int n)
{
    uint64_t value = 0;
    if (reader->end - reader->at < n) {
        bad("metadata ends");
    }
    while (n-- > 0) {
        value = value << 8 | *reader->at++;
    }
    return value;
}

static Value text_value(Reader *reader, uint64_t n)
{
    Value value = {TEXT, (int64_t)n, reader->at};
    if ((uint64_t)(reader->end - reader->at) < n) {
        bad("metadata ends");
    }
    reader->at += n;
    return value;
}

static Value next_value(Reader *reader)
{
    unsigned tag = (unsigned)big_endian(reader, 1);
    if (tag < 0x80 || tag >= 0xe0) {
        return (Value){NUMBER, (int8_t)tag, NULL};
    }
    if (tag < 0x90) {
        return (Value){MAP, tag & 15, NULL};
    }
    if (tag < 0xa0) {
        return (Value){ARRAY, tag & 15, NULL};
    }
    if (tag < 0xc0) {
        return text_value(reader, tag & 31);
    }
    switch (tag) {
    case 0xc0:
    case 0xc2: return (Value){NUMBER, 0, NULL};
    case 0xc3: return (Value){NUMBER, 1, NULL};
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: return (Value){NUMBER, (int64_t)big_endian(reader, 1 << (tag - 0xcc)), NULL};
    case 0xd0: return (Value){NUMBER, (int8_t)big_endian(reader, 1), NULL};
    case 0xd1: return (Value){NUMBER, (int16_t)big_endian(reader, 2), NULL};
    case 0xd2: return (Value){NUMBER, (int32_t)big_endian(reader, 4), NULL};
    case 0xd3: return (Value){NUMBER, (int64_t)big_endian(reader, 8), NULL};
    case 0xd9:
    case 0xda:
    case 0xdb: return text_value(reader, big_endian(reader, 1 << (tag - 0xd9)));
    case 0xdc:
    case 0xdd: return (Value){ARRAY, (int64_t)big_endian(reader, tag == 0xdc ? 2 : 4), NULL};
    case 0xde:
    case 0xdf: return (Value){MAP, (int64_t)big_endian(reader, tag == 0xde ? 2 : 4), NULL};
    default: bad("metadata of another form");
    }
}

static bool is(Value value, const char *text)
{
    return value.kind == TEXT && (size_t)value.number == strlen(text) &&
           memcmp(value.text, text, strlen(text)) == 0;
}

static void skip(Reader *reader)
{
    Value value = next_value(reader);
    int64_t n = value.kind == ARRAY ? value.number : value.kind == MAP ? 2 * value.number : 0;
    while (n-- > 0) {
        skip(reader);
    }
}

static char *copy_text(Value value)
{
    char *copy = calloc(1, (size_t)value.number + 1);
    memcpy(copy, value.text, (size_t)value.number);
    return copy;
}

static void read_argument(Reader *reader, Kernel *kernel)
{
    int64_t offset = -1, size = -1;
    char *kind = NULL;
    for (int64_t n = next_value(reader).number; n-- > 0;) {
        Value key = next_value(reader);
        if (is(key, ".offset")) {
            offset = next_value(reader).number;
        } else if (is(key, ".size")) {
            size = next_value(reader).number;
        } else if (is(key, ".value_kind")) {
            free(kind);
            kind = copy_text(next_value(reader));
        } else {
            skip(reader);
        }
    }
    if (kind && strncmp(kind, "hidden_", 7) == 0) {
        kernel->hidden[kernel->n_hidden++] = (Hidden){kind, (int)offset, (int)size};
    } else {
        kernel->args[kernel->n_args][0] = (int)offset;
        kernel->args[kernel->n_args++][1] = (int)size;
        free(kind);
    }
}

static void read_kernel(Reader *reader, Kernel *kernel)
{
    const struct {
        const char *name;
        int *to;
    } NUMBERS[] = {{".kernarg_segment_size", &kernel->kernarg_bytes},
                   {".group_segment_fixed_size", &kernel->lds_bytes},
                   {".private_segment_fixed_size", &kernel->scratch_bytes},
                   {".wavefront_size", &kernel->wave_size},
                   {".max_flat_workgroup_size", &kernel->max_threads}};
    for (int64_t n = next_value(reader).number; n-- > 0;) {
        Value key = next_value(reader);
        if (is(key, ".args")) {
            for (int64_t i = next_value(reader).number; i-- > 0;) {
                if (kernel->n_args == MAX_ARGS || kernel->n_hidden == MAX_HIDDEN) {
                    bad("too many arguments");
                }
                read_argument(reader, kernel);
            }
            continue;
        }
        if (is(key, ".symbol")) {
            free(kernel->name);
            kernel->name = copy_text(next_value(reader));
            continue;
        }
        if (is(key, ".reqd_workgroup_size")) {
            next_value(reader);
            kernel->required_threads = 1;
            for (int i = 0; i < 3; i++) {
                kernel->required_threads *= (int)next_value(reader).number;
            }
            continue;
        }
        if (is(key, ".uses_dynamic_stack")) {
            if (next_value(reader).number != 0) {
                bad("a kernel has a stack");
            }
            continue;
        }
        size_t i = 0;
        for (; i < sizeof NUMBERS / sizeof *NUMBERS && !is(key, NUMBERS[i].name); i++) {}
        if (i < sizeof NUMBERS / sizeof *NUMBERS) {
            *NUMBERS[i].to = (int)next_value(reader).number;
        } else {
            skip(reader);
        }
    }
}

static void read_metadata(Object *object, const uint8_t *bytes, size_t size)
{
    Reader reader = {bytes, bytes + size};
    for (int64_t n = next_value(&reader).number; n-- > 0;) {
        Value key = next_value(&reader);
        if (is(key, "amdhsa.kernels")) {
            for (int64_t i = next_value(&reader).number; i-- > 0;) {
                if (object->n_kernels == MAX_KERNELS) {
                    bad("too many kernels");
                }
                read_kernel(&reader, &object->kernels[object->n_kernels++]);
            }
        } else if (is(key, "amdhsa.target")) {
            char *target = copy_text(next_value(&reader));
            const char *name = strrchr(target, '-') + 1;
            snprintf(object->target, sizeof object->target, "%.*s", (int)strcspn(name, ":"), name);
            free(target);
        } else {
            skip(&reader);
        }
    }
    object->major =
        object->target[3] == '9' ? 9 : atoi((char[]){object->target[3], object->target[4], 0});
}

/* ---- ELF ---- */

static const uint8_t *part(const Object *object, uint64_t offset, uint64_t size)
{
    if (offset > object->size || size > object->size - offset) {
        bad("a section lies outside");
    }
    return object->bytes + offset;
}

static void read_notes(Object *object, const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    while (end - at >= (int)sizeof(Elf64_Nhdr)) {
        const Elf64_Nhdr *note = (const Elf64_Nhdr *)(const void *)at;
        const uint8_t *name = at + sizeof *note;
        const uint8_t *text = name + (note->n_namesz + 3) / 4 * 4;
        if (note->n_type == 32 && memcmp(name, "AMDGPU", 7) == 0) { /* NT_AMDGPU_METADATA */
            read_metadata(object, text, note->n_descsz);
        }
        at = text + (note->n_descsz + 3) / 4 * 4;
    }
}

static uint32_t word(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

/* Sizes of what a wave gets; that they say what the metadata says. */
static void read_descriptor(Object *object, Kernel *kernel, const uint8_t *bytes, uint64_t address)
{
    int64_t entry;
    memcpy(&entry, bytes + 16, sizeof entry);
    uint32_t first = word(bytes + 48), third = word(bytes + 44);
    kernel->descriptor = bytes;
    kernel->entry = address + (uint64_t)entry;
    bool unified = strcmp(object->target, "gfx90a") >= 0 && object->major == 9;
    kernel->vgprs = (int)((first & 63) + 1) * 8;
    kernel->accum_offset = unified ? (int)((third & 63) + 1) * 4 : kernel->vgprs;
    kernel->sgprs = object->major == 9 ? (int)((first >> 6 & 15) + 1) * 8 : S_VCC;
    if ((int)word(bytes) != kernel->lds_bytes || (int)word(bytes + 8) != kernel->kernarg_bytes) {
        bad("descriptor and metadata differ in local memory or arguments");
    }
    if ((int)word(bytes + 4) != kernel->scratch_bytes) {
        bad("descriptor and metadata differ in scratch memory");
    }
    if ((first >> 12 & 15) != 0 || (first >> 16 & 15) != 15) {
        bad("another rounding mode than to nearest, or denormals that are flushed");
    }
    bool wave32 = word(bytes + 56) >> 10 & 1;
    if (kernel->wave_size != (wave32 ? 32 : 64)) {
        bad("descriptor and metadata differ in the width of waves");
    }
}

static void read_symbols(Object *object, const Elf64_Shdr *sections, int n)
{
    for (int i = 0; i < n; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) {
            continue;
        }
        const char *names = (const char *)part(object, sections[sections[i].sh_link].sh_offset, 1);
        const Elf64_Sym *symbol =
            (const void *)part(object, sections[i].sh_offset, sections[i].sh_size);
        for (size_t k = 0; k < sections[i].sh_size / sizeof *symbol; k++) {
            for (int j = 0; j < object->n_kernels && symbol[k].st_shndx < n; j++) {
                const Elf64_Shdr *home = &sections[symbol[k].st_shndx];
                if (strcmp(object->kernels[j].name, names + symbol[k].st_name) == 0) {
                    uint64_t at = symbol[k].st_value - home->sh_addr + home->sh_offset;
                    read_descriptor(object, &object->kernels[j], part(object, at, 64),
                                    symbol[k].st_value);
                }
            }
        }
    }
}

static void read_file(Object *object, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        bad("it cannot be read");
    }
    object->size = (size_t)ftell(file);
    uint8_t *bytes = malloc(object->size + 1);
    rewind(file);
    if (fread(bytes, 1, object->size, file) != object->size) {
        bad("it cannot be read");
    }
    object->bytes = bytes;
    fclose(file);
}

void object_read(Object *object, const char *path)
{
    read_file(object, path);
    object_load(object, object->bytes, object->size);
}

void object_drop(Object *object)
{
    for (size_t i = 0; i < object->n_code; i++) {
        free((void *)(uintptr_t)object->code[i].text);
        free(object->code[i].second);
    }
    free(object->code);
    for (int i = 0; i < object->n_kernels; i++) {
        for (int k = 0; k < object->kernels[i].n_hidden; k++) {
            free(object->kernels[i].hidden[k].kind);
        }
        free(object->kernels[i].name);
    }
}

void object_load(Object *object, const uint8_t *bytes, size_t size)
{
    object->bytes = bytes;
    object->size = size;
    const Elf64_Ehdr *head = (const void *)part(object, 0, sizeof *head);
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_machine != 224 /* EM_AMDGPU */) {
        bad("no ELF for AMDGPU");
    }
    if (head->e_ident[EI_OSABI] != 64 || head->e_ident[EI_ABIVERSION] != 3) {
        bad("not version 5 of code objects for HSA");
    }
    int n = head->e_shnum;
    const Elf64_Shdr *sections =
        (const void *)part(object, head->e_shoff, (uint64_t)n * sizeof *sections);
    for (int i = 0; i < n; i++) {
        if (sections[i].sh_type == SHT_NOTE) {
            read_notes(object, part(object, sections[i].sh_offset, sections[i].sh_size),
                       sections[i].sh_size);
        }
        if (sections[i].sh_type == SHT_RELA && sections[i].sh_size && !object->only_decoded) {
            bad("relocations");
        }
    }
    read_symbols(object, sections, n);
    for (int i = 0; i < n; i++) {
        if (sections[i].sh_flags & SHF_EXECINSTR) {
            object_decode(object, part(object, sections[i].sh_offset, sections[i].sh_size),
                          sections[i].sh_size, sections[i].sh_addr);
        }
    }
}

/* ---- code ---- */

static void link_branches(Object *object)
{
    for (size_t i = 0; i < object->n_code; i++) {
        Inst *inst = &object->code[i];
        if (inst->target == -1) {
            int64_t words = (int16_t)inst->operands[0].integer;
            uint64_t to = inst->address + 4 + (uint64_t)(words * 4);
            inst->target = (int)object_at(object, to);
        }
    }
}

void object_decode(Object *object, const uint8_t *text, size_t size, uint64_t address)
{
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    LLVMDisasmContextRef context =
        LLVMCreateDisasmCPU("amdgcn-amd-amdhsa", object->target, NULL, 0, NULL, NULL);
    if (!context) {
        bad("its target is not known to LLVM");
    }
    object->code = calloc(size / 4 + 1, sizeof *object->code);
    object->code_begin = address;
    for (size_t at = 0; at < size;) {
        char line[256];
        size_t n = LLVMDisasmInstruction(context, (uint8_t *)text + at, size - at, address + at,
                                         line, sizeof line);
        if (n == 0) {
            fprintf(stderr, "emulator: %s: no instruction at 0x%" PRIx64 "\n", object->target,
                    address + at);
            exit(1);
        }
        Inst *inst = &object->code[object->n_code++];
        inst->text = strdup(line + strspn(line, " \t"));
        inst->address = address + at;
        inst->bytes = (int)n;
        const char *problem =
            object->only_decoded ? NULL : decode_one(inst, inst->text, object->major);
        if (problem) {
            fprintf(stderr, "emulator: %s: %s is not emulated: %s\n", object->target, problem,
                    inst->text);
            exit(2);
        }
        at += (size_t)inst->bytes;
    }
    LLVMDisasmDispose(context);
    link_branches(object);
}

size_t object_at(const Object *object, uint64_t address)
{
    size_t low = 0, high = object->n_code;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (object->code[middle].address < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == object->n_code || object->code[low].address != address) {
        bad("a branch to no instruction");
    }
    return low;
}
