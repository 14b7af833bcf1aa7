/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of the HTML report: which thread owns which element under a layout, which banks of
 * shared memory a warp's access uses, where the buffers of a launch are in shared memory, and the
 * roofline. */
#include "runtime/explain/explain_html.h"

#include "ir/text/ir_text.h"
#include "runtime/explain/explain_words.h"
#include "runtime/explain/warp_request.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- layouts ---- */

enum { TILE_ROWS = 16, TILE_COLS = 32, HUES = 12, NO_OWNER = -1 };

typedef struct Owner {
    int thread, reg, copies;
} Owner;

typedef struct Corner {
    int rows, cols;
    Owner owners[TILE_ROWS][TILE_COLS];
} Corner;

/* Of the last two axes, where the others are 0. */
static bool in_corner(const Corner *corner, const Layout *layout, const int32_t *coords, int *row,
                      int *col)
{
    for (int axis = 0; axis + 2 < layout->rank; axis++) {
        if (coords[axis] != 0) {
            return false;
        }
    }
    *col = coords[layout->rank - 1];
    *row = layout->rank > 1 ? coords[layout->rank - 2] : 0;
    return *row < corner->rows && *col < corner->cols;
}

static void find_owners(const TileReport *tile, int lanes, Corner *corner)
{
    const Layout *layout = tile->layout;
    Type type = tile->value->type;
    int64_t rows = type->rank > 1 ? poly_capacity(type->dims[type->rank - 2]) : 1;
    int64_t cols = poly_capacity(type->dims[type->rank - 1]);
    corner->rows = rows < TILE_ROWS ? (int)rows : TILE_ROWS;
    corner->cols = cols < TILE_COLS ? (int)cols : TILE_COLS;
    for (int i = 0; i < TILE_ROWS * TILE_COLS; i++) {
        corner->owners[i / TILE_COLS][i % TILE_COLS].thread = NO_OWNER;
    }
    int warps = 1 << layout->bits[IN_WARP], row, col;
    for (int thread = 0; thread < warps * lanes; thread++) {
        for (int reg = 0; reg < layout_registers(layout); reg++) {
            int32_t coords[MAX_RANK];
            layout_apply(layout, (uint32_t)reg, (uint32_t)(thread % lanes),
                         (uint32_t)(thread / lanes), coords);
            if (in_corner(corner, layout, coords, &row, &col)) {
                Owner *owner = &corner->owners[row][col];
                *owner = owner->thread == NO_OWNER ? (Owner){thread, reg, 0} : *owner;
                owner->copies++;
            }
        }
    }
}

void html_tile(const Report *report, const TileReport *tile, Text *out)
{
    Corner corner;
    find_owners(tile, report->target->warp, &corner);
    text_printf(out, "<h3>Layout L%u: ", (unsigned)tile->layout->id);
    Text type = text_new(report->input->func->arena);
    print_type(report->input->func, tile->value->type, &type);
    html_words(out, type.data);
    text_printf(out,
                "</h3><p class=soft>%d value%s so; a thread holds %d element%s of each. Shown "
                "is the corner, as thread:register; one colour is one thread.</p>",
                tile->n, tile->n == 1 ? " lies" : "s lie", layout_registers(tile->layout),
                layout_registers(tile->layout) == 1 ? "" : "s");
    text_add(out, "<div class=wide tabindex=0><table class=tile><tr><th>");
    for (int col = 0; col < corner.cols; col++) {
        text_printf(out, "<th>%d", col);
    }
    for (int row = 0; row < corner.rows; row++) {
        text_printf(out, "\n<tr><th>%d", row);
        for (int col = 0; col < corner.cols; col++) {
            /* A cell names the thread and the register that own the element. */
            const Owner *owner = &corner.owners[row][col];
            if (owner->thread == NO_OWNER) {
                text_add(out, "<td>");
                continue;
            }
            text_printf(out, "<td class=h%d", owner->thread % HUES);
            if (owner->copies > 1) {
                text_printf(out, " title=\"%d threads hold it\"", owner->copies);
            }
            text_printf(out, ">%d:%d", owner->thread, owner->reg);
        }
    }
    text_add(out, "</table></div>\n");
}

/* ---- banks ---- */

enum { WORD = 4, MAX_ROWS = 40 };

typedef struct Banks {
    int64_t rows[MAX_ROWS]; /* of a word of each bank */
    int n;
    char lanes[MAX_ROWS][MAX_SHARED_BANKS][24];
} Banks;

static int row_of(Banks *banks, int64_t row)
{
    for (int i = 0; i < banks->n; i++) {
        if (banks->rows[i] == row) {
            return i;
        }
    }
    if (banks->n == MAX_ROWS) {
        return NO_OWNER;
    }
    banks->rows[banks->n] = row;
    return banks->n++;
}

static void fill_banks(const WarpRequest *request, int first, int n, Banks *banks)
{
    int64_t all = request->banks;
    for (int lane = first; lane < first + n; lane++) {
        bool active = request->active >> lane & 1;
        for (int byte = 0; active && byte < request->bytes; byte += WORD) {
            int64_t word = (request->at[lane] + byte) / WORD;
            int row = row_of(banks, word / all);
            if (row != NO_OWNER) {
                char *to = banks->lanes[row][word % all];
                /* A bank that several lanes access shows the first lane and a plus sign. */
                size_t size = sizeof banks->lanes[0][0];
                size_t count = strlen(to);
                if (count == 0) {
                    snprintf(to, size, "%d", lane);
                } else if (!strchr(to, '+')) {
                    snprintf(to + count, size - count, "+");
                }
            }
        }
    }
}

/* How many words of the bank stand above this one: each is a turn more. */
static int turn_of(const Banks *banks, int row, int bank)
{
    int turn = 0;
    for (int i = 0; i < row; i++) {
        turn += banks->lanes[i][bank][0] != 0;
    }
    return turn < 3 ? turn : 3;
}

void html_banks(const AccessReport *access, Text *out)
{
    const WarpRequest *request = &access->sample;
    Banks banks = {.n = 0};
    int least, turns, group = request->lanes ? request_group(request, 0) : 0;
    if (!group) {
        return;
    }
    turns = request_wavefronts(request, &least);
    fill_banks(request, 0, group, &banks);
    text_printf(out, "<details><summary>%s of <b>", traffic_name(access->kind));
    html_words(out, access->memory);
    text_printf(out, "</b>: a warp's %d bytes a lane in %d turn%s", request->bytes, turns,
                turns == 1 ? "" : "s");
    text_printf(out, turns > least ? ", <span class=bad>%d without conflicts</span>" : "", least);
    text_printf(out,
                "</summary><p class=soft>Lanes 0 to %d, which are served together: which lane "
                "asks for a word of which of the %d banks, in rows of %d bytes. A bank gives "
                "one word a turn (green), further ones are conflicts; lanes that want the same "
                "word share it (+).</p><div class=wide tabindex=0><table class=banks><tr><th>byte",
                group - 1, request->banks, request->banks * WORD);
    for (int bank = 0; bank < request->banks; bank++) {
        text_printf(out, "<th>%d", bank);
    }
    for (int row = 0; row < banks.n; row++) {
        text_printf(out, "\n<tr><th>%lld", (long long)banks.rows[row] * request->banks * WORD);
        for (int bank = 0; bank < request->banks; bank++) {
            const char *lane = banks.lanes[row][bank];
            if (*lane) {
                text_printf(out, "<td class=k%d>%s", turn_of(&banks, row, bank), lane);
            } else {
                text_add(out, "<td>");
            }
        }
    }
    text_add(out, "</table></div></details>\n");
}

/* ---- shared memory ---- */

void html_buffers(const LaunchReport *launch, Text *out)
{
    enum { WIDTH = 900, HEIGHT = 26, MIN_LABEL = 40, HUE = 67 };
    double scale = (double)WIDTH / (launch->shared_bytes > 0 ? launch->shared_bytes : 1);
    text_printf(out,
                "<div class=wide tabindex=0><svg class=buffers viewBox=\"0 0 %d %d\" width=%d "
                "role=img><title>where the buffers lie</title>",
                WIDTH, HEIGHT, WIDTH);
    for (size_t i = 0; i < launch->buffers.n; i++) {
        const BufferReport *at = &launch->buffers.items[i];
        for (int slot = 0; slot < (at->slots ? at->slots : 1); slot++) {
            double bytes = (double)at->bytes / (at->slots ? at->slots : 1);
            text_printf(out,
                        "<rect class=buffer x=%.1f y=0 width=%.1f height=%d "
                        "fill=\"hsl(%d 60%% 65%%)\"><title>",
                        ((double)at->offset + slot * bytes) * scale, fmax(bytes * scale, 1), HEIGHT,
                        (int)(i * HUE % 360));
            html_words(out, at->name);
            text_printf(out, ", slot %d</title></rect>", slot);
            if (bytes * scale >= MIN_LABEL) {
                text_printf(out, "<text class=in x=%.1f y=%d text-anchor=middle>",
                            ((double)at->offset + (slot + 0.5) * bytes) * scale, HEIGHT / 2 + 4);
                html_words(out, at->name);
                text_printf(out, at->slots > 1 ? " %d</text>" : "</text>", slot);
            }
        }
    }
    text_add(out,
             "</svg></div><table class=lines><tr><th>buffer<th class=n>from byte<th class=n>bytes"
             "<th class=n>slots<th class=n>swizzle");
    for (size_t i = 0; i < launch->buffers.n; i++) {
        const BufferReport *at = &launch->buffers.items[i];
        text_printf(out,
                    "\n<tr><td><span class=swatch style=\"background:hsl(%d 60%% 65%%)\"></span> ",
                    (int)(i * HUE % 360));
        html_words(out, at->name);
        text_printf(out, "<td class=n>%d<td class=n>%d<td class=n>%d<td class=n>%d", at->offset,
                    at->bytes, at->slots, at->swizzle);
    }
    text_add(out, "</table>\n");
}

/* ---- roofline ---- */

enum { PLOT_WIDTH = 720, PLOT_HEIGHT = 330, LEFT = 70, BOTTOM = 40, TOP = 12, RIGHT = 20 };
static const double MIN_X = -2, MAX_X = 4, MIN_Y = 9, MAX_Y = 15.6; /* powers of ten */

static double plot_x(double intensity)
{
    double at = (log10(intensity) - MIN_X) / (MAX_X - MIN_X);
    return LEFT + fmin(fmax(at, 0), 1) * (PLOT_WIDTH - LEFT - RIGHT);
}

static double plot_y(double flops)
{
    double at = (log10(flops) - MIN_Y) / (MAX_Y - MIN_Y);
    return PLOT_HEIGHT - BOTTOM - fmin(fmax(at, 0), 1) * (PLOT_HEIGHT - BOTTOM - TOP);
}

static void plot_roof(double memory, double flops, const char *class, const char *words, Text *out)
{
    double knee = flops / memory;
    text_printf(out,
                "<path class=%s d=\"M%.1f %.1f L%.1f %.1f H%d\"/><text x=%d y=%.0f "
                "text-anchor=end>%s</text>",
                class, plot_x(pow(10, MIN_X)), plot_y(memory * pow(10, MIN_X)), plot_x(knee),
                plot_y(flops), PLOT_WIDTH - RIGHT, PLOT_WIDTH - RIGHT, plot_y(flops) - 5, words);
}

/* A ring, or of the other schedule a frame; filled: a dot or a square. */
static void plot_mark(const char *class, double x, double y, double r, bool other, Text *out)
{
    if (other) {
        text_printf(out, "<rect class=%s x=%.1f y=%.1f width=%.0f height=%.0f><title>", class,
                    x - r, y - r, 2 * r, 2 * r);
    } else {
        text_printf(out, "<circle class=%s cx=%.1f cy=%.1f r=%.0f><title>", class, x, y, r);
    }
}

/* A ring at the throughput of the least time, a dot at that of the expected time; `nth` of all
 * that are drawn. */
static void plot_launch(const LaunchReport *launch, int nth, bool other, Text *out)
{
    const char *end = other ? "</title></rect>" : "</title></circle>";
    const char *of = other ? " of the other schedule" : "";
    const Roofline *r = &launch->roofline;
    double flops = r->flops + r->matrix_flops;
    double seconds = fmax(r->memory_seconds, r->compute_seconds);
    if (flops <= 0 || seconds <= 0) {
        return;
    }
    double x = plot_x(r->intensity), y = plot_y(flops / seconds), label = y;
    plot_mark("bound", x, y, 5, other, out);
    html_words(out, launch->plan->symbol);
    text_printf(out, "%s, at most: ", of);
    scaled_words(out, flops / seconds, "FLOP/s");
    text_add(out, end);
    if (launch->predicted > 0) {
        double expected = plot_y(flops / launch->predicted);
        text_printf(out, "<path class=loss d=\"M%.1f %.1f V%.1f\"/>", x, y, expected);
        plot_mark("point", x, expected, 4, other, out);
        html_words(out, launch->plan->symbol);
        text_printf(out, "%s, expected: ", of);
        scaled_words(out, flops / launch->predicted, "FLOP/s, ");
        text_printf(out, "%.0f %% of it%s", 100 * seconds / launch->predicted, end);
        label = expected;
    }
    bool right = x > PLOT_WIDTH - 150;
    text_printf(out, "<text x=%.1f y=%.1f text-anchor=%s>", right ? x - 8 : x + 8,
                label + 16 + 12 * (nth % 4), right ? "end" : "start");
    html_words(out, launch->plan->symbol);
    text_add(out, of);
    text_printf(out, launch->predicted > 0 ? ", %.0f %%</text>" : "</text>",
                100 * seconds / launch->predicted);
}

/* The same in numbers. */
static void roofline_rows(const Report *report, const char *of, Text *out)
{
    for (int i = 0; i < report->n_launches; i++) {
        const LaunchReport *launch = &report->launches[i];
        const Roofline *r = &launch->roofline;
        double flops = r->flops + r->matrix_flops;
        double seconds = fmax(r->memory_seconds, r->compute_seconds);
        if (flops <= 0 || seconds <= 0) {
            continue;
        }
        text_add(out, "\n<tr><th scope=row>");
        html_words(out, launch->plan->symbol);
        text_printf(out, "%s<td class=n>%.4g<td class=n>", of, r->intensity);
        scaled_words(out, flops / seconds, "FLOP/s");
        text_add(out, "<td class=n>");
        if (launch->predicted > 0) {
            scaled_words(out, flops / launch->predicted, "FLOP/s");
            text_printf(out, "<td class=n>%.0f %%", 100 * seconds / launch->predicted);
        }
    }
}

void html_roofline(const Report *report, Text *out)
{
    const Machine *card = report->card;
    if (!card || !report->sized) {
        return;
    }
    text_printf(out,
                "<div class=wide tabindex=0><svg viewBox=\"0 0 %d %d\" width=%d role=img "
                "class=roofline><title>roofline of ",
                PLOT_WIDTH, PLOT_HEIGHT, PLOT_WIDTH);
    html_words(out, card->title);
    text_add(out, "</title>");
    for (int power = (int)MIN_X; power <= (int)MAX_X; power++) {
        double x = plot_x(pow(10, power));
        text_printf(out,
                    "<path class=grid d=\"M%.0f %d V%d\"/><text x=%.0f y=%d "
                    "text-anchor=middle>%g</text>",
                    x, TOP, PLOT_HEIGHT - BOTTOM, x, PLOT_HEIGHT - BOTTOM + 15, pow(10, power));
    }
    for (int power = (int)MIN_Y; power <= (int)MAX_Y; power++) {
        double y = plot_y(pow(10, power));
        text_printf(out, "<path class=grid d=\"M%d %.0f H%d\"/><text x=%d y=%.0f text-anchor=end>",
                    LEFT, y, PLOT_WIDTH - RIGHT, LEFT - 6, y + 4);
        scaled_words(out, pow(10, power), "</text>");
    }
    text_printf(out,
                "<text x=%d y=%d text-anchor=middle>FLOP a byte of memory</text>"
                "<text x=4 y=%d>FLOP/s</text>",
                (LEFT + PLOT_WIDTH) / 2, PLOT_HEIGHT - 6, TOP);
    plot_roof(card->memory_gbs * 1e9, machine_flops32(card), "roof", "f32", out);
    plot_roof(card->memory_gbs * 1e9, machine_flops16(card), "roof16", "16-bit matrix units", out);
    for (int i = 0; i < report->n_launches; i++) {
        plot_launch(&report->launches[i], i, false, out);
    }
    const Report *other = report->other;
    for (int i = 0; other && i < other->n_launches; i++) {
        plot_launch(&other->launches[i], report->n_launches + i, true, out);
    }
    text_add(out,
             "</svg></div>\n<div class=wide tabindex=0><table class=lines><tr><th>launch"
             "<th class=n>FLOP a byte<th class=n>at most<th class=n>expected<th class=n>share");
    roofline_rows(report, "", out);
    if (other) {
        roofline_rows(other, " of the other schedule", out);
    }
    text_add(out, "</table></div>\n");
}
