/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: for each set of tiles that a product waits for, slots of shared memory and two barriers:
 * `full` (the copies are there) and `empty` (the product has read them). */
#include "passes/stage.h"

enum {
    MOST_SLOTS = 4,        /* beyond this, copies run further ahead than latency asks for */
    SCRATCH_BYTES = 4096,  /* left for reductions across warps and barriers */
};

static int stream_of(Stager *s, const Staged *item)
{
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].home == item->load->parent && s->streams[i].dot == item->dot) {
            return i;
        }
    }
    s->streams[s->n_streams] = (Stream){.home = item->load->parent, .dot = item->dot, .slots = 1};
    return s->n_streams++;
}

static void group_items(Stager *s)
{
    for (int i = 0; i < s->n; i++) {
        Staged *item = &s->items[i];
        if (!item->bulk) {
            continue;
        }
        item->stream = stream_of(s, item);
        Stream *stream = &s->streams[item->stream];
        stream->loads++;
        stream->bytes += item->rows * item->cols * dtype_bytes(item->load->results[0]->type->dtype);
    }
}

/* Bytes that must exist once, and bytes a slot of all rings inside loops takes. */
static void measure(const Stager *s, int64_t *once, int64_t *each)
{
    *once = s->shared_bytes;
    *each = 0;
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].home == s->body) {
            *once += s->streams[i].bytes;
        } else {
            *each += s->streams[i].bytes;
        }
    }
}

static void does_not_fit(Stager *s, int64_t slots, int64_t once, int64_t each, int64_t most)
{
    Func *func = s->func;
    const Line *line = schedule_given(func, "pipeline", "");
    Diag *d = diag_error(func->diags, 505, line ? line->span : SPAN_NONE,
                         "the tiles do not fit the shared memory of %s: %lld bytes, of %d",
                         func->target->name, (long long)(once + slots * each + SCRATCH_BYTES),
                         func->target->shared_bytes);
    Text table = text_new(func->arena);
    for (int i = 0; i < s->n; i++) {
        const Staged *item = &s->items[i];
        int64_t ring = item->bulk && s->streams[item->stream].home != s->body ? slots : 1;
        const char *name = item->load->operands[0]->name;
        text_printf(&table, "%-12s %3lld x %4lld x %4lld  %8lld bytes\n", name ? name : "operand",
                    (long long)ring, (long long)item->rows, (long long)item->cols,
                    (long long)(ring * item->rows * item->cols *
                                dtype_bytes(item->load->results[0]->type->dtype)));
    }
    text_printf(&table, "%-12s %27lld bytes\n", "results", (long long)s->shared_bytes);
    text_printf(&table, "%-12s %27d bytes", "scratch", SCRATCH_BYTES);
    diag_note(func->diags, d, "%s", table.data);
    if (most >= 1) {
        diag_help(func->diags, d, "`pipeline %lld` fits", (long long)most);
    } else {
        diag_help(func->diags, d, "smaller tiles: halve one `tile` line");
    }
}

static void choose_slots(Stager *s)
{
    int64_t once, each;
    measure(s, &once, &each);
    int64_t room = s->func->target->shared_bytes - SCRATCH_BYTES - once;
    int64_t most = each ? room / each : (room >= 0 ? 1 : 0);
    int64_t derived = most > MOST_SLOTS ? MOST_SLOTS : most;
    int64_t slots =
        schedule_number(s->func, "pipeline", "", derived < 1 ? 1 : derived,
                        "%lld slots of %lld bytes fit beside %lld bytes that are there once",
                        (long long)most, (long long)each, (long long)once);
    if (slots < 1 || slots > most) {
        does_not_fit(s, slots, once, each, most);
        slots = 1;
    }
    for (int i = 0; i < s->n_streams; i++) {
        s->streams[i].slots = s->streams[i].home == s->body ? 1 : slots;
    }
}

static Value *barrier_ring(Stager *s, Builder *at, int64_t slots, int64_t arrivals)
{
    Type type = type_barrier(s->func, slots);
    Op *op = build_op(at, OP_BARRIER, 0, NULL, 1, &type, 0);
    op_set_int(s->func, op, ATTR_ARRIVALS, arrivals);
    return op->results[0];
}

void stage_rings(Stager *s, Builder *at)
{
    group_items(s);
    choose_slots(s);
    for (int i = 0; i < s->n; i++) {
        Staged *item = &s->items[i];
        if (item->bulk) {
            item->shared = shared_tile(s, at, item->load->results[0]->type->dtype,
                                       s->streams[item->stream].slots, item->rows, item->cols);
            item->shared->name = item->load->operands[0]->name;
        }
    }
    for (int i = 0; i < s->n_streams; i++) {
        s->streams[i].full = barrier_ring(s, at, s->streams[i].slots, s->streams[i].loads);
        s->streams[i].empty = barrier_ring(s, at, s->streams[i].slots, 1);
        s->streams[i].full->name = "full";
        s->streams[i].empty->name = "empty";
    }
}
