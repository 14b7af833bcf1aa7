/* SPDX-License-Identifier: Apache-2.0 */
/* Examines this machine: drivers, devices and tools, each with what is lost without it and how to
 * get it. It also runs a small kernel on each device, because a device that is present need not
 * work. */
#define _GNU_SOURCE
#include "runtime/api/api_objects.h"

#include <inttypes.h>
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Doctor {
    ErrorBoundary work;
    struct {
        TesseraFinding *items;
        size_t n, cap;
    } found;
};

static void add(struct Doctor *doctor, TesseraFinding finding)
{
    ARENA_PUSH(&doctor->work.arena, &doctor->found, finding);
}

/* ---- a kernel that runs ---- */

enum { TRIAL = 1000 };
static const char TRIAL_TEXT[] = "kernel trial(x: f32[N]) -> f32[N] = x * 2.0 + 1.0\n";

typedef struct Trial {
    TesseraContext *context;
    TesseraProgram *program;
    TesseraKernel *kernel;
    TesseraLaunch *launch;
    TesseraDevice *device;
    void *in, *out;
} Trial;

static bool launch_trial(Trial *t, float *data)
{
    size_t bytes = TRIAL * sizeof *data;
    TesseraFact any = {"N", 1, 0, 0};
    TesseraOptions options = {
        .target = tessera_device_info(t->device)->target, .facts = &any, .n_facts = 1};
    if (tessera_program_parse(t->context, "trial", TRIAL_TEXT, sizeof TRIAL_TEXT - 1,
                              &t->program) != TESSERA_OK ||
        tessera_compile(t->program, &options, &t->kernel) != TESSERA_OK ||
        tessera_alloc(t->device, bytes, &t->in) != TESSERA_OK ||
        tessera_alloc(t->device, bytes, &t->out) != TESSERA_OK) {
        return false;
    }
    TesseraArg args[] = {{.tensor = {t->in, TESSERA_F32, 1, {TRIAL}}},
                         {.tensor = {t->out, TESSERA_F32, 1, {TRIAL}}}};
    return tessera_copy_in(t->device, t->in, data, bytes) == TESSERA_OK &&
           tessera_prepare(t->kernel, t->device, args, 2, &t->launch) == TESSERA_OK &&
           tessera_launch(t->launch, NULL) == TESSERA_OK &&
           tessera_sync(t->device, NULL) == TESSERA_OK &&
           tessera_copy_out(t->device, data, t->out, bytes) == TESSERA_OK;
}

/* NULL: the answers are right; else what is wrong. */
static const char *try_device(TesseraContext *context, TesseraDevice *device)
{
    static float data[TRIAL];
    Trial t = {.context = context, .device = device};
    for (int i = 0; i < TRIAL; i++) {
        data[i] = (float)i;
    }
    bool ran = launch_trial(&t, data), right = ran;
    for (int i = 0; i < TRIAL && right; i++) {
        right = data[i] == (float)(2 * i + 1);
    }
    tessera_launch_free(t.launch);
    tessera_kernel_free(t.kernel);
    tessera_program_free(t.program);
    tessera_release(device, t.in);
    tessera_release(device, t.out);
    if (right) {
        return NULL;
    }
    if (ran) {
        return "a small kernel gives wrong answers";
    }
    return tessera_error(context)->message;
}

/* ---- devices ---- */

static const TesseraDeviceInfo *keep_info(Arena *arena, const TesseraDeviceInfo *info)
{
    TesseraDeviceInfo *kept = ARENA_NEW(arena, TesseraDeviceInfo);
    *kept = *info;
    kept->name = arena_strdup(arena, info->name);
    kept->target = arena_strdup(arena, info->target);
    return kept;
}

/* False: it cannot be opened. */
static bool find_device(struct Doctor *doctor, const char *kind, int ordinal)
{
    TesseraContext *context = doctor->work.context;
    Arena *arena = &doctor->work.arena;
    TesseraFinding finding = {.part = arena_printf(arena, "%s:%d", kind, ordinal)};
    TesseraDevice *device;
    if (tessera_device_open(context, kind, ordinal, &device) != TESSERA_OK) {
        finding.health = TESSERA_BROKEN;
        finding.text = arena_strdup(arena, tessera_error(context)->message);
        finding.cost = "nothing can be run on it";
        add(doctor, finding);
        return false;
    }
    Text text = text_new(arena);
    const TesseraDeviceInfo *info = finding.device = keep_info(arena, tessera_device_info(device));
    text_printf(&text,
                "%s: %s, %d units, %d threads and %d bytes of shared memory a block, %.1f GiB",
                info->name, info->target, info->units, info->max_threads, info->shared_bytes,
                (double)info->memory_bytes / (double)(1 << 30));
    bool known = target_find(info->target) != NULL;
    const char *wrong = known ? try_device(context, device) : "there is no such target";
    text_printf(&text, "; %s", wrong ? wrong : "a small kernel gives the right answers");
    finding.text = text.data;
    if (!known) {
        finding.health = TESSERA_ABSENT;
    } else if (wrong) {
        finding.health = TESSERA_BROKEN;
    } else {
        finding.health = TESSERA_HEALTHY;
    }
    finding.cost = wrong ? "nothing can be run on it" : NULL;
    finding.help = known ? NULL : "`tessera targets` lists what can be compiled for";
    add(doctor, finding);
    tessera_device_free(device);
    return finding.health == TESSERA_HEALTHY;
}

/* ---- hardware ---- */

typedef struct Vendor {
    const char *kind, *name, *pci, *node; /* node: what the kernel's part of the driver makes */
    const char *help;
} Vendor;

static const Vendor VENDORS[] = {
    {"cuda", "NVIDIA", "0x10de", "/dev/nvidiactl",
     "install NVIDIA's driver, 525 or newer, 530 for Hopper, 570 for Blackwell (Debian: "
     "nvidia-driver, of non-free; no toolkit is needed); start a container with --gpus all"},
    {"hip", "AMD", "0x1002", "/dev/kfd",
     "install ROCm's runtime (AMD's package hip-runtime-amd; Debian: libamdhip64-5), or name its "
     "folder in $ROCM_PATH; the user has to be in the groups render and video; start a container "
     "with --device /dev/kfd --device /dev/dri"},
};

static bool file_begins(const char *folder, const char *device, const char *name, const char *with)
{
    char path[1024], text[32] = "";
    int n = snprintf(path, sizeof path, "%s/%s/%s", folder, device, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "r") : NULL;
    bool same = file && fgets(text, sizeof text, file) && strncmp(text, with, strlen(with)) == 0;
    if (file) {
        fclose(file);
    }
    return same;
}

/* Display controllers (class 03) and accelerators (12) of a vendor on the PCI bus. */
static int count_cards(const char *vendor)
{
    static const char folder[] = "/sys/bus/pci/devices";
    DIR *devices = opendir(folder);
    int n = 0;
    for (struct dirent *at; devices && (at = readdir(devices));) {
        n += at->d_name[0] != '.' && file_begins(folder, at->d_name, "vendor", vendor) &&
             (file_begins(folder, at->d_name, "class", "0x03") ||
              file_begins(folder, at->d_name, "class", "0x12"));
    }
    if (devices) {
        closedir(devices);
    }
    return n;
}

/* "575.57.08" of /proc/driver/nvidia/version; what the loaded module says it is. */
static const char *nvidia_module(Arena *arena)
{
    char line[512] = "";
    FILE *file = fopen("/proc/driver/nvidia/version", "r");
    if (file) {
        char *got = fgets(line, sizeof line, file);
        fclose(file);
        for (char *word = got ? strtok(got, " \t\n") : NULL; word; word = strtok(NULL, " \t\n")) {
            if (strchr(word, '.') && word[strspn(word, "0123456789.")] == '\0') {
                return arena_strdup(arena, word);
            }
        }
    }
    return NULL;
}

/* ---- drivers ---- */

static const char *describe_driver(Arena *arena, const Vendor *vendor, const DeviceProbe *probe)
{
    Text text = text_new(arena);
    const char *module = strcmp(vendor->kind, "cuda") == 0 ? nvidia_module(arena) : NULL;
    int cards = count_cards(vendor->pci);
    if (probe->library[0]) {
        text_printf(&text, "%s, ", probe->library);
    }
    if (module) {
        text_printf(&text, "kernel module %s, ", module);
    }
    if (probe->error.text[0]) {
        text_add(&text, probe->error.text);
    } else {
        text_printf(&text, "%d device%s", probe->n_devices, probe->n_devices == 1 ? "" : "s");
    }
    text_printf(&text, "; %d %s card%s on the bus%s%s", cards, vendor->name, cards == 1 ? "" : "s",
                access(vendor->node, F_OK) == 0 ? ", " : ", no ", vendor->node);
    return text.data;
}

/* A library without a card is of a package that another one wanted; a card's module without a
 * library, or a library that fails with a card, is an installation that does not work. */
static TesseraHealth driver_health(const Vendor *vendor, const DeviceProbe *probe)
{
    bool node = access(vendor->node, F_OK) == 0, library = probe->library[0];
    bool cuda = strcmp(vendor->kind, "cuda") == 0; /* amdgpu makes its node without ROCm */
    if (probe->n_devices > 0) {
        return TESSERA_HEALTHY;
    }
    return node && (library || cuda) ? TESSERA_BROKEN : TESSERA_ABSENT;
}

static void find_driver(struct Doctor *doctor, const Vendor *vendor)
{
    Arena *arena = &doctor->work.arena;
    DeviceProbe probe;
    device_kind(vendor->kind)->probe(NULL, &probe);
    TesseraHealth health = driver_health(vendor, &probe);
    bool healthy = health == TESSERA_HEALTHY;
    add(doctor,
        (TesseraFinding){
            .part = vendor->kind,
            .health = health,
            .text = describe_driver(arena, vendor, &probe),
            .version = probe.version[0] ? arena_strdup(arena, probe.version) : NULL,
            .looked_for = arena_strdup(arena, probe.looked_for),
            .cost = healthy ? NULL
                            : arena_printf(arena, "kernels are compiled for %s's GPUs, not run",
                                           vendor->name),
            .help = healthy ? NULL : vendor->help});
    for (int i = 0; i < probe.n_devices; i++) {
        find_device(doctor, vendor->kind, i);
    }
}

/* ---- the compiler, its tools, the CPU ---- */

static void find_compiler(struct Doctor *doctor, const CodegenHost *host)
{
    Arena *arena = &doctor->work.arena;
    int targets = 0;
    while (tessera_target(doctor->work.context, (size_t)targets)) {
        targets++;
    }
    TesseraFinding finding = {.part = "compiler", .version = TESSERA_VERSION};
    if (host->why) {
        finding.health = TESSERA_BROKEN;
        finding.text = host->why;
        finding.cost = "only what is in the cache runs";
        finding.help = "install the library anew, all files of its folder";
    } else {
        finding.text = arena_printf(arena, "LLVM %s and its linker are inside; %d targets",
                                    host->llvm, targets);
    }
    add(doctor, finding);
}

static bool has_feature(const CodegenHost *host, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = host->features; (at = strstr(at, name)); at += n) {
        if (at > host->features && at[-1] == '+' && (at[n] == ',' || at[n] == '\0')) {
            return true;
        }
    }
    return false;
}

static void find_cpu(struct Doctor *doctor, const CodegenHost *host)
{
    TesseraContext *context = doctor->work.context;
    Text text = text_new(&doctor->work.arena);
    TesseraFinding finding = {.part = "cpu", .health = TESSERA_BROKEN};
    TesseraDevice *device;
    const char *wrong;
    text_add(&text, host->cpu);
    /* The features are those that code generation asks for, and those by which users know a
     * CPU. */
    static const char *const names[] = {"fma",        "f16c",       "avx2",       "avx512f",
                                        "avx512vnni", "avx512bf16", "avx512fp16", "amx-bf16",
                                        "neon",       "sve",        "sve2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (has_feature(host, names[i])) {
            text_printf(&text, ", %s", names[i]);
        }
    }
    if (tessera_device_open(context, "cpu", 0, &device) == TESSERA_OK) {
        finding.device = keep_info(&doctor->work.arena, tessera_device_info(device));
        wrong = try_device(context, device);
        text_printf(&text, "; %d of %ld threads, %.1f GiB", finding.device->units,
                    sysconf(_SC_NPROCESSORS_ONLN),
                    (double)finding.device->memory_bytes / (double)(1 << 30));
        tessera_device_free(device);
    } else {
        wrong = tessera_error(context)->message;
    }
    text_printf(&text, "; %s", wrong ? wrong : "a small kernel gives the right answers");
    finding.text = text.data;
    finding.health = wrong ? TESSERA_BROKEN : TESSERA_HEALTHY;
    if (wrong) {
        finding.cost = "nothing can be run on it";
    } else if (has_feature(host, "fma") || has_feature(host, "neon")) {
        finding.cost = NULL;
    } else {
        finding.cost = "without fma, a*b + c is a call: products of floats are slow";
    }
    add(doctor, finding);
}

static void find_ptxas(struct Doctor *doctor, const CodegenHost *host)
{
    const char *given = getenv("TESSERA_PTXAS");
    bool broken = given && *given && !host->ptxas;
    bool mute = host->ptxas && !host->ptxas_version;
    Arena *arena = &doctor->work.arena;
    TesseraFinding finding = {.part = "ptxas",
                              .health = TESSERA_HEALTHY,
                              .text = host->ptxas,
                              .version = host->ptxas_version,
                              .looked_for = "$TESSERA_PTXAS, $PATH, $CUDA_HOME/bin, "
                                            "$CUDA_PATH/bin, /usr/local/cuda/bin"};
    if (broken) {
        finding.health = TESSERA_BROKEN;
        finding.text = arena_printf(arena, "$TESSERA_PTXAS is %s, which cannot be run", given);
    } else if (mute) {
        finding.health = TESSERA_BROKEN;
        finding.text = arena_printf(arena, "%s does not report its version", host->ptxas);
    } else if (!host->ptxas) {
        finding.health = TESSERA_ABSENT;
        finding.text = "no assembler of NVIDIA's";
    }
    if (!host->ptxas) {
        finding.cost = "no --emit cubin; what is run is PTX, which the driver assembles, if it is "
                       "not older than the PTX";
        finding.help = "of the CUDA toolkit only this program is needed (package cuda-nvcc, or "
                       "nvidia-cuda-nvcc of PyPI): name it in $TESSERA_PTXAS";
    }
    add(doctor, finding);
}

static void find_cache(struct Doctor *doctor)
{
    TesseraCacheInfo info;
    if (tessera_cache_info(doctor->work.context, &info) != TESSERA_OK) {
        return;
    }
    const char *text =
        info.why ? arena_printf(&doctor->work.arena, "not used: %s", info.why)
                 : arena_printf(&doctor->work.arena, "%s: %" PRIu64 " entries, %.1f of %.1f MB",
                                info.folder, info.entries, (double)info.bytes * 1e-6,
                                (double)info.limit * 1e-6);
    add(doctor,
        (TesseraFinding){.part = "cache",
                         .health = info.why ? TESSERA_ABSENT : TESSERA_HEALTHY,
                         .text = text,
                         .looked_for = "$TESSERA_CACHE, $XDG_CACHE_HOME, $HOME",
                         .cost = info.why ? "every run compiles anew" : NULL,
                         .help = info.why ? "name a folder of yours in $TESSERA_CACHE" : NULL});
}

static bool doctor_task(void *user)
{
    struct Doctor *doctor = user;
    Arena *arena = &doctor->work.arena;
    CodegenHost host = {.cpu = "", .features = ""};
    const CodegenTable *codegen = codegen_find(arena, &host.why);
    if (codegen) {
        codegen->host(arena, &host);
    }
    find_compiler(doctor, &host);
    find_cpu(doctor, &host);
    for (size_t i = 0; i < sizeof VENDORS / sizeof *VENDORS; i++) {
        find_driver(doctor, &VENDORS[i]);
    }
    find_ptxas(doctor, &host);
    find_cache(doctor);
    return true;
}

/* ---- the public call ---- */

void doctor_free(TesseraContext *context)
{
    if (context->compiler->doctor) {
        work_free(&context->compiler->doctor->work);
        context_drop(context, context->compiler->doctor);
        context->compiler->doctor = NULL;
    }
}

TesseraStatus tessera_doctor(TesseraContext *context, const TesseraFinding **findings, size_t *n)
{
    if (!context || !findings || !n) {
        return context_null(context, __func__, !context ? "context" : findings ? "n" : "findings");
    }
    *findings = NULL;
    *n = 0;
    doctor_free(context);
    struct Doctor *doctor = context->compiler->doctor = context_take(context, sizeof *doctor);
    if (!doctor) {
        return TESSERA_ENVIRONMENT;
    }
    work_init(&doctor->work, context);
    TesseraStatus status = error_boundary_run(&doctor->work, doctor_task, NULL, doctor);
    if (status == TESSERA_OK) {
        *findings = doctor->found.items;
        *n = doctor->found.n;
    }
    return status;
}
