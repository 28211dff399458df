/* The bottom frame of every fiber: unwinding ends here. */
        .text
        .globl  ci_context_entry
        .hidden ci_context_entry
        .type   ci_context_entry, @function
ci_context_entry:
        .cfi_startproc
        .cfi_undefined rip
        endbr64
        movq    %rbp, %rax
        xorl    %ebp, %ebp
        leaq    1f(%rip), %rdx
        pushq   %rdx            /* no call: its entry in the return predictor would never be used */
        jmpq    *%rax
1:      ud2
        .cfi_endproc
        .size   ci_context_entry, .-ci_context_entry
        .section .note.GNU-stack,"",@progbits

/* Ready for indirect branch tracking (IBT). Not for shadow stacks (SHSTK): a switch does not
 * exchange them. */
        .section .note.gnu.property,"a",@note
        .balign 8
        .long   4, 16, 5        /* the sizes of name and description; NT_GNU_PROPERTY_TYPE_0 */
        .asciz  "GNU"
        .long   0xc0000002, 4, 1, 0     /* GNU_PROPERTY_X86_FEATURE_1_AND, its size, IBT, padding */
