/* SPDX-License-Identifier: Apache-2.0 */
/* The measuring worker of a sweep, which owns a device. It loads candidates, compares their
 * results with those of the derived schedule, and times them in the order that the parent asks
 * for. After a fault the device's context may be corrupt, so the worker ends and the parent starts
 * another one. */
#include "cli/data/array_args.h"
#include "cli/data/backend_args.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune_sweep.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POISON = 0xa5, NO_MEMORY = 2, OUT_OF_RESOURCES = 701 /* what CUDA and HIP call them */ };

typedef struct Slot {
    char id[24];
    TesseraKernel *kernel;
    TesseraLaunch *launch;
} Slot;

typedef struct Measure {
    SweepWork *work;
    TesseraArg *args;
    void **reference;     /* of each array: the derived schedule's answer; NULL: no result */
    Envelope **envelopes; /* by the parent's number, of each array */
    size_t n_envelopes;
    void *poison, *answer; /* as many bytes as the largest result */
    bool pinned;           /* which the device reads and writes by itself */
    Slot *slots;
    size_t n_slots;
} Measure;

/* ---- slots ---- */

static void slot_free(Slot *slot)
{
    tessera_launch_free(slot->launch);
    tessera_kernel_free(slot->kernel);
    *slot = (Slot){0};
}

static Slot *slot_find(Measure *m, const char *id)
{
    for (size_t i = 0; i < m->n_slots; i++) {
        if (m->slots[i].kernel && strcmp(m->slots[i].id, id) == 0) {
            return &m->slots[i];
        }
    }
    return NULL;
}

static Slot *slot_new(Measure *m, const char *id)
{
    Slot *slot = slot_find(m, id);
    for (size_t i = 0; i < m->n_slots && !slot; i++) {
        slot = m->slots[i].kernel ? NULL : &m->slots[i];
    }
    if (!slot) {
        Slot *more = alloc_or_exit((m->n_slots + 16) * sizeof *more);
        if (m->n_slots > 0) {
            memcpy(more, m->slots, m->n_slots * sizeof *more);
        }
        free(m->slots);
        m->slots = more;
        slot = &more[m->n_slots];
        m->n_slots += 16;
    }
    slot_free(slot);
    snprintf(slot->id, sizeof slot->id, "%s", id);
    return slot;
}

/* ---- answers ---- */

/* Poisons the results, so that elements which no kernel writes are seen; restores those that are
 * also read. */
static bool prepare_results(Measure *m)
{
    const Session *s = &m->work->session;
    for (size_t i = 0; i < m->work->arrays.n; i++) {
        const Array *array = &m->work->arrays.items[i];
        if (array_is_result(array)) {
            const void *from = array->param->io == TESSERA_INOUT ? array->block : m->poison;
            if (tessera_copy_in(s->device, array->memory, from, array->bytes) != TESSERA_OK) {
                return false;
            }
        }
    }
    return true;
}

static bool take_reference(Measure *m)
{
    const Session *s = &m->work->session;
    for (size_t i = 0; i < m->work->arrays.n; i++) {
        const Array *array = &m->work->arrays.items[i];
        if (array_is_result(array)) {
            m->reference[i] = m->reference[i] ? m->reference[i] : alloc_or_exit(array->bytes);
            if (tessera_copy_out(s->device, m->reference[i], array->memory, array->bytes) !=
                TESSERA_OK) {
                return false;
            }
        }
    }
    return true;
}

/* The bound without the interpreter: a few units in the last place of the largest element, in the
 * type of the result or in f32, in which most kernels sum. */
static void guess_envelope(const Array *array, const void *reference, Envelope *envelope)
{
    static const double least = 1.0 / (1 << 17);
    size_t elements, bytes;
    double largest = 0, eps = least;
    TesseraTensor tensor = array->tensor;
    tensor_bytes(&tensor, &elements, &bytes);
    for (size_t i = 0; i < elements && tensor.rank >= 0; i++) {
        double value = tessera_get(tensor.type, reference, i);
        double size = value < 0 ? -value : value;
        largest = size > largest && size < 1e300 ? size : largest;
    }
    if (tensor.type == TESSERA_BF16) {
        eps = 1.0 / (1 << 8);
    } else if (tensor.type == TESSERA_F16) {
        eps = 1.0 / (1 << 11);
    }
    bool exact = !tessera_type_is_float(tensor.type);
    envelope_add(envelope, largest, exact ? 0 : 8 * eps * largest);
    envelope_add(envelope, 0, exact ? 0 : 8 * eps * largest);
    envelope_close(envelope, 1);
}

/* The envelopes of all arrays that the parent calls by this number. */
static Envelope *envelopes_of(Measure *m, const char *number)
{
    size_t nth = (size_t)strtoull(number, NULL, 10);
    if (nth >= m->n_envelopes) {
        size_t n = nth + 16;
        Envelope **more = alloc_or_exit(n * sizeof *more);
        for (size_t i = 0; i < m->n_envelopes; i++) {
            more[i] = m->envelopes[i];
        }
        free(m->envelopes);
        m->envelopes = more;
        m->n_envelopes = n;
    }
    if (!m->envelopes[nth]) {
        m->envelopes[nth] = alloc_or_exit(m->work->arrays.n * sizeof *m->envelopes[nth]);
    }
    return m->envelopes[nth];
}

/* `how`: "bits", or the number of envelopes. 1: the results are equal; 0: they differ, which has
 * been answered; -1: the device fails. */
static int compare_answers(Measure *m, const char *id, const char *how)
{
    const Session *s = &m->work->session;
    Envelope *envelopes = strcmp(how, "bits") == 0 ? NULL : envelopes_of(m, how);
    for (size_t i = 0; i < m->work->arrays.n; i++) {
        const Array *array = &m->work->arrays.items[i];
        SweepDifference d;
        if (!array_is_result(array)) {
            continue;
        }
        if (envelopes && !envelopes[i].known) {
            guess_envelope(array, m->reference[i], &envelopes[i]);
        }
        bool there =
            tessera_copy_out(s->device, m->answer, array->memory, array->bytes) == TESSERA_OK;
        size_t n = array->bytes / tessera_type_bytes(array->tensor.type);
        bool packed = tessera_type_size(array->tensor.type, 2) == 1;
        bool same =
            there && sweep_compare(array->tensor.type, packed ? 2 * array->bytes : n, m->answer,
                                   m->reference[i], envelopes ? &envelopes[i] : NULL, &d);
        if (!there || !same) {
            if (there) {
                printf("checked %s wrong '%s' differs from the derived schedule's in %zu elements; "
                       "first at "
                       "%zu: %.9g, derived %.9g, allowed %.3g\n",
                       id, array->param->name, d.different, d.first, d.got, d.want, d.bound);
            }
            return there ? 0 : -1;
        }
    }
    return 1;
}

/* ---- requests of the parent ---- */

/* Answers that the device can no longer be used. */
static bool answer_fault(Measure *m, const char *id)
{
    printf("fault %s %s\n", id, sweep_error_text(m->work));
    return false;
}

static bool answer_not_loaded(Measure *m, const char *id)
{
    const TesseraError *error = tessera_error(m->work->session.context);
    bool capacity = error->driver_code == NO_MEMORY || error->driver_code == OUT_OF_RESOURCES;
    printf("checked %s %s %s\n", id, capacity ? "room" : "crash", sweep_error_text(m->work));
    return true;
}

static bool run_once(Measure *m, const Slot *slot, double *seconds)
{
    TesseraMessages messages;
    (void)m;
    return tessera_launch_time(slot->launch, NULL, 1, seconds) == TESSERA_OK &&
           tessera_launch_messages(slot->launch, NULL, &messages) == TESSERA_OK &&
           messages.failures == 0;
}

/* Answers "checked"; false if the worker must end. */
static bool check(Measure *m, const char *id, const char *how, const char *lines)
{
    const Session *s = &m->work->session;
    Slot *slot = slot_new(m, id);
    double first, second;
    slot->kernel = sweep_compile(m->work, lines);
    if (!slot->kernel) {
        printf("checked %s %s %s\n", id, sweep_error_kind(m->work), sweep_error_text(m->work));
        return true;
    }
    if (tessera_prepare(slot->kernel, s->device, m->args, m->work->arrays.n, &slot->launch) !=
        TESSERA_OK) {
        answer_not_loaded(m, id);
        slot_free(slot);
        return true;
    }
    if (!prepare_results(m)) {
        return answer_fault(m, id);
    }
    printf("loaded %s\n", id);
    fflush(stdout);
    if (!run_once(m, slot, &first)) {
        return answer_fault(m, id);
    }
    printf("ran %s %.9g\n", id, first);
    fflush(stdout);
    bool reference = strcmp(how, "reference") == 0;
    if (reference && !take_reference(m)) {
        return answer_fault(m, id);
    }
    int same = reference ? 1 : compare_answers(m, id, how);
    if (same < 0) {
        return answer_fault(m, id);
    }
    if (same == 0) {
        slot_free(slot);
        return true;
    }
    if (!run_once(m, slot, &second)) { /* the first one had to load it */
        return answer_fault(m, id);
    }
    printf("ran %s %.9g\nchecked %s ok\n", id, second < first ? second : first, id);
    return true;
}

static bool turn(Measure *m, const char *id, const char *numbers)
{
    Slot *slot = slot_find(m, id);
    int warm_ups = 1, launches = 1;
    double rest = 0, seconds, ignored;
    char *end;
    warm_ups = (int)strtol(numbers, &end, 10);
    launches = (int)strtol(end, &end, 10);
    rest = strtod(end, &end);
    if (!slot || launches < 1) {
        return true;
    }
    if (rest > 0) {
        struct timespec pause = {(time_t)rest, (long)((rest - (double)(time_t)rest) * 1e9)};
        nanosleep(&pause, NULL);
    }
    if ((warm_ups > 0 &&
         tessera_launch_time(slot->launch, NULL, warm_ups, &ignored) != TESSERA_OK) ||
        tessera_launch_time(slot->launch, NULL, launches, &seconds) != TESSERA_OK) {
        return answer_fault(m, id);
    }
    printf("time %s %.9g\n", id, seconds / launches);
    return true;
}

static bool obey(Measure *m, char *line)
{
    const char *what = strsep(&line, " "), *id = line ? strsep(&line, " ") : "";
    if (strcmp(what, "check") == 0 && line) {
        const char *how = strsep(&line, " ");
        return check(m, id, how, line ? line : "");
    }
    if (strcmp(what, "turn") == 0 && line) {
        return turn(m, id, line);
    }
    if (strcmp(what, "drop") == 0) {
        Slot *slot = slot_find(m, id);
        if (slot) {
            slot_free(slot);
        }
    } else if (strcmp(what, "envelope") == 0 && line) {
        /* The rest of the line is "ARRAY e:bound ...", the envelope of one array. */
        char *text = line;
        const char *name = strsep(&text, " ");
        Envelope *envelopes = envelopes_of(m, id);
        for (size_t i = 0; i < m->work->arrays.n; i++) {
            if (strcmp(m->work->arrays.items[i].param->name, name) == 0) {
                envelope_read(&envelopes[i], text ? text : "");
            }
        }
    }
    return true;
}

/* ---- beginning ---- */

static int begin(Measure *m)
{
    SweepWork *work = m->work;
    Session *s = &work->session;
    size_t largest = 1;
    s->kernel = sweep_compile(work, "");
    if (!s->kernel) {
        return fail_context(s->context);
    }
    int code = arrays_complete(work->options, s, &work->compile, true, &work->arrays);
    code = code ? code : arrays_upload(s, &work->arrays, true);
    if (code != 0) {
        return code;
    }
    m->args = arrays_args(&work->arrays, true);
    m->reference = alloc_or_exit(work->arrays.n * sizeof *m->reference);
    for (size_t i = 0; i < work->arrays.n; i++) {
        size_t bytes = array_is_result(&work->arrays.items[i]) ? work->arrays.items[i].bytes : 0;
        largest = bytes > largest ? bytes : largest;
    }
    /* Both buffers are pinned if possible, because each candidate copies them. */
    TesseraDevice *device = m->work->session.device;
    m->pinned = tessera_alloc_host(device, largest, &m->poison) == TESSERA_OK;
    if (m->pinned && tessera_alloc_host(device, largest, &m->answer) != TESSERA_OK) {
        tessera_release_host(device, m->poison);
        m->pinned = false;
    }
    if (!m->pinned) {
        m->poison = alloc_or_exit(largest);
        m->answer = alloc_or_exit(largest);
    }
    memset(m->poison, POISON, largest);
    return 0;
}

static void end(Measure *m)
{
    for (size_t i = 0; i < m->n_slots; i++) {
        slot_free(&m->slots[i]);
    }
    for (size_t i = 0; m->reference && i < m->work->arrays.n; i++) {
        free(m->reference[i]);
    }
    free(m->slots);
    free(m->reference);
    for (size_t i = 0; i < m->n_envelopes; i++) {
        free(m->envelopes[i]);
    }
    free(m->envelopes);
    if (m->pinned) {
        tessera_release_host(m->work->session.device, m->poison);
        tessera_release_host(m->work->session.device, m->answer);
    } else {
        free(m->poison);
        free(m->answer);
    }
    free(m->args);
}

int sweep_measure(SweepWork *work)
{
    Measure m = {.work = work};
    char *line = NULL;
    size_t capacity = 0;
    int code = begin(&m);
    bool going = code == 0;
    if (going) {
        puts("ready");
    }
    while (going) {
        fflush(stdout);
        going = sweep_read(&line, &capacity) && obey(&m, line);
    }
    fflush(stdout);
    free(line);
    end(&m);
    return code;
}
