/* SPDX-License-Identifier: Apache-2.0 */
/* The commands `tessera help`, `targets` and `version`. They print the tables of commands, options
 * and targets. */
#include "cli/commands/cmd_functions.h"
#include "cli/options.h"
#include "cli/session.h"
#include "runtime/api/api_search.h"

static const struct {
    int number;
    const char *meaning;
} EXIT_STATUSES[] = {
#define EXIT_STATUS(number, meaning) {number, meaning},
#include "cli/commands/exit_statuses.def"
#undef EXIT_STATUS
};

int fail_no_command(const char *name)
{
    const char *nearest = nearest_name(name, command_name);
    return nearest ? fail_code(FAIL_COMMAND, TESSERA_USAGE,
                               "no command '%.60s': did you mean '%s'?", name, nearest)
                   : fail_code(FAIL_COMMAND, TESSERA_USAGE,
                               "no command '%.60s': `tessera help` lists them", name);
}

void help_command(CommandId command)
{
    const CommandRow *row = &command_rows[command];
    printf("tessera %s%s%s\n%s\n", row->name, *row->arguments ? " " : "", row->arguments,
           row->help);
    for (size_t i = 0; i < n_option_rows; i++) {
        const OptionRow *option = &option_rows[i];
        if (option->commands >> command & 1 && option->help) {
            char head[64];
            snprintf(head, sizeof head, "%s %s", option->name, option->value ? option->value : "");
            printf("  %-42s %s\n", head, option->help);
        }
    }
}

int cmd_help(const Options *options)
{
    if (options->path) {
        CommandId command = command_find(options->path);
        if (command == N_COMMANDS) {
            return fail_no_command(options->path);
        }
        help_command(command);
        return 0;
    }
    puts("tessera: compiles .tile files for NVIDIA, AMD and the CPU\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        printf("  %-10s %s\n", command_rows[i].name, command_rows[i].help);
    }
    puts("\n`tessera help COMMAND` lists the options of a command.\nExit status:");
    for (size_t i = 0; i < sizeof EXIT_STATUSES / sizeof *EXIT_STATUSES; i++) {
        printf("  %-4d %s\n", EXIT_STATUSES[i].number, EXIT_STATUSES[i].meaning);
    }
    puts("For other signals it is 128 + the number of the signal.");
    return 0;
}

int cmd_version(const Options *options)
{
    (void)options;
    printf("tessera %s", tessera_version());
    printf(*program_commit ? " (commit %s)\n" : "\n", program_commit);
    return 0;
}

/* ---- targets ---- */

static void show_device(TesseraContext *context, const char *kind)
{
    TesseraDevice *device;
    if (tessera_device_open(context, kind, 0, &device) == TESSERA_OK) {
        const TesseraDeviceInfo *info = tessera_device_info(device);
        printf("%-5s %s: target %s, %.1f GiB\n", kind, info->name, info->target,
               (double)info->memory_bytes / (double)(1 << 30));
        tessera_device_free(device);
    } else {
        printf("%-5s none: %s\n", kind, tessera_error(context)->message);
    }
}

int cmd_targets(const Options *options)
{
    TesseraContext *context;
    const TesseraTarget *row;
    (void)options;
    if (tessera_context_new(NULL, &context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    puts("target     family  warp  units   shared threads 16-bit emits");
    for (size_t i = 0; (row = tessera_target(context, i)); i++) {
        printf("%-10s %-7s %4d %6d %8d %6d  %-6s", row->name, row->family, row->warp, row->units,
               row->shared_bytes, row->max_threads, row->product);
        for (const char *const *kind = row->kinds; *kind; kind++) {
            printf(" %s", *kind);
        }
        putchar('\n');
    }
    puts("\ncard           of target    units    MHz    GB/s  L2 MiB  16-bit TFLOP/s  f32");
    TesseraCard card;
    for (size_t i = 0; tessera_card(i, &card); i++) {
        if (card.flops16 > 0) {
            printf("%-14s %-10s %6d %6d %7d %7d %15.1f %5.1f  %s%s\n", card.name, card.target,
                   card.units, card.clock, card.memory, card.l2_mib, card.flops16 / 1e12,
                   card.flops32 / 1e12, card.title, card.is_default ? " (default)" : "");
        }
    }
    puts("compile for one with --target TARGET@CARD; a run takes that of its device");
    puts("\ndevices here");
    show_device(context, "cpu");
    show_device(context, "cuda");
    show_device(context, "hip");
    tessera_context_free(context);
    return 0;
}
