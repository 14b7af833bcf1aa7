/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the measurements of `tessera bench` as text for people, as CSV rows or as JSON lines. */
#include "cli/commands/cmd_bench.h"
#include "cli/json_write.h"
#include "cli/options.h"

#include <math.h>

static const BaseEntry *earlier(const Bench *b)
{
    return baseline_find(b->base, b->session.signature->name,
                         tessera_device_info(b->session.device)->target, b->compile.sizes,
                         b->compile.n_sizes);
}

/* ---- for people ---- */

/* Times whose difference is within the spread of both measurements count as the same. */
static const char *verdict(const Bench *b, const BaseEntry *base)
{
    double difference = fabs(b->seconds - base->seconds);
    if (difference <= b->spread * b->seconds / 2 + base->spread * base->seconds / 2) {
        return "the same within the spread";
    }
    return b->seconds < base->seconds ? "faster" : "slower";
}

static void show_text(const Bench *b)
{
    const TesseraDeviceInfo *info = tessera_device_info(b->session.device);
    const BaseEntry *base = earlier(b);
    double rate = b->bytes / b->seconds;
    printf("%s%s on %s\n", b->nth ? "\n" : "", b->session.signature->name, info->name);
    for (size_t i = 0; i < b->compile.n_sizes; i++) {
        printf("%s%s=%lld", i ? " " : "sizes    ", b->compile.sizes[i].name,
               (long long)b->compile.sizes[i].value);
    }
    printf("%stime     %.4g ms (median of %d rounds of %d; spread %.1f %%)\n",
           b->compile.n_sizes ? "\n" : "", b->seconds * 1e3, b->options->rounds, b->launches,
           b->spread * 100);
    if (base) {
        printf("before   %.4g ms; now %.3f of it, %s\n", base->seconds * 1e3,
               b->seconds / base->seconds, verdict(b, base));
    } else if (b->options->compare) {
        printf("before   not measured at these sizes\n");
    }
    printf("memory   %.4g MB, %.4g GB/s", b->bytes * 1e-6, rate * 1e-9);
    if (b->copy_rate > 0) {
        printf(", %.2f of the copy rate (%.4g GB/s)", rate / b->copy_rate, b->copy_rate * 1e-9);
    }
    putchar('\n');
    if (b->flops > 0) {
        printf("products %.4g GFLOP, %.4g GFLOP/s\n", b->flops * 1e-9,
               b->flops / b->seconds * 1e-9);
    }
    printf("compile  %.1f ms\n", b->compile_seconds * 1e3);
}

/* ---- for programs ---- */

enum { MAX_NUMBERS = 8 };
typedef struct Numbers {
    struct {
        const char *name;
        double value;
    } items[MAX_NUMBERS];
    size_t n;
} Numbers;

static Numbers numbers_of(const Bench *b)
{
    const BaseEntry *base = earlier(b);
    Numbers numbers = {{{"seconds", b->seconds},
                        {"spread", b->spread},
                        {"bytes", b->bytes},
                        {"copy_rate", b->copy_rate},
                        {"flops", b->flops},
                        {"compile_seconds", b->compile_seconds}},
                       6};
    if (b->options->compare) {
        double nothing = (double)NAN;
        numbers.items[numbers.n].name = "base_seconds";
        numbers.items[numbers.n++].value = base ? base->seconds : nothing;
        numbers.items[numbers.n].name = "ratio";
        numbers.items[numbers.n++].value = base ? b->seconds / base->seconds : nothing;
    }
    return numbers;
}

static void show_json(const Bench *b)
{
    const TesseraDeviceInfo *info = tessera_device_info(b->session.device);
    const struct {
        const char *name, *value;
    } words[] = {
        {"kernel", b->session.signature->name}, {"device", info->name}, {"target", info->target}};
    Numbers numbers = numbers_of(b);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        printf("%s\"%s\": ", i ? ", " : "{", words[i].name);
        json_string(stdout, words[i].value);
    }
    fputs(", \"sizes\": {", stdout);
    for (size_t i = 0; i < b->compile.n_sizes; i++) {
        fputs(i ? ", " : "", stdout);
        json_string(stdout, b->compile.sizes[i].name);
        printf(": %lld", (long long)b->compile.sizes[i].value);
    }
    putchar('}');
    for (size_t i = 0; i < numbers.n; i++) {
        printf(", \"%s\": ", numbers.items[i].name);
        json_number(stdout, numbers.items[i].value);
    }
    puts("}");
}

/* Quotes the text, because the names of devices contain commas (RFC 4180). */
static void csv_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        fputs(*text == '"' ? "\"" : "", stdout);
        putchar(*text);
    }
    putchar('"');
}

static void show_csv(const Bench *b)
{
    const TesseraDeviceInfo *info = tessera_device_info(b->session.device);
    Numbers numbers = numbers_of(b);
    if (b->nth == 0) {
        fputs("kernel,device,target", stdout);
        for (size_t i = 0; i < b->compile.n_sizes; i++) {
            printf(",%s", b->compile.sizes[i].name);
        }
        for (size_t i = 0; i < numbers.n; i++) {
            printf(",%s", numbers.items[i].name);
        }
        putchar('\n');
    }
    csv_text(b->session.signature->name);
    putchar(',');
    csv_text(info->name);
    putchar(',');
    csv_text(info->target);
    for (size_t i = 0; i < b->compile.n_sizes; i++) {
        printf(",%lld", (long long)b->compile.sizes[i].value);
    }
    for (size_t i = 0; i < numbers.n; i++) {
        if (isfinite(numbers.items[i].value)) {
            printf(",%.9g", numbers.items[i].value);
        } else {
            putchar(',');
        }
    }
    putchar('\n');
}

void bench_show(const Bench *bench)
{
    if (bench->options->json) {
        show_json(bench);
    } else if (bench->options->csv) {
        show_csv(bench);
    } else {
        show_text(bench);
    }
    fflush(stdout); /* a sweep over sizes takes long */
}
