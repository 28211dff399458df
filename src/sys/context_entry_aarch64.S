/* The bottom frame of every fiber: unwinding ends here. */
        .text
        .globl  ci_context_entry
        .hidden ci_context_entry
        .type   ci_context_entry, %function
ci_context_entry:
        .cfi_startproc
        .cfi_undefined x30
        hint    #36
        mov     x16, x29        /* a branch by x16 may land on the "bti c" of a function */
        mov     x29, xzr
        adr     x30, 1f         /* no call: its entry in the return predictor would never be used */
        br      x16
1:      brk     #1
        .cfi_endproc
        .size   ci_context_entry, .-ci_context_entry
        .section .note.GNU-stack,"",%progbits

/* Ready for branch target identification (BTI) and for signed return addresses (PAC). */
        .section .note.gnu.property,"a",%note
        .balign 8
        .long   4, 16, 5        /* the sizes of name and description; NT_GNU_PROPERTY_TYPE_0 */
        .asciz  "GNU"
        .long   0xc0000000, 4, 3, 0     /* GNU_PROPERTY_AARCH64_FEATURE_1_AND: BTI, PAC */
