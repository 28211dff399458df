/* AAPCS64: x19 to x28, the frame pointer x29 and the low halves of v8 to v15 are callee-saved.
 * Linux gives x18 to the compiler. */
#ifndef CI_SYS_CONTEXT_AARCH64_H
#define CI_SYS_CONTEXT_AARCH64_H

CI_INLINE void ci_context_jump(struct ci_context *from_, struct ci_context *to_)
{
    register struct ci_context *from __asm__("x0") = from_;
    register struct ci_context *to __asm__("x1") = to_;
    __asm__ volatile("adr x9, 1f\n\t"
                     "mov x10, sp\n\t"
                     "stp x10, x29, [x0]\n\t"
                     "str x9, [x0, #16]\n\t"
                     "ldp x10, x29, [x1]\n\t"
                     "ldr x16, [x1, #16]\n\t"
                     "mov sp, x10\n\t"
                     "br x16\n"
                     "1:\n\t"
                     "hint #36\n\t" /* bti j */
                     : "+r"(from), "+r"(to)
                     :
                     : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",
                       "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24",
                       "x25", "x26", "x27", "x28", "x30", "cc", "memory", "v0", "v1", "v2", "v3",
                       "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15",
                       "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26",
                       "v27", "v28", "v29", "v30", "v31");
}

CI_INLINE CI_NORETURN void ci_context_jump_away(const struct ci_context *to_)
{
    register const struct ci_context *to __asm__("x1") = to_;
    __asm__ volatile("ldp x10, x29, [x1]\n\t"
                     "ldr x16, [x1, #16]\n\t"
                     "mov sp, x10\n\t"
                     "br x16\n\t"
                     :
                     : "r"(to)
                     : "memory");
    __builtin_unreachable();
}

#endif
