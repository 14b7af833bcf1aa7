/* SPDX-License-Identifier: Apache-2.0 */
/* The candidates that tune blocks ask for: the entries of all blocks that apply to this
 * compilation, with ranges expanded to numbers. An entry of a stronger block replaces that of a
 * weaker one. */
#include "frontend/schedule/schedule_blocks.h"

static TuneChoice *find_choice(TuneChoices *choices, const EntryDecl *entry)
{
    for (size_t i = 0; i < choices->n; i++) {
        TuneChoice *choice = &choices->items[i];
        EntryDecl old = {.key = choice->key,
                         .sub = choice->sub,
                         .per_launch = choice->per_launch,
                         .launch = choice->launch};
        if (block_same_entry(&old, entry)) {
            return choice;
        }
    }
    return NULL;
}

static void add_value(Lower *l, TuneChoice *choice, const char *value)
{
    for (size_t i = 0; i < choice->values.n; i++) {
        if (text_equal(choice->values.items[i], value)) {
            return;
        }
    }
    ARENA_PUSH(l->arena, &choice->values, value);
}

static TuneChoice make_choice(Lower *l, const ChoiceDecl *decl, int strength)
{
    TuneChoice choice = {.key = decl->entry.key,
                         .sub = decl->entry.sub,
                         .per_launch = decl->entry.per_launch,
                         .launch = decl->entry.launch,
                         .span = decl->entry.span,
                         .strength = strength};
    for (size_t i = 0; i < decl->values.n; i++) {
        const ChoiceValue *value = &decl->values.items[i];
        if (value->symbol) {
            add_value(l, &choice, value->symbol);
        }
        for (int64_t at = value->first; !value->symbol && at <= value->last; at++) {
            add_value(l, &choice, arena_printf(l->arena, "%lld", (long long)at));
        }
    }
    return choice;
}

static void add_block(Lower *l, const ScheduleDecl *block, int strength, TuneChoices *choices)
{
    for (size_t i = 0; i < block->choices.n; i++) {
        const ChoiceDecl *decl = &block->choices.items[i];
        TuneChoice *old = find_choice(choices, &decl->entry);
        if (text_equal(decl->entry.key, "tile")) {
            block_check_axis(l, &decl->entry);
        }
        if (old && !block->when && old->strength == strength) {
            Diag *diag = lower_error(l, ERR_SCHEDULE_TWICE, decl->entry.span,
                                     "the values to try for `%s` are given twice",
                                     block_entry_name(l, &decl->entry));
            diag_label(l->diags, diag, old->span, "and here");
        } else if (old) {
            *old = make_choice(l, decl, strength);
        } else {
            ARENA_PUSH(l->arena, choices, make_choice(l, decl, strength));
        }
    }
}

bool frontend_choices(Module *module, const KernelSignature *kernel, Func *func,
                      const char *target_name, const int64_t *sizes, TuneChoices *choices)
{
    int errors = module->diags->errors;
    Lower l = block_lower(module, kernel, func);
    *choices = (TuneChoices){0};
    for (int strength = 0; strength < 4; strength++) { /* named or not, with `when` or without */
        bool named = strength & 2, conditional = strength & 1;
        for (size_t i = 0; i < module->schedules.n; i++) {
            const ScheduleDecl *block = module->schedules.items[i];
            if (block->tune && (block->when != NULL) == conditional &&
                block_applies(&l, block, target_name, named) && block_holds(&l, block, sizes)) {
                add_block(&l, block, strength, choices);
            }
        }
    }
    return module->diags->errors == errors;
}
