/* The bottom frame of every fiber: unwinding ends here. */
        .text
        .globl  ci_context_entry
        .hidden ci_context_entry
        .type   ci_context_entry, %function
ci_context_entry:
        .cfi_startproc
        .cfi_undefined x30
        hint    #36
        mov     x9, x29
        mov     x29, xzr
        adr     x30, 1f         /* a call that the return predictor does not see: nobody returns from here */
        br      x9
1:      brk     #1
        .cfi_endproc
        .size   ci_context_entry, .-ci_context_entry
        .section .note.GNU-stack,"",%progbits
