/* SPDX-License-Identifier: Apache-2.0 */
/* TARGET_CLONES("avx2") before a function: GCC compiles it for these instruction sets, too, and the
 * loader chooses one. Not with ThreadSanitizer, which the loader's choice precedes. */
#ifndef TESSERA_SUPPORT_TARGET_CLONES_H
#define TESSERA_SUPPORT_TARGET_CLONES_H

#if defined __x86_64__ && defined __GNUC__ && !defined __clang__ && !defined __SANITIZE_THREAD__
#define TARGET_CLONES(...) __attribute__((target_clones(__VA_ARGS__, "default")))
#else
#define TARGET_CLONES(...)
#endif

#endif
