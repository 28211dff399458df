/* RISC-V LP64D: s0 (the frame pointer) to s11 and fs0 to fs11 are callee-saved; gp and tp are the
 * thread's. */
#ifndef CI_SYS_CONTEXT_RISCV64_H
#define CI_SYS_CONTEXT_RISCV64_H

CI_INLINE void ci_context_jump(struct ci_context *from_, struct ci_context *to_)
{
    register struct ci_context *from __asm__("a0") = from_;
    register struct ci_context *to __asm__("a1") = to_;
    __asm__ volatile("lla t0, 1f\n\t"
                     "sd sp, 0(a0)\n\t"
                     "sd s0, 8(a0)\n\t"
                     "sd t0, 16(a0)\n\t"
                     "ld t0, 16(a1)\n\t"
                     "ld s0, 8(a1)\n\t"
                     "ld sp, 0(a1)\n\t"
                     "jr t0\n"
                     "1:\n\t"
                     : "+r"(from), "+r"(to)
                     :
                     : "ra", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a2", "a3", "a4", "a5", "a6",
                       "a7", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11",
                       "memory", "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "ft8",
                       "ft9", "ft10", "ft11", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6",
                       "fa7", "fs0", "fs1", "fs2", "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9",
                       "fs10", "fs11");
}

CI_INLINE CI_NORETURN void ci_context_jump_away(const struct ci_context *to_)
{
    register const struct ci_context *to __asm__("a1") = to_;
    __asm__ volatile("ld t0, 16(a1)\n\t"
                     "ld s0, 8(a1)\n\t"
                     "ld sp, 0(a1)\n\t"
                     "jr t0\n\t"
                     :
                     : "r"(to)
                     : "memory");
    __builtin_unreachable();
}

#endif
