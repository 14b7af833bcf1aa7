/* SPDX-License-Identifier: Apache-2.0 */
/* Draws what the predicted time of a launch consists of, its pipeline over the first steps, and the
 * order in which its tiles are computed. */
#include "runtime/explain/explain_html.h"

#include "ir/build.h"
#include "runtime/explain/explain_grid.h"
#include "runtime/explain/explain_timeline.h"
#include "runtime/explain/explain_words.h"
#include "support/int_math.h"

#include <math.h>

/* ---- where the time goes ---- */

/* Bars of the predicted time: one behind the other, or all from the left. */
static void course_bars(const TimePart *parts, int n, double whole, bool in_turn, Text *out)
{
    double before = 0;
    for (int i = 0; i < n; i++) {
        text_add(out, "\n<tr><th scope=row>");
        html_words(out, parts[i].what);
        text_add(out, "<td class=n>");
        seconds_words(out, parts[i].seconds);
        text_printf(out,
                    "<td class=n>%.1f %%<td class=track><div style=\"margin-left:%.2f%%;"
                    "width:%.2f%%\"></div>",
                    100 * parts[i].seconds / whole, 100 * fmin(before / whole, 1),
                    100 * fmin(parts[i].seconds / whole, 1));
        before += in_turn ? parts[i].seconds : 0;
    }
    text_add(out, "</table></div>\n");
}

void html_course(const Report *report, const LaunchReport *launch, Text *out)
{
    const TimeCourse *course = &launch->course;
    static const char table[] =
        "<div class=wide tabindex=0><table class=\"lines bars course\"><tr><th>%s<th class=n>time"
        "<th class=n>share<th>";
    if (launch->predicted <= 0 || course->n_parts == 0) {
        return;
    }
    text_printf(out,
                "<h3>Where the time goes</h3><p>What follows one another on the busiest %s, and is "
                "together the time that the model expects.</p>\n",
                unit_words(report->target));
    text_printf(out, table, "in turn");
    course_bars(course->parts, course->n_parts, launch->predicted, true, out);
    if (course->n_alone > 0) {
        text_add(out, "<p>What each unit would take if it were alone; these overlap.</p>\n");
        text_printf(out, table, "alone");
        course_bars(course->alone, course->n_alone, launch->predicted, false, out);
    }
}

/* ---- the pipeline ---- */

static const struct {
    const char *class, *words;
} SPANS[N_SPAN] = {
    [SPAN_COPY] = {"copy", "copy"},
    [SPAN_PRODUCT] = {"product", "product"},
    [SPAN_WORK] = {"work", "work on elements"},
    [SPAN_WAIT] = {"wait", "wait for copies or a free stage"},
    [SPAN_WATCH] = {"watch", "wait for a product, for lanes or a turn"},
};

enum { WIDTH = 900, NAME = 84, ROW = 30, AXIS = 22, MIN_LABEL = 16 };

static void draw_spans(const Timeline *t, double scale, Text *out)
{
    for (size_t i = 0; i < t->spans.n; i++) {
        /* A span has its step as text if it is long enough. */
        const TimeSpan *span = &t->spans.items[i];
        double x = NAME + span->from * scale, width = (span->upto - span->from) * scale;
        int y = span->lane * ROW + 3;
        text_printf(out, "<rect class=%s x=%.1f y=%d width=%.1f height=%d><title>step %d: %s",
                    SPANS[span->kind].class, x, y, fmax(width, 1), ROW - 6, span->step,
                    span->kind >= SPAN_WAIT ? "waits for " : "");
        html_words(out, span->what ? span->what : SPANS[span->kind].words);
        text_printf(out, ", cycles %.0f to %.0f</title></rect>", span->from, span->upto);
        if (width >= MIN_LABEL && span->kind != SPAN_WORK) {
            text_printf(out, "<text class=in x=%.1f y=%d text-anchor=middle>", x + width / 2,
                        y + ROW / 2 + 1);
            if (span->kind == SPAN_COPY && width >= 2 * MIN_LABEL) {
                html_words(out, span->what);
                text_char(out, ' ');
            }
            text_printf(out, "%d</text>", span->step);
        }
    }
}

static void draw_axis(double end, double scale, int height, Text *out)
{
    double unit = pow(10, floor(log10(end / 3)));
    if (end / unit > 12) {
        unit *= 5;
    } else if (end / unit > 6) {
        unit *= 2;
    }
    for (double at = 0; at < end; at += unit) {
        text_printf(out, "<path class=grid d=\"M%.1f 0 V%d\"/><text x=%.1f y=%d>%.0f</text>",
                    NAME + at * scale, height, NAME + at * scale + 3, height + 15, at);
    }
}

/* What the roles do in the steady state. */
static void timeline_table(const Timeline *t, Text *out)
{
    text_add(out, "<table class=lines><tr><th>role");
    for (SpanKind kind = SPAN_WORK; kind < N_SPAN; kind++) {
        text_printf(out, "<th class=n>%s", SPANS[kind].words);
    }
    for (int lane = LANE_ROLES; lane < t->n_lanes && !t->lanes[lane].idle; lane++) {
        text_printf(out, "\n<tr><td>%s", t->lanes[lane].name);
        for (SpanKind kind = SPAN_WORK; kind < N_SPAN; kind++) {
            text_printf(out, "<td class=n>%.0f %%", 100 * t->lanes[lane].share[kind]);
        }
    }
    text_add(out, "</table>\n");
}

/* What is drawn, and how it adds up to the time that the model expects. */
static void timeline_words(const Report *report, const LaunchReport *launch, const Timeline *t,
                           const char *of, Text *out)
{
    const TimeCourse *course = &launch->course;
    const char *unit = unit_words(report->target);
    text_printf(out,
                "<h3>Pipeline%s</h3><p>The first %d steps of a block, in cycles; the numbers "
                "are steps. ",
                of, t->n_steps);
    if (!t->expected) {
        text_printf(out,
                    "By the rates of the units alone a later step takes %.0f cycles; the "
                    "model does not tell steps from the rest of the time.</p>",
                    t->period);
        return;
    }
    text_printf(out,
                "Later a step takes %.0f cycles, as the model expects; the rates of the "
                "units alone would give %.0f.",
                t->period, t->alone);
    text_printf(out, t->resident > 1 ? " The %s has %d blocks, whose steps alternate." : "", unit,
                t->resident);
    text_printf(out, " At %.0f MHz the %.4g steps of a %s take ", t->clock * 1e-6, course->steps,
                unit);
    seconds_words(out, course->steps * t->period / t->resident / t->clock);
    text_add(out, " of the ");
    seconds_words(out, launch->predicted);
    text_add(out, " that are expected of the launch.</p>");
}

void html_timeline(const Report *report, const LaunchReport *launch, const char *of, Text *out)
{
    Timeline t;
    if (!report->sized || !timeline_make(report, launch, &t) || t.spans.n == 0) {
        return;
    }
    double end = 0;
    for (size_t i = 0; i < t.spans.n; i++) {
        end = fmax(end, t.spans.items[i].upto);
    }
    double scale = (WIDTH - NAME) / end;
    int height = t.n_lanes * ROW;
    timeline_words(report, launch, &t, of, out);
    text_add(out, "<p class=legend>");
    for (SpanKind kind = 0; kind < N_SPAN; kind++) {
        text_printf(out, "<span class=%s></span>%s ", SPANS[kind].class, SPANS[kind].words);
    }
    text_printf(out,
                "</p><div class=wide tabindex=0><svg class=timeline viewBox=\"0 0 %d %d\" width=%d "
                "role=img><title>what each role does over the first steps</title>",
                WIDTH, height + AXIS, WIDTH);
    draw_axis(end, scale, height, out);
    for (int lane = 0; lane < t.n_lanes; lane++) {
        text_printf(out, "<text x=0 y=%d>%s</text>", lane * ROW + ROW / 2 + 4, t.lanes[lane].name);
    }
    draw_spans(&t, scale, out);
    text_add(out, "</svg></div>\n");
    timeline_table(&t, out);
}

/* ---- the order of tiles ---- */

enum { MAX_SIDE = 24, CELL = 22, MAX_BLOCKS = 1 << 16 };

typedef struct Order {
    int rows, cols;                 /* that are drawn */
    int at[MAX_SIDE * MAX_SIDE];    /* the number of the tile; -1: none */
    int round[MAX_SIDE * MAX_SIDE]; /* of blocks that run at once */
    int last, row_axis, col_axis;   /* the highest number; -1: no such axis */
    int64_t all_rows, all_cols;
} Order;

static void find_tile_loop(Op *op, void *user)
{
    const Op **found = user;
    *found = op->kind == OP_TILE_LOOP ? op : *found;
}

/* The last two axes with more than one tile. */
static bool choose_axes(const Grid *grid, Order *order)
{
    order->row_axis = order->col_axis = -1;
    for (int axis = grid->n - 1; axis >= 0; axis--) {
        if (grid->tiles[axis] > 1 && order->col_axis < 0) {
            order->col_axis = axis;
        } else if (grid->tiles[axis] > 1 && order->row_axis < 0) {
            order->row_axis = axis;
        }
    }
    if (order->row_axis < 0) {
        return false;
    }
    order->all_rows = grid->tiles[order->row_axis];
    order->all_cols = grid->tiles[order->col_axis];
    order->rows = (int)(order->all_rows < MAX_SIDE ? order->all_rows : MAX_SIDE);
    order->cols = (int)(order->all_cols < MAX_SIDE ? order->all_cols : MAX_SIDE);
    return true;
}

static int64_t tile_along(const EvalPoint *context, const Grid *grid, int axis)
{
    int64_t step = grid->steps[axis] > 0 ? grid->steps[axis] : 1;
    const Bound *bound = &context->bound[grid->op->regions[0]->args[axis]->id];
    return (bound->first - axis_begin(grid->op, axis)) / step;
}

/* Numbers the tiles whose other axes are at their first one. */
static void number_tiles(EvalPoint *context, const Grid *grid, const LaunchReport *launch,
                         int64_t at_once, Order *order)
{
    bool persistent = grid->op->kind == OP_TILE_LOOP;
    int64_t blocks = persistent ? launch->blocks : (int64_t)grid_tiles(grid);
    int64_t rounds = persistent ? ceil_div((int64_t)grid_tiles(grid), blocks) : 1;
    for (int64_t nth = 0; nth < rounds; nth++) {
        for (int64_t block = 0; block < blocks; block++) {
            if (!grid_bind_nth(context, grid, block, blocks, nth)) {
                continue;
            }
            bool first = true;
            for (int axis = 0; axis < grid->n; axis++) {
                first = first && (axis == order->row_axis || axis == order->col_axis ||
                                  tile_along(context, grid, axis) == 0);
            }
            int64_t row = tile_along(context, grid, order->row_axis);
            int64_t col = tile_along(context, grid, order->col_axis);
            if (first && row >= 0 && col >= 0 && row < order->rows && col < order->cols) {
                int number = (int)(nth * blocks + block);
                order->at[row * MAX_SIDE + col] = number;
                order->round[row * MAX_SIDE + col] = number / (int)at_once;
                order->last = number > order->last ? number : order->last;
            }
        }
    }
}

static void draw_order(const Func *func, const Grid *grid, const Order *order, Text *out)
{
    const Attr *dims = op_attr(grid->op, ATTR_DIMS);
    const char *row = dim_words((Func *)func, dims->dims[order->row_axis]);
    const char *col = dim_words((Func *)func, dims->dims[order->col_axis]);
    enum { HUES = 12, SIDE = 60 };
    text_printf(
        out,
        "<div class=wide tabindex=0><svg class=order viewBox=\"0 0 %d %d\" width=%d "
        "role=img><title>the order of the tiles</title><text x=%d y=12>%s, %lld tiles</text>"
        "<text x=0 y=%d>%s,</text><text x=0 y=%d>%lld tiles</text>",
        SIDE + order->cols * CELL, 20 + order->rows * CELL, SIDE + order->cols * CELL, SIDE, col,
        (long long)order->all_cols, 32, row, 46, (long long)order->all_rows);
    for (int r = 0; r < order->rows; r++) {
        for (int c = 0; c < order->cols; c++) {
            int number = order->at[r * MAX_SIDE + c], round = order->round[r * MAX_SIDE + c];
            if (number < 0) {
                continue;
            }
            text_printf(out,
                        "<g data-n=%d><rect class=h%d x=%d y=%d width=%d height=%d><title>tile "
                        "%d, %d: number %d, round %d</title></rect><text class=in x=%.1f y=%d "
                        "text-anchor=middle>%d</text></g>\n",
                        number, round % HUES, SIDE + c * CELL, 18 + r * CELL, CELL - 1, CELL - 1, r,
                        c, number, round + 1, SIDE + (c + 0.5) * CELL, 18 + r * CELL + 14, number);
        }
    }
    text_add(out, "</svg></div>\n");
}

void html_order(const Report *report, const LaunchReport *launch, const char *of, Text *out)
{
    if (!report->sized || !report->card || !launch->op || launch->blocks <= 0) {
        return;
    }
    const Op *loop = NULL;
    block_walk(launch->op->regions[0], find_tile_loop, &loop);
    Grid grid;
    Order order = {.last = 0};
    EvalPoint context = context_of(report->input->func, report->input->sizes);
    if (!grid_make(&context, launch->plan->persistent && loop ? loop : launch->op, &grid) ||
        grid_tiles(&grid) > MAX_BLOCKS || !choose_axes(&grid, &order)) {
        return;
    }
    for (int i = 0; i < MAX_SIDE * MAX_SIDE; i++) {
        order.at[i] = -1;
    }
    int64_t at_once = launch->blocks;
    if (!launch->plan->persistent && launch->occupancy.resident > 0) {
        at_once = (int64_t)launch->occupancy.resident * report->target->machine->num_sms;
    }
    number_tiles(&context, &grid, launch, at_once > 0 ? at_once : 1, &order);
    text_printf(out,
                "<h3>Order of the tiles%s</h3><p>Each tile of the output with its number; tiles of "
                "one colour are of one round of %lld blocks, which run at once.%s</p>",
                of, (long long)at_once,
                order.all_rows > order.rows || order.all_cols > order.cols ? " Shown is a corner."
                                                                           : "");
    text_printf(out,
                "<label class=step>up to number <input type=range min=0 max=%d value=%d> "
                "<output>%d</output></label>\n",
                order.last, order.last, order.last);
    draw_order(report->input->func, &grid, &order, out);
}
