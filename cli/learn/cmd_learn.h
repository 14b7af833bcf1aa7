/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera learn`. */
#ifndef TESSERA_CLI_LEARN_CMD_LEARN_H
#define TESSERA_CLI_LEARN_CMD_LEARN_H

#include "cli/options.h"

int cmd_learn(const Options *options);

#endif
