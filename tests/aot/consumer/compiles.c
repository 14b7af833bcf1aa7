/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses the library with the compiler from the installed tree. */
#include <stdio.h>
#include <string.h>
#include <tessera/tessera.h>

int main(void)
{
    static const char text[] = "kernel twice(x: f32[N]) -> f32[N] = x + x\n";
    TesseraContext *context;
    TesseraProgram *program;
    int bad = tessera_context_new(NULL, &context) != TESSERA_OK ||
              tessera_program_parse(context, "text", text, strlen(text), &program) != TESSERA_OK;
    printf("tessera %s\n", tessera_version());
    if (!bad) {
        tessera_program_free(program);
        tessera_context_free(context);
    }
    return bad;
}
