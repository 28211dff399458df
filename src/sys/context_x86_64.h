/* System V x86-64: rbx, rbp, rsp, r12 to r15 are callee-saved. */
#ifndef CI_SYS_CONTEXT_X86_64_H
#define CI_SYS_CONTEXT_X86_64_H

CI_INLINE void ci_context_jump(struct ci_context *from, struct ci_context *to)
{
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "movq %%rsp, 0(%0)\n\t"
                     "movq %%rbp, 8(%0)\n\t"
                     "movq %%rax, 16(%0)\n\t"
                     "movq 8(%1), %%rbp\n\t"
                     "movq 0(%1), %%rsp\n\t"
                     "jmpq *16(%1)\n\t"
                     ".balign 16\n"
                     "1:\n\t"
                     "endbr64\n\t"
                     : "+D"(from), "+S"(to)
                     :
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                       "r15", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
                       "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
                       "xmm15"
#if defined(__AVX512F__)
                       ,
                       "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",
                       "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1",
                       "k2", "k3", "k4", "k5", "k6", "k7"
#endif
    );
}

CI_INLINE CI_NORETURN void ci_context_jump_away(const struct ci_context *to)
{
    __asm__ volatile("movq 8(%0), %%rbp\n\t"
                     "movq 0(%0), %%rsp\n\t"
                     "jmpq *16(%0)\n\t"
                     :
                     : "S"(to)
                     : "memory");
    __builtin_unreachable();
}

#endif
