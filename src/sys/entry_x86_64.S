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
        pushq   %rdx            /* a call that the return predictor does not see: nobody returns from here */
        jmpq    *%rax
1:      ud2
        .cfi_endproc
        .size   ci_context_entry, .-ci_context_entry
        .section .note.GNU-stack,"",@progbits
