/* SPDX-License-Identifier: Apache-2.0 */
/* Rings: for each set of tiles that a product waits for, slots of shared memory and two barriers:
 * `full` (the copies are there) and `empty` (the product has read them). */
#include "passes/stage.h"

#include "passes/tile.h"

enum {
    MOST_SLOTS = 4,       /* beyond this, copies run further ahead than latency asks for */
    SCRATCH_BYTES = 4096, /* left for reductions across warps and barriers */
};

/* The first item of the same load: several products may read one tile. */
static Staged *first_of_load(Stager *s, const Staged *item)
{
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].bulk && s->items[i].load == item->load) {
            return &s->items[i];
        }
    }
    return NULL;
}

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
        const Staged *first = first_of_load(s, item);
        if (first != item) {
            item->stream = first->stream;
            s->streams[item->stream].many = true;
            continue;
        }
        item->stream = stream_of(s, item);
        Stream *stream = &s->streams[item->stream];
        stream->loads++;
        stream->bytes += item->rows * item->cols * dtype_bytes(item->load->results[0]->type->dtype);
    }
}

static const Staged *item_of(const Stager *s, int stream, int side)
{
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].bulk && s->items[i].stream == stream && s->items[i].side == side) {
            return &s->items[i];
        }
    }
    return NULL;
}

static bool same_tiles(const Staged *a, const Staged *b)
{
    return a == b || (a && b && a->load->operands[0] == b->load->operands[0] &&
                      a->rows == b->rows && a->cols == b->cols);
}

/* The same tiles of the same tensors, in two loops of one block: the ring runs on. */
static bool can_share(const Stager *s, int a, int b)
{
    const Block *first = s->streams[a].home, *second = s->streams[b].home;
    return first != second && first->parent && second->parent && first != s->body &&
           second != s->body && first->parent->parent == second->parent->parent &&
           same_tiles(item_of(s, a, 0), item_of(s, b, 0)) &&
           same_tiles(item_of(s, a, 1), item_of(s, b, 1));
}

static bool leads_in(const Stager *s, int leader, const Block *home)
{
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].leader == leader && s->streams[i].home == home) {
            return true;
        }
    }
    return false;
}

static void choose_leaders(Stager *s)
{
    for (int i = 0; i < s->n_streams; i++) {
        s->streams[i].leader = i;
        for (int k = 0; k < i && s->streams[i].leader == i; k++) {
            if (s->streams[k].leader == k && can_share(s, k, i) &&
                !leads_in(s, k, s->streams[i].home)) {
                s->streams[i].leader = k;
            }
        }
    }
}

/* What goes to shared memory through registers, beside the rings. */
static int64_t plain_bytes(const Stager *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < s->n; i++) {
        const Staged *item = &s->items[i];
        bool stays = item->side == 0 && text_same(product_unit(s->func, item->dot), "wgmma");
        if (!item->bulk && !stays) {
            bytes += item->rows * item->cols * dtype_bytes(item->load->results[0]->type->dtype);
        }
    }
    return bytes;
}

/* Bytes that must exist once, and bytes a slot of all rings inside loops takes. */
static void measure(const Stager *s, int64_t *once, int64_t *each)
{
    *once = s->shared_bytes + plain_bytes(s);
    *each = 0;
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].leader != i) {
            continue;
        }
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
    if (slots < 1) {
        diag_error(s->func->diags, 505, schedule_given(s->func, "pipeline", "")->span,
                   "`pipeline %lld`: a ring has one slot at least", (long long)slots);
        slots = 1;
    } else if (slots > most) {
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

static void make_ring(Stager *s, Builder *at, int n)
{
    Stream *stream = &s->streams[n];
    stream->full = barrier_ring(s, at, stream->slots, stream->loads);
    stream->empty = barrier_ring(s, at, stream->slots, 1);
    stream->full->name = "full";
    stream->empty->name = "empty";
}

static void make_buffer(Stager *s, Builder *at, Staged *item)
{
    const Stream *stream = &s->streams[item->stream];
    const Staged *first = first_of_load(s, item);
    if (first != item) {
        item->shared = first->shared;
        return;
    }
    if (stream->leader != item->stream) {
        item->shared = item_of(s, stream->leader, item->side)->shared;
        return;
    }
    item->shared = shared_tile(s, at, item->load->results[0]->type->dtype, stream->slots,
                               item->rows, item->cols);
    item->shared->name = item->load->operands[0]->name;
}

void stage_rings(Stager *s, Builder *at)
{
    group_items(s);
    choose_leaders(s);
    choose_slots(s);
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].bulk) {
            make_buffer(s, at, &s->items[i]);
        }
    }
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].leader == i) {
            make_ring(s, at, i);
        } else {
            s->streams[i].full = s->streams[s->streams[i].leader].full;
            s->streams[i].empty = s->streams[s->streams[i].leader].empty;
        }
    }
}
