/* Switches between stacks: saves what the calling convention makes the callee keep, and nothing else.
 *
 *   void metalki_switch_context(void** save, void* load);
 *   metalki_start_context: where a new stack begins; calls one function with one argument and never returns.
 *
 * Floating-point control words are not switched: all contexts of a thread share them. */

#if defined(__x86_64__)

    .text
    .p2align 4
    .globl metalki_switch_context
    .hidden metalki_switch_context
    .type metalki_switch_context, @function
metalki_switch_context:
    .cfi_startproc
    pushq %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbp, 0
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
    pushq %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r12, 0
    pushq %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r13, 0
    pushq %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r14, 0
    pushq %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %r15, 0
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r15
    popq %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r14
    popq %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r13
    popq %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore %r12
    popq %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbx
    popq %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore %rbp
    ret
    .cfi_endproc
    .size metalki_switch_context, . - metalki_switch_context

/* r12: argument, r13: function */
    .p2align 4
    .globl metalki_start_context
    .hidden metalki_start_context
    .type metalki_start_context, @function
metalki_start_context:
    .cfi_startproc
    .cfi_undefined %rip
    movq %r12, %rdi
    xorl %ebp, %ebp
    call *%r13
    ud2
    .cfi_endproc
    .size metalki_start_context, . - metalki_start_context

#elif defined(__aarch64__)

    .text
    .p2align 4
    .globl metalki_switch_context
    .hidden metalki_switch_context
    .type metalki_switch_context, %function
metalki_switch_context:
    .cfi_startproc
    sub sp, sp, #160
    .cfi_def_cfa_offset 160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    .cfi_offset x29, -80
    .cfi_offset x30, -72
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    ret
    .cfi_endproc
    .size metalki_switch_context, . - metalki_switch_context

/* x19: argument, x20: function */
    .p2align 4
    .globl metalki_start_context
    .hidden metalki_start_context
    .type metalki_start_context, %function
metalki_start_context:
    .cfi_startproc
    .cfi_undefined x30
    mov x0, x19
    mov x29, xzr
    mov x30, xzr
    blr x20
    brk #1
    .cfi_endproc
    .size metalki_start_context, . - metalki_start_context

#else
#error "metalki's executor has no context switch for this processor"
#endif

    .section .note.GNU-stack, "", %progbits
