/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps of compile(): from machine code to a module that is open on a device. */
#include "runtime/compile/kernel_objects.h"

#include <string.h>

static void *find_symbol(void *user, const char *name)
{
    const DeviceCode *module = user;
    return module->codegen->jit_symbol(module->jit, name);
}

bool module_image(Compilation *c, DeviceCode *module, DeviceImage *image)
{
    module->plan = c->plan;
    if (c->target->family == FAMILY_CPU) {
        module->codegen = codegen_open(&c->work->arena, &c->work->diags);
        module->jit =
            module->codegen ? module->codegen->jit(c->func, &c->code, &module->plan) : NULL;
        *image = (DeviceImage){.symbol = find_symbol, .user = module};
        return module->jit != NULL;
    }
    char *ended = arena_alloc_raw(&c->work->arena, c->code.n + 1);
    memcpy(ended, c->code.bytes, c->code.n);
    ended[c->code.n] = '\0'; /* the driver expects PTX to end in one */
    *image = (DeviceImage){.bytes = ended, .n = c->code.n};
    return true;
}

bool module_open(Compilation *c, DeviceCode *module, const DeviceImage *image)
{
    Plan *plan = &module->plan;
    for (int i = 0; i < plan->n_sizes; i++) {
        PlanSize *size = &plan->sizes[i];
        for (size_t j = 0; j < c->options.n_sizes && !size->stride; j++) {
            if (text_equal(c->options.sizes[j].name, size->name)) {
                size->is_given = true; /* the code was compiled for this size */
                size->given = c->options.sizes[j].value;
            }
        }
    }
    if (loaded_open(module->device->device, plan, image, &module->loaded, &module->error)) {
        return true;
    }
    if (module->jit) {
        module->codegen->jit_free(module->jit);
    }
    module->is_refused = true;
    diag_failure(&c->work->diags, module->error.kind, "%s", module->error.text);
    return false;
}
