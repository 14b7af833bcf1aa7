/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the schedule blocks that apply to a compilation, and the entry that wins if several
 * blocks have it. From weakest to strongest: blocks for all targets, blocks that name this target,
 * each first without and then with `when`; then, in the same order, the blocks with the name that
 * was chosen. */
#include "frontend/schedule/schedule_blocks.h"
#include "frontend/schedule/when_clause.h"

#include "ir/schedule.h"

static bool names_target(const ScheduleDecl *schedule, const char *target)
{
    for (size_t i = 0; i < schedule->targets.n; i++) {
        if (target && text_equal(schedule->targets.items[i], target)) {
            return true;
        }
    }
    return false;
}

void block_check_axis(Lower *l, const EntryDecl *entry)
{
    Nearest nearest = nearest_to(entry->sub);
    bool found = schedule_names_axis(entry->sub, NULL);
    for (size_t i = 0; i < l->kernel->signature.sizes.n; i++) {
        const char *name = l->kernel->signature.sizes.items[i];
        found = found || schedule_names_axis(entry->sub, name);
        nearest_try(&nearest, name);
    }
    for (size_t i = 0; i < l->func->dimvars.n; i++) {
        const char *name = l->func->dimvars.items[i]->name;
        found = found || (name && schedule_names_axis(entry->sub, name));
        if (name) {
            nearest_try(&nearest, name);
        }
    }
    if (found) {
        return;
    }
    Diag *diag = lower_error(l, ERR_SCHEDULE_DIM, entry->sub_span, "`%s` has no dimension `%s`",
                             l->kernel->name, entry->sub);
    lower_fix_similar(l, diag, entry->sub_span, &nearest);
}

static ScheduleEntry entry_of(const EntryDecl *decl)
{
    return (ScheduleEntry){
        .key = decl->key, .sub = decl->sub, .per_launch = decl->per_launch, .launch = decl->launch};
}

bool block_same_entry(const EntryDecl *a, const EntryDecl *b)
{
    ScheduleEntry one = entry_of(a), other = entry_of(b);
    return schedule_same_name(&one, &other);
}

const char *block_entry_name(Lower *l, const EntryDecl *decl)
{
    ScheduleEntry entry = entry_of(decl);
    return schedule_name(l->arena, &entry);
}

static void apply_schedule(Lower *l, const ScheduleDecl *schedule)
{
    const char *reason =
        schedule->name ? arena_printf(l->arena, "given in the source, by `%s`", schedule->name)
                       : NULL;
    for (size_t i = 0; i < schedule->entries.n; i++) {
        const EntryDecl *entry = &schedule->entries.items[i];
        if (text_equal(entry->key, "tile")) {
            block_check_axis(l, entry);
        }
        schedule_add_user(l->func, (ScheduleEntry){.key = entry->key,
                                                   .sub = entry->sub,
                                                   .per_launch = entry->per_launch,
                                                   .launch = entry->launch,
                                                   .symbol = entry->symbol,
                                                   .number = entry->number,
                                                   .origin = ENTRY_SOURCE,
                                                   .reason = reason,
                                                   .span = entry->span});
    }
}

bool block_applies(const Lower *l, const ScheduleDecl *schedule, const char *target, bool named)
{
    return text_equal(schedule->kernel, l->kernel->name) &&
           (named ? names_target(schedule, target) : schedule->targets.n == 0);
}

/* Of lines for one target that decide the same, none is meant: not the last of them either. */
static void refuse_twice(Lower *l, const ScheduleDecl *first, size_t n_first,
                         const EntryDecl *entry)
{
    for (size_t i = 0; i < n_first; i++) {
        const EntryDecl *other = &first->entries.items[i];
        if (block_same_entry(other, entry)) {
            Diag *diag = lower_error(l, ERR_SCHEDULE_TWICE, entry->span, "`%s` is given twice",
                                     block_entry_name(l, entry));
            diag_label(l->diags, diag, other->span, "and here");
            return;
        }
    }
}

/* Is it one of those with the name, or one of those without any? */
static bool is_called(const ScheduleDecl *schedule, const char *name)
{
    return name ? schedule->name && text_equal(schedule->name, name) : !schedule->name;
}

/* All lines of the i-th block against those before them. */
static void check_entries_twice(Lower *l, size_t nth, const char *target, bool named)
{
    const ScheduleDecl *schedule = l->module->schedules.items[nth];
    for (size_t i = 0; i < schedule->entries.n; i++) {
        refuse_twice(l, schedule, i, &schedule->entries.items[i]);
        for (size_t k = 0; k < nth; k++) {
            const ScheduleDecl *earlier = l->module->schedules.items[k];
            bool plain = !earlier->tune && !earlier->when && !schedule->when &&
                         is_called(earlier, schedule->name);
            if (plain && block_applies(l, earlier, target, named)) {
                refuse_twice(l, earlier, earlier->entries.n, &schedule->entries.items[i]);
            }
        }
    }
}

bool block_holds(Lower *l, const ScheduleDecl *schedule, const int64_t *sizes)
{
    Answer answer = schedule->when ? when_holds(l->func, sizes, schedule->when) : ANSWER_YES;
    if (answer == ANSWER_OPEN) {
        diag_remark(l->diags, schedule->when->span,
                    "this is not known of the sizes here: the block decides nothing");
    }
    return answer == ANSWER_YES;
}

static void apply_block(Lower *l, size_t nth, const BlockSelection *for_what, bool named)
{
    const ScheduleDecl *schedule = l->module->schedules.items[nth];
    if (!schedule->tune && block_holds(l, schedule, for_what->sizes)) {
        check_entries_twice(l, nth, for_what->target, named);
        apply_schedule(l, schedule);
    }
}

static void apply_kind(Lower *l, const BlockSelection *for_what, bool named, bool conditional)
{
    for (size_t i = 0; i < l->module->schedules.n; i++) {
        const ScheduleDecl *schedule = l->module->schedules.items[i];
        if (is_called(schedule, for_what->chosen) &&
            block_applies(l, schedule, for_what->target, named) &&
            (schedule->when != NULL) == conditional) {
            apply_block(l, i, for_what, named);
        }
    }
}

static void apply_kinds(Lower *l, const BlockSelection *for_what)
{
    for (int named = 0; named <= 1; named++) {
        apply_kind(l, for_what, named, false);
        apply_kind(l, for_what, named, true);
    }
}

/* Does the kernel have a schedule of this name, for any target? Else a failure names those that it
 * has. */
static bool check_name(Lower *l, const char *name, const char *target)
{
    Nearest nearest = nearest_to(name);
    const ScheduleDecl *found = NULL;
    bool here = false;
    Text all = text_new(l->arena);
    const char *last = "";
    for (size_t i = 0; i < l->module->schedules.n; i++) {
        const ScheduleDecl *schedule = l->module->schedules.items[i];
        if (!schedule->name || !text_equal(schedule->kernel, l->kernel->name)) {
            continue;
        }
        nearest_try(&nearest, schedule->name);
        if (text_equal(schedule->name, name)) {
            found = schedule;
            here = here || schedule->targets.n == 0 || names_target(schedule, target);
        } else if (!text_equal(schedule->name, last)) {
            text_printf(&all, "%s`%s`", all.n ? ", " : "", schedule->name);
        }
        last = schedule->name;
    }
    if (found && !here) {
        diag_warning(l->diags, 0, found->span,
                     "the schedule `%s` has no block for this target: it decides "
                     "nothing",
                     name);
    }
    if (found) {
        return true;
    }
    Diag *diag = diag_failure_at(l->diags, DIAG_USAGE, ERR_SCHEDULE_ENTRY, SPAN_NONE,
                                 "%s has no schedule, and schedules no entry, called `%s`",
                                 l->kernel->name, name);
    if (nearest_found(&nearest)) {
        diag_help(l->diags, diag, "did you mean `%s`?", nearest_found(&nearest));
    } else if (all.n) {
        diag_help(l->diags, diag, "its schedules are %s", all.data);
    } else {
        diag_help(l->diags, diag, "an entry is a key and a value, as in `warps 8`");
    }
    return false;
}

Lower block_lower(Module *module, const KernelSignature *kernel, Func *func)
{
    Lower l = {.module = module, .arena = module->arena, .diags = module->diags, .func = func};
    l.kernel = kernel_of_signature(module, kernel);
    return l;
}

bool frontend_schedule(Module *module, const KernelSignature *kernel, Func *func,
                       const char *target_name, const int64_t *sizes, const char *chosen)
{
    BlockSelection plain = {target_name, sizes, NULL}, by_name = {target_name, sizes, chosen};
    int errors = module->diags->errors;
    Lower l = block_lower(module, kernel, func);
    for (size_t i = 0; i < l.module->schedules.n; i++) {
        const ScheduleDecl *schedule = l.module->schedules.items[i];
        if (schedule->when && text_equal(schedule->kernel, l.kernel->name)) {
            when_check(l.func, schedule->when);
        }
    }
    apply_kinds(&l, &plain);
    if (chosen && !check_name(&l, chosen, target_name)) {
        return false;
    }
    if (chosen) {
        apply_kinds(&l, &by_name);
    }
    return module->diags->errors == errors;
}
